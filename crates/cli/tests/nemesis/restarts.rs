//! Planned restarts.

use std::time::{Duration, Instant};

use bellwether_api::{RunStatus, Tick, TickFate};

use crate::check::{contiguous, ledger};
use crate::load::Recurring;
use crate::server::{Cluster, Shape};
use crate::trial::Trial;

/// How long one node may take to be back.
const RESTART_WITHIN: Duration = Duration::from_secs(60);
/// How late a run may be started.
const START_WITHIN_MS: u64 = 3_000;

/// R117: nodes are restarted one after the other, and no tick is missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r117_all_nodes_are_restarted_one_after_the_other_and_no_tick_is_missed() {
    let test = "r117_all_nodes_are_restarted_one_after_the_other_and_no_tick_is_missed";
    let shape = Shape { zones: vec!["", "", ""], clocks: false };
    let Some(trial) = Trial::begin(test, shape).await else { return };
    let (cluster, load) = (&trial.cluster, trial.load(6).await);
    for at in 0..cluster.len() {
        let begun = Instant::now();
        cluster.history.note(format!("{} is restarted", cluster.name(at)));
        cluster.stop(at).await;
        cluster.start_node(at);
        cluster.until_ready(at).await;
        cluster.settled().await;
        assert!(begun.elapsed() < RESTART_WITHIN, "it took {:?}", begun.elapsed());
    }
    let tally = trial.checked(&load).await;
    assert_eq!(tally.lost, 0, "what ran was finished or handed over: {tally:?}");
    for job in &load.recurring {
        let mut ticks = ledger(cluster, job).await;
        ticks.reverse();
        contiguous(job, &ticks);
        for tick in &ticks {
            if !matches!(tick.fate, TickFate::Fired | TickFate::Late) {
                was_running(cluster, job, tick).await;
            }
        }
    }
    println!("{test}: {tally:?}");
}

/// A machine with much to do takes more than a second for a command now and then, and the job says that
/// no other one is started meanwhile. But it must have been started in time.
async fn was_running(cluster: &Cluster, job: &Recurring, tick: &Tick) {
    assert_eq!(tick.reason.as_deref(), Some("overlap"), "R117: {tick:?} of {}", job.key);
    let open = tick.detail.as_deref().and_then(|detail| detail.split(' ').next()).unwrap();
    let run = cluster.anywhere("the open run", async |client| client.run(open).await).await;
    let started = run.started_at.unwrap().0.since_ms(run.scheduled_at.0);
    assert!(
        run.status == RunStatus::Succeeded && started < START_WITHIN_MS,
        "R117: {tick:?} of {} while {run:#?}",
        job.key
    );
}
