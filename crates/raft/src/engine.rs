//! An engine whose shards are groups of Raft.
//!
//! ```text
//! submit ─► group's queue ─► openraft ─► log (one for all groups, one sync) ─┐
//!   ▲                                 └► followers                           │
//!   └── done ◄── tables (no sync) ◄── apply, in order ◄── committed ◄────────┘
//! ```
//! Below the waist nothing has changed for those above: a batch is durable and visible when `done`
//! is called, and one whose term is void changes nothing. Terms are given out by the shard itself:
//! taking a shard over is an entry of its log like any other, so all replicas agree on them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bellwether_core::waist::{Batch, Shard, StoreError, Term, View};
use bellwether_protocol::peer::v1::peers_server::PeersServer;
use bellwether_store::{Applied, DiskEngine, Done, Engine, EngineStats, OpenError};
use openraft::{Config, SnapshotPolicy};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::arrival::{Arrival, Arrivals};
use crate::codec::{encode_acquire, encode_batch};
use crate::compaction::keep_small;
use crate::log::{Directory, Log, LogOptions, bytes_in};
use crate::machine::Machine;
use crate::member::{Asker, Group, Member, Members, Seen};
use crate::net::{Copies, Dialing, Identity, Network, Service, service};
use crate::runtime::blocking;
use crate::snapshot::Receiving;
use crate::storage::LogStore;
use crate::types::Command;

/// How to open a replicated store.
pub struct RaftOptions {
    /// What logs are applied to: opened without syncing by itself.
    pub tables: Arc<DiskEngine>,
    /// Where the log is.
    pub log_dir: PathBuf,
    /// How the log is kept.
    pub log: LogOptions,
    /// Who this node is.
    pub identity: Identity,
    /// How other nodes are reached.
    pub dialing: Dialing,
    /// The shards that this node is to have replicas of, besides those that are in its log.
    pub shards: Vec<Shard>,
}

