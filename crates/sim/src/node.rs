//! A node: its groups of Raft, its shards, and its way to pass on what it is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bellwether_core::waist::Shard;
use bellwether_raft::engine;
use bellwether_raft::log::{Log, LogOptions, Pump};
use bellwether_raft::machine::Machine;
use bellwether_raft::runtime::Scope;
use bellwether_raft::snapshot::Receiving;
use bellwether_raft::storage::LogStore;
use bellwether_raft::types::{Peer, Types};
use bellwether_store::Tables;
use openraft::async_runtime::WatchReceiver;
use openraft::{Config, RaftMetrics, SnapshotPolicy};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::chance::Chance;
use crate::disk::Disk;
use crate::links::Place;
use crate::message::ToShard;
use crate::mutant::Mutant;
use crate::shard::Actor;
use crate::steer;
use crate::wire::{Group, Wire};
use crate::world::World;

/// A message for a shard, and whether it comes from another node.
type Mail = (Shard, ToShard, bool);

/// A node that is up.
pub struct Node {
    /// Its number.
    pub id: Place,
    /// All of its tasks.
    pub scope: Arc<Scope>,
    /// Its disk.
    pub disk: Arc<Disk>,
    /// Where it receives copies of shards.
    pub receiving: Receiving,
    /// Shards of which it receives a copy.
    pub copying: Mutex<BTreeSet<Shard>>,
    groups: Mutex<BTreeMap<Shard, Group>>,
    mail: UnboundedSender<Mail>,
    pump: Arc<Mutex<Pump>>,
}

/// As in production, but that there are fewer entries between two snapshots.
fn config() -> Config {
    Config {
        snapshot_policy: SnapshotPolicy::LogsSinceLast(50),
        max_in_snapshot_log_to_keep: 10,
        ..engine::config()
    }
}

/// Small, so that there are many segments.
fn log_options() -> LogOptions {
    LogOptions {
        segment_bytes: 20_000,
        memory_bytes: 4_000,
        far_bytes: 2_000,
        far_send: 1_000,
        pace: 100_000,
        ..LogOptions::default()
    }
}

impl Node {
    /// Starts a node on what its disk holds. `None` if it went down again meanwhile.
    ///
    /// # Errors
    /// When it refuses to start, which it never should.
    pub async fn boot(world: &Arc<World>, id: Place, disk: Arc<Disk>) -> Result<Arc<Node>, String> {
        let mut chance = world.fork();
        let scope = Scope::new(chance.number());
        match world.mutant {
            Some(Mutant::LyingSync) => disk.segments.lie(),
            Some(Mutant::ForgetFence) => disk.tables.forget_fence(),
            _ => {}
        }
        let asked = Arc::new(Notify::new());
        let told = asked.clone();
        let opened = Log::with_pump_told(
            disk.segments.clone(),
            log_options(),
            Box::new(move || told.notify_one()),
        );
        let (log, pump) = opened.map_err(|error| format!("the log of node {id}: {error}"))?;
        let pump = Arc::new(Mutex::new(pump));
        scope.spawn(drive(pump.clone(), asked, chance.fork()));
        let (mail, inbox) = unbounded_channel();
        let (copying, groups) = (Mutex::default(), Mutex::default());
        let receiving = Receiving::open(&disk.copies).map_err(|error| error.to_string())?;
        let node = Arc::new(Node { id, scope, disk, receiving, copying, groups, mail, pump });
        world.up(node.clone());
        let (starting, scope) = (node.clone(), node.scope.clone());
        let world = world.clone();
        let started = scope.spawn(async move { starting.start(&world, &log, inbox).await });
        match started.await {
            Ok(Err(error)) => Err(format!("node {id}: {error}")),
            // It is not wrong to have gone down again.
            Ok(Ok(())) | Err(_) => Ok(node),
        }
    }

