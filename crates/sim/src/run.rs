//! One run of the simulation.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bellwether_core::waist::Shard;

use crate::chance::Chance;
use crate::check::{check, has_settled};
use crate::client::Client;
use crate::coverage::Coverage;
use crate::disk::Disk;
use crate::links::{CLIENTS, Place, WORKERS};
use crate::mutant::Mutant;
use crate::nemesis::Nemesis;
use crate::node::{Node, peer};
use crate::worker::Worker;
use crate::world::World;

/// Nodes that form the cluster at the beginning.
const FOUNDERS: u64 = 3;
/// How long it takes at most until a new cluster has its leaders.
const BEGIN: Duration = Duration::from_secs(5);
/// How long everything is well before it is looked at, at most; less, if all has come to its end.
const REST: Duration = Duration::from_secs(45);
/// As long as workers that have too much to do go on starting things, so long at most.
const BUSY: Duration = Duration::from_secs(300);
/// How long at least.
const REST_MIN: Duration = Duration::from_secs(12);
/// How often it is looked whether it has.
const LOOK: Duration = Duration::from_secs(3);
/// How long replicas may be behind after that.
const COMPARE: Duration = Duration::from_secs(3);

/// What came of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// What must not have been; empty if all is well.
    pub wrong: Vec<String>,
    /// A hash of all that happened.
    pub hash: u64,
    /// How much happened.
    pub events: u64,
    /// Jobs that were acknowledged.
    pub jobs: u64,
    /// Attempts that were started.
    pub starts: u64,
    /// Times that a shard was taken over.
    pub take_overs: u64,
    /// Requests that were answered.
    pub answers: u64,
    /// What happened how often.
    pub coverage: Coverage,
}

/// Runs a whole cluster for about two minutes of its own time. The seed decides everything.
///
/// # Panics
/// When there can be no runtime, or no directory for files.
#[must_use]
pub fn simulate(seed: u64, mutant: Option<Mutant>, print: bool) -> Outcome {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    // Files are synced: in memory, where there is such a place, that costs nothing.
    let memory = Path::new("/dev/shm");
    let dir = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir());
    match (runtime, dir) {
        (Ok(runtime), Ok(dir)) => runtime.block_on(live(seed, mutant, dir.path(), print)),
        (Err(error), _) => panic!("there is no runtime: {error}"),
        (_, Err(error)) => panic!("there is no directory: {error}"),
    }
}

async fn live(seed: u64, mutant: Option<Mutant>, dir: &Path, print: bool) -> Outcome {
    let mut chance = Chance::new(seed);
    let nodes = if chance.one_in(2) { 3 } else { 5 };
    let shards = 1 + chance.below(3) as Shard;
    let chaos = Duration::from_millis(chance.between(20_000, 60_000));
    let worker_count = 2 + chance.below(3);
    let world = World::new(chance.fork(), shards, mutant, dir.to_owned(), print);
    let disks: BTreeMap<Place, Arc<Disk>> =
        (1..=nodes).map(|id| (id, Arc::new(Disk::new(dir, id)))).collect();
    for (id, disk) in &disks {
        world.exists(*id);
        if let Err(error) = Node::boot(&world, *id, disk.clone()).await {
            world.record.lock().wrong(error);
        }
    }
    found(&world).await;
    let workers: Vec<Arc<Worker>> =
        (0..worker_count).map(|n| Worker::start(&world, WORKERS + n)).collect();
    let nemesis = Nemesis::new(&world, disks, workers);
    tokio::time::sleep(BEGIN).await;
    let clients: Vec<_> =
        (0..3).map(|n| tokio::spawn(Client::new(&world, CLIENTS + n).run())).collect();
    let harm = tokio::spawn(nemesis.clone().run());
    tokio::time::sleep(chaos).await;
    harm.abort();
    clients.iter().for_each(tokio::task::JoinHandle::abort);
    // What is under way comes back by itself within this time; the rest is mended after it.
    tokio::time::sleep(Duration::from_secs(16)).await;
    nemesis.heal().await;
    let (healed, since) = (tokio::time::Instant::now(), world.now(0));
    tokio::time::sleep(REST_MIN).await;
    let starts = || world.record.lock().starts.values().sum::<u32>();
    let mut last = (starts(), tokio::time::Instant::now());
    while !has_settled(&world, &nemesis, since) {
        tokio::time::sleep(LOOK).await;
        if starts() > last.0 {
            last = (starts(), tokio::time::Instant::now());
        }
        if healed.elapsed() >= BUSY || healed.elapsed() >= REST && last.1.elapsed() >= REST_MIN {
            break;
        }
    }
    world.rests.store(true, Ordering::Relaxed);
    tokio::time::sleep(COMPARE).await;
    check(&world, &nemesis);
    outcome(&world)
}

/// Makes the first nodes a cluster.
async fn found(world: &Arc<World>) {
    let founders: BTreeMap<u64, _> = (1..=FOUNDERS).map(|id| (id, peer())).collect();
    let Some(first) = world.node(1) else { return };
    for shard in 0..world.shards {
        if let Some(group) = first.group(shard)
            && let Err(error) = group.initialize(founders.clone()).await
        {
            world.record.lock().wrong(format!("the cluster cannot be founded: {error}"));
        }
    }
}

fn outcome(world: &World) -> Outcome {
    let record = world.record.lock();
    let (hash, events) = world.trace.hash();
    Outcome {
        wrong: record.all_wrong().to_vec(),
        hash,
        events,
        jobs: record.jobs.len() as u64,
        starts: record.starts.values().map(|count| u64::from(*count)).sum(),
        take_overs: record.take_overs,
        answers: record.answers,
        coverage: record.coverage.clone(),
    }
}
