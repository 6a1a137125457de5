//! Jobs of many shards that tick every second and want every tick, whoever leads them.

use std::time::SystemTime;

use bellwether_api::{JobSpec, PauseRequest, Tick, TickFate};
use bellwether_client::PageFilter;
use bellwether_core::time::Time;
use futures::TryStreamExt;

use crate::insist::insist;
use crate::server::Server;

/// How many there are: enough for each node to lead some of them.
const JOBS: usize = 12;
/// How late a tick may come on a busy machine when its leader was killed. What is aimed at, and measured by
/// `bellwether bench --only failover`, is 4 s.
const LATE_MAX_MS: u64 = 15_000;

/// What ticks, and since when.
pub struct Ticking {
    jobs: Vec<String>,
    at: Time,
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Time(i64::try_from(since.as_millis()).unwrap())
}

/// Creates them.
pub async fn begin(server: &Server) -> Ticking {
    let mut jobs = Vec::new();
    for n in 0..JOBS {
        let spec = serde_json::json!({
            "key": format!("tick-{n}"), "schedule": {"every": "1s"}, "job_type": "bellwether.noop",
            "overlap": "allow", "misfire": {"policy": "all"}, "retention": {"runs": 100_000},
        });
        let spec: JobSpec = serde_json::from_value(spec).unwrap();
        let created = insist(async || server.client.create_job(spec.clone()).await).await;
        jobs.push(created.job.info.id);
    }
    Ticking { jobs, at: now() }
}

/// Ends them, and checks that every second led to a run of its own, and soon.
pub async fn none_missed(server: &Server, begun: &Ticking) {
    let (mut count, mut worst_ms) = (0, 0);
    for job in &begun.jobs {
        let why = PauseRequest::default();
        insist(async || server.client.pause_job(job, &why).await).await;
        let ticks: Vec<Tick> =
            server.client.ticks_all(job, PageFilter::default()).try_collect().await.unwrap();
        let paused_at = now();
        let mut expected = ticks.last().unwrap().at.0;
        assert!(
            expected.since_ms(begun.at) <= 2_000,
            "R117: {job} ticks from {expected:?} on only"
        );
        for tick in ticks.iter().rev() {
            assert_eq!(tick.at.0, expected, "R117: a gap or a repetition before {tick:?} of {job}");
            assert!(
                tick.count == 1 && matches!(tick.fate, TickFate::Fired | TickFate::Late),
                "R117: {tick:?} of {job} led to no run of its own"
            );
            let late_ms = tick.decided_at.0.since_ms(tick.at.0);
            assert!(late_ms < LATE_MAX_MS, "R93: {tick:?} of {job} came {late_ms} ms late");
            worst_ms = worst_ms.max(late_ms);
            count += 1;
            expected = expected.plus_ms(1_000);
        }
        let silent_ms = paused_at.since_ms(expected);
        assert!(silent_ms < LATE_MAX_MS, "R117: {job} ticked no more for {silent_ms} ms");
    }
    println!("{count} ticks of {} jobs, none missed, {worst_ms} ms late at most", begun.jobs.len());
}
