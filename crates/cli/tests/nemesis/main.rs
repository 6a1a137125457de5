//! Clusters of real processes in network namespaces, to which everything happens that can: processes and
//! machines die, stand still, are cut off in one direction or both, have full disks and wrong clocks.
//! Meanwhile jobs of all kinds are asked for, and what they really do is written down outside of
//! the cluster. In the end what the cluster says is held against that.
//!
//! Guards R64/R65/R66 (deliveries), R67 (replicas), R70 (what was acknowledged is there), R71 (every tick is
//! in the ledger once), R72 (ordering keys), R92 (a leader that was replaced acts no more),
//! R116/R117/R123/R125 (what may fail).
//!
//! `NEMESIS_SECONDS` says for how long, `NEMESIS_SEED` by which random choices, `NEMESIS_SHOW=1` tells what
//! happens as it does; `make soak` is the long version. Only root can make namespaces: others are told
//! that nothing was tested.

#![allow(clippy::unwrap_used)]

mod check;
mod clock;
mod disk;
mod faults;
mod history;
mod load;
mod nemesis;
mod net;
#[path = "../kill/random.rs"]
mod random;
mod record;
mod replicas;
mod restarts;
mod server;

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use history::History;
use load::Load;
use nemesis::Nemesis;
use random::{Random, setting};
use record::Record;
use server::{Cluster, Shape};
use tempfile::TempDir;

/// Clusters that may run at the same time: more would be measuring the machine.
static AT_ONCE: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(2);
/// Why there can be no clusters here, if that is so. Looked at once: it makes and removes things.
static MISSING: LazyLock<Option<String>> = LazyLock::new(|| {
    let missing = net::missing().or_else(clock::missing);
    if missing.is_none() {
        net::remove_left_overs();
    }
    missing
});

/// Where a test has its files, which are kept if it fails.
struct Place {
    dir: Option<TempDir>,
    _turn: tokio::sync::SemaphorePermit<'static>,
}

impl Place {
    fn path(&self) -> &Path {
        self.dir.as_ref().unwrap().path()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(dir) = self.dir.take()
        {
            println!("logs and the record are kept in {}", dir.keep().display());
        }
    }
}

/// A place for a test, unless it cannot be run here.
async fn place(test: &str) -> Option<Place> {
    let turn = AT_ONCE.acquire().await.unwrap();
    if let Some(why) = &*MISSING {
        println!("SKIPPED: {test}: {why}");
        return None;
    }
    Some(Place { dir: Some(tempfile::tempdir().unwrap()), _turn: turn })
}

fn seed() -> u64 {
    setting("NEMESIS_SEED", u64::from(rand::random::<u32>()))
}

/// Lets a nemesis loose on a cluster under load, and checks everything.
async fn rage(test: &'static str, shape: Shape, lasting: Duration, skew_max: i64) {
    let Some(place) = place(test).await else { return };
    let seed = seed();
    let mut random = Random::new(seed);
    let history = History::new(test, seed, place.path().to_owned());
    let cluster = Cluster::start(place.path(), shape, history).await;
    let record = Record::begin(place.path(), &cluster.net.outside()).await;
    let mut load = Load::new(&cluster, &record);
    load.add_recurring(6).await;
    let mut nemesis = Nemesis::new(&cluster, random.below(1 << 40), skew_max);
    let raging = async {
        nemesis.rage(lasting).await;
        load.end();
    };
    let tested = async {
        tokio::join!(raging, load.keep_creating(&mut random));
        cluster.settled().await;
        load.stop_recurring().await;
        check::until_all_ended(&cluster, &load).await;
        check::all(&cluster, &load, &record).await
    };
    let tally = tokio::select! {
        tally = tested => tally,
        () = cluster.supervise() => unreachable!("it goes on for ever"),
    };
    let rows = replicas::compare(&cluster).await;
    println!("{test}: {tally:?}, {rows} rows of replicas are equal");
    let least = lasting.as_secs() as usize / 2;
    assert!(tally.acknowledged > least && tally.ticks > 3 * least, "too little load: {tally:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r64_r70_r71_r72_three_nodes_bear_whatever_happens() {
    let lasting = Duration::from_secs(setting("NEMESIS_SECONDS", 25));
    let skew_max = if lasting.as_secs() > 100 { 60 } else { 5 };
    let shape = Shape { zones: vec!["x", "y", "z"], clocks: true };
    rage("r64_r70_r71_r72_three_nodes_bear_whatever_happens", shape, lasting, skew_max).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r64_r70_r71_r72_five_nodes_bear_whatever_happens() {
    let lasting = Duration::from_secs(setting("NEMESIS_SECONDS", 15));
    let skew_max = if lasting.as_secs() > 100 { 60 } else { 5 };
    let shape = Shape { zones: vec!["x", "x", "y", "y", "z"], clocks: true };
    rage("r64_r70_r71_r72_five_nodes_bear_whatever_happens", shape, lasting, skew_max).await;
}
