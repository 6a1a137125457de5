//! Everything that is simulated, and how one part of it reaches another.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bellwether_core::time::Time;
use bellwether_core::waist::Shard;
use parking_lot::Mutex;
use tokio::sync::mpsc::UnboundedSender;

use crate::chance::Chance;
use crate::links::{Links, Place};
use crate::message::{ToShard, ToWorker};
use crate::mutant::Mutant;
use crate::node::Node;
use crate::record::Record;
use crate::trace::Trace;

/// The wall clock at the beginning: the first of January 2026.
const ZERO_MS: i64 = 1_767_225_600_000;

/// The simulated world.
pub struct World {
    /// What happens.
    pub trace: Trace,
    /// The network.
    pub links: Links,
    /// What is known from outside.
    pub record: Mutex<Record>,
    /// A mistake that is made on purpose.
    pub mutant: Option<Mutant>,
    /// How many shards there are.
    pub shards: Shard,
    /// Whether leaders take their time between deciding and committing.
    pub stalls: AtomicBool,
    /// Whether leaders do nothing more, so that replicas can be compared.
    pub rests: AtomicBool,
    /// Whether attempts take long more often than not.
    pub long_work: bool,
    /// Where nodes receive copies of shards.
    pub dir: PathBuf,
    chance: Mutex<Chance>,
    /// By how much the clocks of nodes are wrong.
    skews_ms: Mutex<BTreeMap<Place, i64>>,
    /// Nodes that exist, whether they are up or not.
    places: Mutex<BTreeSet<Place>>,
    /// Nodes that are up.
    nodes: Mutex<BTreeMap<Place, Arc<Node>>>,
    /// Workers whose process is up.
    workers: Mutex<BTreeMap<Place, UnboundedSender<ToWorker>>>,
}

impl World {
    /// A world without anybody in it.
    #[must_use]
    pub fn new(
        mut chance: Chance,
        shards: Shard,
        mutant: Option<Mutant>,
        dir: PathBuf,
        print: bool,
    ) -> Arc<World> {
        Arc::new(World {
            long_work: chance.one_in(3),
            dir,
            trace: Trace::new(print),
            links: Links::new(chance.fork()),
            record: Mutex::default(),
            mutant,
            shards,
            stalls: AtomicBool::new(false),
            rests: AtomicBool::new(false),
            chance: Mutex::new(chance),
            skews_ms: Mutex::default(),
            places: Mutex::default(),
            nodes: Mutex::default(),
            workers: Mutex::default(),
        })
    }

    /// A source of choices for a part of the world.
    pub fn fork(&self) -> Chance {
        self.chance.lock().fork()
    }

    /// The present by the clock of a node, or by the true one if it is none.
    #[must_use]
    pub fn now(&self, place: Place) -> Time {
        let skew_ms = self.skews_ms.lock().get(&place).copied().unwrap_or(0);
        let elapsed_ms = i64::try_from(self.trace.elapsed_ms()).unwrap_or(i64::MAX);
        Time(ZERO_MS + elapsed_ms + skew_ms)
    }

    /// Sets the clock of a node wrong, and says by how much it was before.
    pub fn skew(&self, node: Place, ms: i64) -> i64 {
        self.skews_ms.lock().insert(node, ms).unwrap_or(0)
    }

    /// Something happened of which it is counted how often it does.
    pub fn saw(&self, what: &'static str) {
        self.record.lock().coverage.saw(what);
    }

    /// Nodes that exist, whether they are up or not.
    #[must_use]
    pub fn places(&self) -> Vec<Place> {
        self.places.lock().iter().copied().collect()
    }

    /// A node exists from here on.
    pub fn exists(&self, node: Place) {
        self.places.lock().insert(node);
    }

    /// A node will never come back.
    pub fn is_gone(&self, node: Place) {
        self.places.lock().remove(&node);
    }

    /// Sends something: it arrives later, perhaps twice or never.
    pub fn send(
        self: &Arc<Self>,
        what: &'static str,
        (from, to): (Place, Place),
        deliver: impl Fn(&Arc<World>) + Send + Sync + 'static,
    ) {
        let fate = self.links.fate(from, to);
        let deliver = Arc::new(deliver);
        for after in [fate.after, fate.again].into_iter().flatten() {
            let (world, deliver) = (self.clone(), deliver.clone());
            tokio::spawn(async move {
                tokio::time::sleep(after).await;
                world.trace.note(what, [from, to, 0]);
                deliver(&world);
            });
        }
    }

    /// Sends something to whoever leads a shard, by way of a node.
    pub fn send_to_shard(
        self: &Arc<Self>,
        what: &'static str,
        (from, node): (Place, Place),
        shard: Shard,
        message: ToShard,
    ) {
        self.send(what, (from, node), move |world| {
            if let Some(node) = world.node(node) {
                node.take(shard, message.clone());
            }
        });
    }

    /// Sends something to a worker.
    pub fn send_to_worker(
        self: &Arc<Self>,
        what: &'static str,
        (from, worker): (Place, Place),
        message: ToWorker,
    ) {
        self.send(what, (from, worker), move |world| {
            if let Some(inbox) = world.workers.lock().get(&worker) {
                let _ = inbox.send(message.clone());
            }
        });
    }

    /// A node that is up.
    #[must_use]
    pub fn node(&self, node: Place) -> Option<Arc<Node>> {
        self.nodes.lock().get(&node).cloned()
    }

    /// All nodes that are up.
    #[must_use]
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.lock().values().cloned().collect()
    }

    /// A node has come up.
    pub fn up(&self, node: Arc<Node>) {
        self.nodes.lock().insert(node.id, node);
    }

    /// A node is no more.
    pub fn down(&self, node: Place) -> Option<Arc<Node>> {
        self.nodes.lock().remove(&node)
    }

    /// The process of a worker has come up.
    pub fn worker_up(&self, worker: Place, inbox: UnboundedSender<ToWorker>) {
        self.workers.lock().insert(worker, inbox);
    }

    /// The process of a worker is no more.
    pub fn worker_down(&self, worker: Place) {
        self.workers.lock().remove(&worker);
    }
}
