//! What goes wrong, one thing after another and several at a time.
//!
//! How often each thing happens is drawn anew for every seed, and some never happen in it: what is
//! hidden among many faults shows where one kind of them is alone.

mod members;
mod nodes;
mod workers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bellwether_core::waist::Shard;
use parking_lot::Mutex;

use crate::chance::Chance;
use crate::disk::Disk;
use crate::links::Place;
use crate::node::Node;
use crate::steer;
use crate::worker::Worker;
use crate::world::World;

/// What can go wrong, and how often it does beside the others.
const FAULTS: [(Fault, u64); 13] = [
    (Fault::MachineDown, 6),
    (Fault::ProcessDown, 4),
    (Fault::StandStill, 4),
    (Fault::CutOff, 6),
    (Fault::BadLinks, 2),
    (Fault::Clock, 4),
    (Fault::PassOn, 4),
    (Fault::Member, 4),
    (Fault::Resize, 2),
    (Fault::HoldUp, 3),
    (Fault::Worker, 6),
    (Fault::LoseDisk, 2),
    (Fault::TearCopy, 2),
];

/// Nodes that come later have numbers from here on.
const NEWCOMERS: Place = 10;

/// Something that can go wrong.
#[derive(Clone, Copy)]
enum Fault {
    MachineDown,
    ProcessDown,
    StandStill,
    CutOff,
    BadLinks,
    Clock,
    PassOn,
    Member,
    Resize,
    HoldUp,
    Worker,
    LoseDisk,
    TearCopy,
}

/// Whoever makes things go wrong, and right again.
pub struct Nemesis {
    world: Arc<World>,
    disks: Mutex<BTreeMap<Place, Arc<Disk>>>,
    workers: Vec<Arc<Worker>>,
    chance: Mutex<Chance>,
    weights: Vec<u64>,
    /// Nodes that stand still.
    paused: Mutex<BTreeSet<Place>>,
    /// Whether a node is lost whose place has not been taken everywhere.
    lost: AtomicBool,
    /// The number of the next node that comes: none is ever given twice.
    newcomers: AtomicU64,
    /// Partitions that are under way.
    parted: AtomicU64,
}

impl Nemesis {
    /// One who knows where everything is.
    pub fn new(
        world: &Arc<World>,
        disks: BTreeMap<Place, Arc<Disk>>,
        workers: Vec<Arc<Worker>>,
    ) -> Arc<Nemesis> {
        let mut chance = world.fork();
        let often = |(_, base): (Fault, u64)| base * [0, 1, 1, 4][chance.below(4) as usize];
        let mut weights: Vec<u64> = FAULTS.into_iter().map(often).collect();
        if weights.iter().all(|weight| *weight == 0) {
            weights = FAULTS.iter().map(|(_, base)| *base).collect();
        }
        Arc::new(Nemesis {
            world: world.clone(),
            disks: Mutex::new(disks),
            workers,
            chance: Mutex::new(chance),
            weights,
            paused: Mutex::default(),
            lost: AtomicBool::new(false),
            newcomers: AtomicU64::new(NEWCOMERS),
            parted: AtomicU64::new(0),
        })
    }

    fn below(&self, below: u64) -> u64 {
        self.chance.lock().below(below)
    }

    fn ms(&self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.chance.lock().between(from, to))
    }

    fn tell(&self, what: std::fmt::Arguments<'_>) {
        self.world.trace.tell(format_args!("-- {what}"));
    }

    /// Any node; more often than not one that leads.
    fn some_node(&self) -> Place {
        let leader = steer::leader(&self.world, self.some_shard()).filter(|_| self.below(2) == 0);
        let any = || self.chance.lock().of(&self.world.places()).copied().unwrap_or(1);
        leader.map_or_else(any, |node| node.id)
    }

    fn some_shard(&self) -> Shard {
        self.below(u64::from(self.world.shards)) as Shard
    }

    /// Makes one thing after another go wrong, for ever.
    pub async fn run(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.ms(300, 4_000)).await;
            let node = self.some_node();
            let fault = self.chance.lock().weighed(&self.weights);
            match FAULTS[fault].0 {
                Fault::MachineDown => self.spawn(async move |own| own.down(node, true).await),
                Fault::ProcessDown => self.spawn(async move |own| own.down(node, false).await),
                Fault::StandStill => self.spawn(async move |own| own.pause(node).await),
                Fault::CutOff => self.spawn(async move |own| own.part(node).await),
                Fault::BadLinks => self.spawn(async move |own| own.disturb().await),
                Fault::Clock => self.set_clock(node),
                Fault::PassOn => self.transfer(self.some_shard(), None),
                Fault::Member => self.change_members(),
                Fault::Resize => self.spawn(async move |own| own.resize().await),
                Fault::HoldUp => self.spawn(async move |own| own.hold_up().await),
                Fault::Worker => self.spawn(async move |own| own.hurt_worker().await),
                Fault::LoseDisk => self.spawn(async move |own| own.lose_disk(node).await),
                Fault::TearCopy => self.spawn(async move |own| own.tear_copy(node).await),
            }
        }
    }

    fn spawn<F>(self: &Arc<Self>, what: impl FnOnce(Arc<Nemesis>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        tokio::spawn(what(self.clone()));
    }

    async fn boot(&self, id: Place) {
        let Some(disk) = self.disks.lock().get(&id).cloned() else { return };
        if self.world.node(id).is_some() {
            return; // Somebody else was faster.
        }
        self.tell(format_args!("node {id} starts"));
        if let Err(error) = Node::boot(&self.world, id, disk).await {
            self.world.record.lock().wrong(error);
        }
    }

    /// Makes everything go right again.
    pub async fn heal(&self) {
        self.tell(format_args!("everything is mended"));
        self.world.links.mend();
        self.world.links.disturb(0, 0, 0);
        self.world.stalls.store(false, Ordering::Relaxed);
        self.paused.lock().clear();
        let disks: Vec<(Place, Arc<Disk>)> =
            self.disks.lock().iter().map(|(id, disk)| (*id, disk.clone())).collect();
        for (id, disk) in disks {
            self.world.skew(id, 0);
            if disk.tables.has_failed() {
                self.break_down(id, true);
            }
            disk.tables.fail_in_copy(None);
            match self.world.node(id) {
                Some(node) => node.scope.resume(),
                None => self.boot(id).await,
            }
        }
        for worker in &self.workers {
            worker.resume();
            worker.come_back();
        }
    }

    /// Whether a node is lost whose place has not been taken everywhere.
    #[must_use]
    pub fn misses_one(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }
}
