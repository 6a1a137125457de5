//! Clusters of real processes in network namespaces, to which everything happens that can: processes and
//! machines die, stand still, are cut off in one direction or both, have full disks and wrong clocks.
//! Meanwhile jobs of all kinds are asked for, and what they really do is written down outside of
//! the cluster. In the end what the cluster says is held against that.
//!
//! Guards R64/R65/R66 (deliveries), R69 (replicas are equal, jobs are linearizable), R70 (what was acknowledged is there), R71 (every tick is
//! in the ledger once), R72 (ordering keys), R92 (a leader that was replaced acts no more),
//! R116/R117/R123/R125 (what may fail).
//!
//! `NEMESIS_SECONDS` says for how long, `NEMESIS_SEED` by which random choices, `NEMESIS_SHOW=1` tells what
//! happens as it does; `make soak` is the long version. Only root can make namespaces: others are told
//! that nothing was tested, and fail with `NEMESIS_REQUIRED=1`.

#![allow(clippy::unwrap_used)]

mod check;
mod clients;
mod clock;
mod disk;
mod faults;
mod history;
mod linearizable;
mod load;
mod nemesis;
mod net;
mod order;
mod overlap;
#[path = "../kill/random.rs"]
mod random;
mod record;
mod register;
mod replicas;
mod restarts;
mod server;
#[path = "../../../worker/tests/common/skipped.rs"]
mod skipped;
mod staleness;
mod trial;
mod worker;

use std::time::Duration;

use clients::Clients;
use nemesis::{Fault, Nemesis};
use random::{Random, setting};
use server::Shape;
use trial::Trial;

/// Lets a nemesis loose on a cluster under load, which begins with some kinds of faults, and checks everything.
async fn rage(test: &'static str, shape: Shape, lasting: Duration, first: &[Fault]) {
    let skew_max = if lasting.as_secs() > 100 { 60 } else { 5 };
    let Some(trial) = Trial::begin(test, shape).await else { return };
    let (cluster, mut random) = (&trial.cluster, Random::new(trial.seed));
    let load = trial.load(6).await;
    let mut nemesis = Nemesis::new(cluster, &load, &trial.record, random.below(1 << 40), skew_max);
    let (clients, seed) = (Clients::new(cluster), random.below(1 << 40));
    let raging = async {
        nemesis.rage(lasting, first).await;
        load.end();
        clients.end();
    };
    let tested = async {
        tokio::join!(raging, load.keep_creating(&mut random), clients.keep_asking(seed));
        cluster.settled().await;
        let figures = clients.checked().await;
        println!("{test}: jobs are linearizable: {figures:?}");
        (figures, trial.checked(&load).await)
    };
    let (figures, tally) = tokio::select! {
        checked = tested => checked,
        () = cluster.supervise() => unreachable!("it goes on for ever"),
    };
    trial.compared(&tally).await;
    let least = lasting.as_secs() as usize / 2;
    assert!(tally.acknowledged > least && tally.ticks > 3 * least, "too little load: {tally:?}");
    assert!(
        figures.looks > 6 * least && figures.changes > 3 * least,
        "too little load: {figures:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r64_r70_r71_r72_three_nodes_bear_whatever_happens() {
    let lasting = Duration::from_secs(setting("NEMESIS_SECONDS", 25));
    let shape = Shape { clocks: true, certificates: true, ..Shape::of(&["x", "y", "z"]) };
    // What does not come first here does with five nodes.
    let first =
        [Fault::Skew, Fault::Kill, Fault::Pause, Fault::Isolate, Fault::FillDisk, Fault::Stop];
    rage("r64_r70_r71_r72_three_nodes_bear_whatever_happens", shape, lasting, &first).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r64_r70_r71_r72_five_nodes_bear_whatever_happens() {
    let lasting = Duration::from_secs(setting("NEMESIS_SECONDS", 15));
    let shape = Shape { clocks: true, worker: true, ..Shape::of(&["x", "x", "y", "y", "z"]) };
    let [kill, pause, cut] = [Fault::KillWorker, Fault::PauseWorker, Fault::CutWorker];
    let first = [Fault::KillMachine, Fault::Deaf, Fault::Mute, Fault::Split, kill, pause, cut];
    rage("r64_r70_r71_r72_five_nodes_bear_whatever_happens", shape, lasting, &first).await;
}
