//! Planned restarts.

use std::time::{Duration, Instant};

use bellwether_api::TickFate;

use crate::check::{contiguous, ledger};
use crate::server::Shape;
use crate::trial::Trial;

/// How long one node may take to be back.
const RESTART_WITHIN: Duration = Duration::from_secs(60);

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
            let launched = matches!(tick.fate, TickFate::Fired | TickFate::Late);
            assert!(launched, "R117: {tick:?} of {}", job.key);
        }
    }
    println!("{test}: {tally:?}");
}