/// A store whose shards are groups of Raft.
pub struct RaftEngine {
    pub(crate) identity: Identity,
    config: Arc<Config>,
    pub(crate) tables: Arc<DiskEngine>,
    pub(crate) log: Arc<Log>,
    log_dir: PathBuf,
    /// Told when the log need not be kept small any more.
    stop_compaction: Arc<Notify>,
    receiving: Receiving,
    arrivals: Arrivals,
    network: Network,
    pub(crate) members: Arc<Members>,
    closed: AtomicBool,
    /// Groups are started and removed one at a time.
    starting: tokio::sync::Mutex<()>,
    runtime: Handle,
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum RaftOpenError {
    /// The tables.
    #[error(transparent)]
    Tables(#[from] OpenError),
    /// The log.
    #[error("the log cannot be opened: {0}")]
    Log(#[from] std::io::Error),
    /// A group.
    #[error("in a group of replicas: {0}")]
    Group(String),
}

pub(crate) fn group_error(error: impl std::fmt::Display) -> RaftOpenError {
    RaftOpenError::Group(error.to_string())
}

/// How often a leader is heard when there is nothing to say: every other beat of the runtime, for which
/// it has to be a little less.
const HEARTBEAT_MS: u64 = 280;
/// How long a leader is waited for: this and a part of the same by chance, one after the other. So
/// whoever hears nothing for 1.0 to 1.3 s, three or four heartbeats, asks the others whether they do.
const SILENCE_MS: u64 = 650;

/// For so long a leader that hears no majority is silent, and then lets itself be heard, in turn.
const PROBE_MS: u64 = 2 * SILENCE_MS;

/// How long a node that has heard from a leader follows no other.
pub(crate) const PROMISE: Duration = Duration::from_millis(SILENCE_MS);

/// The largest batch that is taken: with what is around it, a record of the log and a message to
/// other nodes, which may have 256 MiB.
const COMMAND_MAX: usize = 255 << 20;

/// How groups are run.
#[must_use]
pub fn config() -> Config {
    Config {
        cluster_name: "bellwether".to_owned(),
        heartbeat_interval: HEARTBEAT_MS,
        election_timeout_min: SILENCE_MS - 300,
        election_timeout_max: SILENCE_MS,
        enable_pre_vote: Some(true),
        enable_leader_restore: Some(false),
        // A leader that is heard and hears nobody lets others elect one.
        quorum_loss_probe_interval: Some(PROBE_MS),
        // Done by size, see `compaction`.
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: u64::MAX,
        ..Config::default()
    }
}

/// Does something to its end, also if whoever wants it goes away: what was begun half-way would get
/// into the way of what is begun next.
async fn to_its_end<T: Send + 'static>(
    what: impl Future<Output = Result<T, RaftOpenError>> + Send + 'static,
) -> Result<T, RaftOpenError> {
    tokio::spawn(what).await.map_err(std::io::Error::other)?
}

/// An error if others may count on a replica that is to be removed because of an entry of its log. One
/// that nobody counts on hears nobody.
fn taken_in_again(member: &Member, without: u64, hears: bool) -> Result<(), RaftOpenError> {
    if member.membership() > without {
        return Err(group_error("it has been changed since who takes part in it"));
    }
    if hears {
        return Err(group_error("a leader counts this node in"));
    }
    Ok(())
}

impl RaftEngine {
    /// Opens a store and starts its groups. To be called within a runtime, on which they will run.
    /// A group that nobody has begun waits to be taken in by others.
    ///
    /// # Errors
    /// When something cannot be opened.
    pub async fn open(options: RaftOptions) -> Result<RaftEngine, RaftOpenError> {
        let tables = options.tables;
        let log = Arc::new(Log::open(Directory::open(&options.log_dir)?, options.log.clone())?);
        let receiving = Receiving::open(options.log_dir.join("copies"))?;
        let arrivals = Arrivals::new(options.log_dir.join("arrivals"));
        let copies = Copies::new(log.pace());
        let engine = RaftEngine {
            config: Arc::new(config().validate().map_err(group_error)?),
            network: Network::new(options.identity.clone(), options.dialing, copies.clone()),
            identity: options.identity,
            tables,
            log,
            log_dir: options.log_dir,
            stop_compaction: Arc::default(),
            receiving,
            arrivals,
            members: Arc::default(),
            closed: AtomicBool::new(false),
            starting: tokio::sync::Mutex::default(),
            runtime: Handle::current(),
        };
        let shards: BTreeSet<Shard> =
            engine.log.groups().into_iter().chain(options.shards).collect();
        engine.receiving.forget_all_but(&shards)?;
        let starting = shards.iter().map(|shard| engine.start(*shard));
        for started in futures::future::join_all(starting).await {
            started?;
        }
        let (log, members) = (engine.log.clone(), engine.members.clone());
        tokio::spawn(keep_small(log, members, copies, engine.stop_compaction.clone()));
        Ok(engine)
    }

    /// Takes part in a group from now on. One that nobody has begun waits to be taken in by others.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn start(&self, shard: Shard) -> Result<(), RaftOpenError> {
        let storage = LogStore::new(self.log.group(shard)?);
        let (alive, writing) = tokio::sync::mpsc::channel(1);
        // It may find a copy to take in.
        let (tables, receiving) = (self.tables.clone(), self.receiving.clone());
        let machine = blocking(move || Machine::new(tables, shard, &receiving)).await??;
        let machine = machine.held_by(alive);
        storage.agree_with(machine.applied()).await?;
        let network = self.network.of_group(shard);
        let mark = Some(self.arrivals.mark(shard)).filter(|mark| mark.exists());
        let awaited = mark.map(|mark| Arrival::read(&mark).map(|arrival| (mark, arrival)));
        let awaited = awaited.transpose()?;
        let config = match awaited {
            None => self.config.clone(),
            Some(_) => Arc::new(Config { enable_elect: false, ..(*self.config).clone() }),
        };
        let raft = Group::new(self.identity.node, config, network, storage, machine);
        let raft = raft.await.map_err(group_error)?;
        self.members.add(shard, Member::new(shard, raft, writing, awaited));
        Ok(())
    }

    /// Takes part in a group from now on, unless it does already. Whether it did not.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn start_if_absent(self: &Arc<Self>, shard: Shard) -> Result<bool, RaftOpenError> {
        let engine = self.clone();
        to_its_end(async move {
            let _one_at_a_time = engine.starting.lock().await;
            if engine.has(shard) {
                return Ok(false);
            }
            if !engine.log.groups().contains(&shard) {
                // Whatever is there was left when removing it was interrupted, or by a copy that was
                // not wanted any more.
                engine.erase_tables(shard).await?;
                // It may have had a replica before, and forgotten what that had promised.
                engine.arrivals.add(shard)?;
            }
            engine.start(shard).await?;
            Ok(true)
        })
        .await
    }

    /// Takes no part in a group any more, and removes all that is stored of it. Only for a group
    /// that does not count on this node: the entry `without` of its log says who takes part, and does
    /// not name this node.
    ///
    /// # Errors
    /// When it cannot be removed, or it may have been taken in again: this node knows of a later entry
    /// that says who takes part, or a leader speaks to it, who may yet have to send it that.
    pub async fn erase(self: &Arc<Self>, shard: Shard, without: u64) -> Result<(), RaftOpenError> {
        let engine = self.clone();
        to_its_end(async move { engine.erase_now(shard, without).await }).await
    }

