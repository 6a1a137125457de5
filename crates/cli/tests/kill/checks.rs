//! Holding what the server says against what really ran.

use std::collections::BTreeMap;
use std::path::Path;

use bellwether_api::{JobStatus, RunStatus, Tick, TickFate};
use bellwether_client::PageFilter;
use futures::TryStreamExt;

use crate::server::Server;
use crate::work::{Kind, Promises};

/// How late a tick may be on a machine that is busy.
const LATE_MAX_MS: i64 = 15_000;

/// How often each run was really started, and under which tokens.
type Ran = BTreeMap<String, Vec<u64>>;

fn read(record: &Path) -> Ran {
    let mut ran = Ran::new();
    for line in std::fs::read_to_string(record).unwrap().lines() {
        let parts: Vec<&str> = line.split(' ').collect();
        assert_eq!(parts.len(), 3, "a torn line in the record: {line}");
        ran.entry(parts[0].to_owned()).or_default().push(parts[2].parse().unwrap());
    }
    ran
}

/// Checks everything. How many jobs had been acknowledged.
pub async fn all(server: &Server, promises: &Promises, record: &Path) -> usize {
    let ran = read(record);
    let mut lost = 0;
    for promise in &promises.jobs {
        let job = server.client.job(&promise.id).await.unwrap();
        let run = job.info.id.replacen("job_", "run_", 1) + "-1";
        let times = ran.get(&run).map_or(0, Vec::len);
        let detail = format!("{promise:?} ran {times} times and is {:?}", job.info.last_run);
        match promise.kind {
            Kind::AtMostOnce | Kind::Ordered => {
                assert!(times <= 1, "R64/R65, launched twice: {detail}");
                match job.info.status {
                    JobStatus::Completed => assert_eq!(times, 1, "said to have run: {detail}"),
                    JobStatus::Failed => {
                        let last = job.info.last_run.map(|run| run.status);
                        assert_eq!(last, Some(RunStatus::Lost), "{detail}");
                        lost += 1;
                    }
                    _ => panic!("neither run nor lost: {detail}"),
                }
            }
            Kind::AtLeastOnce => {
                assert_eq!(job.info.status, JobStatus::Completed, "R66: {detail}");
                assert!(times >= 1, "R66, said to have run: {detail}");
            }
        }
    }
    for (run, tokens) in &ran {
        let rising = tokens.windows(2).all(|two| two[0] < two[1]);
        assert!(rising, "tokens of {run} do not rise: {tokens:?}");
    }
    for job in &promises.recurring {
        recurring(server, job, promises, &ran).await;
    }
    println!("{} runs on record, {lost} lost under at_most_once", ran.len());
    promises.jobs.len()
}

/// Every second from when a job was created until it was paused is in the ledger exactly once, and no tick ran twice.
async fn recurring(server: &Server, job: &str, promises: &Promises, ran: &Ran) {
    let mut ticks: Vec<Tick> =
        server.client.ticks_all(job, PageFilter::default()).try_collect().await.unwrap();
    ticks.reverse();
    let (since, until) = (promises.since.unwrap(), promises.until.unwrap());
    let mut expected = ticks.first().unwrap().at.0.0;
    let after_ms = expected - since.as_millisecond();
    assert!(after_ms <= 1_000, "R71: {job} ticks from {after_ms} ms after it was created on");
    for tick in &ticks {
        assert_eq!(tick.at.0.0, expected, "R71: a gap or a repetition before {tick:?} of {job}");
        let last = tick.until.map_or(tick.at.0.0, |until| until.0.0);
        assert_eq!(last - tick.at.0.0, i64::from(tick.count - 1) * 1_000, "{tick:?}");
        expected = last + 1_000;
        if matches!(tick.fate, TickFate::Fired | TickFate::Late) {
            let run = tick.run_id.as_ref().unwrap();
            let times = ran.get(run).map_or(0, Vec::len);
            assert!(times <= 1, "R64/R65: {run} was launched {times} times");
            let status = server.client.run(run).await.unwrap().status;
            match status {
                RunStatus::Succeeded => assert_eq!(times, 1, "{run} is said to have run"),
                RunStatus::Lost => {}
                other => panic!("{run} is {other:?}"),
            }
        }
    }
    let silent_ms = until.as_millisecond() - expected;
    assert!(silent_ms < LATE_MAX_MS, "R71: {job} ticked no more for {silent_ms} ms");
    println!("{job}: {} rows in the ledger", ticks.len());
}