    async fn start(
        self: Arc<Self>,
        world: &Arc<World>,
        log: &Log,
        inbox: UnboundedReceiver<Mail>,
    ) -> Result<(), String> {
        let config = config().validate().map_err(|error| error.to_string())?;
        let config = Arc::new(config);
        let mut shards = BTreeMap::new();
        for shard in 0..world.shards {
            let storage = LogStore::new(log.group(shard).map_err(|error| error.to_string())?);
            let machine = match world.mutant {
                Some(Mutant::TornCopy) => Machine::without_copies(self.disk.tables.clone(), shard),
                _ => Machine::new(self.disk.tables.clone(), shard, &self.receiving),
            };
            let machine = machine.map_err(|error| format!("shard {shard}: {error}"))?;
            let agreed = storage.agree_with(machine.applied()).await;
            agreed.map_err(|error| format!("shard {shard}: {error}"))?;
            let wire = Wire { world: world.clone(), from: self.id, shard };
            let group = Group::new(self.id, config.clone(), wire, storage, machine).await;
            let group = group.map_err(|error| error.to_string())?;
            self.groups.lock().insert(shard, group.clone());
            let (sender, inbox) = unbounded_channel();
            shards.insert(shard, sender);
            let actor = Actor::new(world, self.id, shard, group, self.disk.tables.clone(), inbox);
            self.scope.spawn(actor.run());
        }
        self.scope.spawn(pass_on(self.clone(), world.clone(), shards, inbox));
        Ok(())
    }

    /// Takes a message, to pass it on to whoever leads the shard.
    pub fn take(&self, shard: Shard, message: ToShard) {
        let _ = self.mail.send((shard, message, false));
    }

    /// Its replica of a shard.
    #[must_use]
    pub fn group(&self, shard: Shard) -> Option<Group> {
        self.groups.lock().get(&shard).cloned()
    }

    /// Who leads a shard, as far as it knows.
    #[must_use]
    pub fn leader(&self, shard: Shard) -> Option<Place> {
        let groups = self.groups.lock();
        groups.get(&shard)?.metrics().borrow_watched().current_leader
    }

    /// Its process is killed: what it wrote is still there.
    pub fn kill(&self) {
        self.scope.end();
    }

    /// Its machine goes down, in the midst of writing perhaps.
    pub fn crash(&self, chance: &mut Chance) {
        self.scope.end();
        if chance.one_in(2) {
            self.disk.segments.fail();
            self.pump.lock().turn();
        }
        self.disk.crash(chance);
    }

    /// Everything in its tables.
    #[must_use]
    pub fn view(&self) -> Arc<dyn bellwether_core::waist::View> {
        self.disk.tables.view()
    }
}

/// How a group stands.
#[must_use]
pub fn metrics(group: &Group) -> RaftMetrics<Types> {
    group.metrics().borrow_watched().clone()
}

/// Nodes need no address here: they are known by number.
#[must_use]
pub fn peer() -> Peer {
    Peer::default()
}

/// Writes what the groups of a node want written. A disk takes its time, and now and then more.
async fn drive(pump: Arc<Mutex<Pump>>, asked: Arc<Notify>, mut chance: Chance) {
    loop {
        asked.notified().await;
        let ms = if chance.one_in(100) { chance.between(20, 400) } else { chance.below(4) };
        tokio::time::sleep(Duration::from_millis(ms)).await;
        while pump.lock().turn() {}
    }
}

/// Passes messages on to shards that are led here, and others to where they are, once.
async fn pass_on(
    node: Arc<Node>,
    world: Arc<World>,
    shards: BTreeMap<Shard, UnboundedSender<ToShard>>,
    mut inbox: UnboundedReceiver<Mail>,
) {
    while let Some((shard, message, passed_on)) = inbox.recv().await {
        // One that has no part in the shard, or no longer, asks around, as a server's directory does.
        let elsewhere = || steer::leader(&world, shard).map(|leader| leader.id);
        match node.leader(shard).or_else(elsewhere) {
            Some(leader) if leader == node.id => {
                if let Some(inbox) = shards.get(&shard) {
                    let _ = inbox.send(message);
                }
            }
            Some(leader) if !passed_on => {
                world.send("passed on", (node.id, leader), move |world| {
                    if let Some(node) = world.node(leader) {
                        let _ = node.mail.send((shard, message.clone(), true));
                    }
                });
            }
            _ => {} // Whoever sent it tries again.
        }
    }
}