    async fn erase_now(&self, shard: Shard, without: u64) -> Result<(), RaftOpenError> {
        let _one_at_a_time = self.starting.lock().await;
        let Some(member) = self.members.get(shard) else { return Ok(()) };
        let heard = member.heard.last();
        taken_in_again(&member, without, heard.is_some_and(|at| at.elapsed() < PROMISE))?;
        self.members.remove(shard);
        member.close().await;
        member.until_quiet().await;
        let taken_in_again = taken_in_again(&member, without, member.heard.last() != heard);
        drop(member);
        if taken_in_again.is_err() {
            self.start(shard).await?;
            return taken_in_again;
        }
        // The log first: what it has would go on where the tables are not. Tables without a log are
        // removed before the shard comes back.
        let (sender, forgotten) = tokio::sync::oneshot::channel();
        let done = Box::new(move |result| {
            // Nobody waits any more if this fails.
            let _ = sender.send(result);
        });
        self.log.forget(shard, done)?;
        forgotten.await.map_err(std::io::Error::other)??;
        self.erase_tables(shard).await
    }

    /// Removes what the tables have of a shard, and what was received of it.
    async fn erase_tables(&self, shard: Shard) -> Result<(), RaftOpenError> {
        self.receiving.forget(shard)?;
        let tables = self.tables.clone();
        let erasing = tokio::task::spawn_blocking(move || crate::taking_in::erase(&*tables, shard));
        erasing.await.map_err(std::io::Error::other)??;
        Ok(())
    }

    /// Reaches a node at an address from now on, whatever its groups say: they agree on where their
    /// members are, and cannot while too many of them have moved.
    pub fn set_address(&self, node: u64, address: &str) {
        self.network.set_address(node, address);
    }

    /// About how many bytes the tables of each replica have on disk.
    #[must_use]
    pub fn bytes_by_shard(&self) -> BTreeMap<Shard, u64> {
        self.tables.bytes_by_shard(&self.replicas().into_iter().collect())
    }

    /// What other nodes may ask of this one.
    #[must_use]
    pub fn service(&self) -> PeersServer<Service> {
        let seen = Seen { members: self.members.clone(), log: self.log.clone() };
        service(self.identity.clone(), Arc::new(seen), self.receiving.clone())
    }

    /// Proposes something. If the group is not here or has stopped, whoever asks hears that.
    fn ask(&self, shard: Shard, command: Command, asker: Asker) {
        match self.members.get(shard) {
            Some(member) => member.ask(command, asker),
            None if self.closed.load(Ordering::Acquire) => asker.hears(Err(StoreError::Closed)),
            None => asker.hears(Err(StoreError::NotLeader { shard })),
        }
    }

    /// Proposes that this node takes a shard over.
    pub(crate) fn ask_to_acquire(
        &self,
        shard: Shard,
        told: impl FnOnce(Result<Term, StoreError>) + Send + 'static,
    ) {
        let asker = Asker::new(move |result| {
            told(result.and_then(|applied| match applied {
                Applied::Acquired(term) => Ok(term),
                other => Err(StoreError::Failed(format!("taking a shard over led to {other:?}"))),
            }));
        });
        self.ask(shard, encode_acquire(shard), asker);
    }
}

impl Engine for RaftEngine {
    fn acquire(&self, shard: Shard) -> Result<Term, StoreError> {
        let (sender, term) = crossbeam_channel::bounded(1);
        self.ask_to_acquire(shard, move |result| {
            // The receiver waits below, so this cannot fail.
            let _ = sender.send(result);
        });
        term.recv().unwrap_or(Err(StoreError::Closed))
    }

    fn view(&self) -> Arc<dyn View> {
        self.tables.view()
    }

    fn submit(&self, batch: Batch, done: Done) {
        let (shard, held) = (batch.shard, batch.term);
        let asker = Asker::new(move |result| {
            done(result.and_then(|applied| match applied {
                Applied::Fenced { newest } => Err(StoreError::Fenced { shard, held, newest }),
                Applied::Done | Applied::Acquired(_) => Ok(()),
            }));
        });
        let command = encode_batch(batch);
        if command.0.len() > COMMAND_MAX {
            // It could be written, but never be read again.
            let text = format!("a batch of {} bytes is too large for the log", command.0.len());
            return asker.hears(Err(StoreError::Failed(text)));
        }
        self.ask(shard, command, asker);
    }

    fn stats(&self) -> EngineStats {
        let (tables, log_bytes) = (self.tables.stats(), bytes_in(&self.log_dir));
        let disk_bytes = tables.disk_bytes + log_bytes;
        EngineStats { disk_bytes, log_bytes, failure: self.failure(), ..tables }
    }

    fn close(&self) -> Result<(), StoreError> {
        self.closed.store(true, Ordering::Release);
        self.stop_compaction.notify_one();
        let (sender, stopped) = crossbeam_channel::unbounded();
        for member in self.members.take() {
            let sender = sender.clone();
            self.runtime.spawn(async move {
                member.close().await;
                drop(sender);
            });
        }
        drop(sender);
        // Nobody sends: it ends when all have stopped.
        let _: Result<(), _> = stopped.recv();
        self.tables.close()?;
        self.log.close();
        Ok(())
    }
}
