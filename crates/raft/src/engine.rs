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

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bellwether_core::waist::{Batch, Shard, StoreError, Term, View};
use bellwether_store::{Applied, DiskEngine, DiskOptions, Done, Engine, EngineStats, OpenError};
use openraft::{Config, Raft, SnapshotPolicy};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::codec::{encode_acquire, encode_batch};
use crate::log::{Directory, Log, LogOptions};
use crate::machine::Machine;
use crate::network::Alone;
use crate::snapshot::Receiving;
use crate::storage::LogStore;
use crate::types::{Callback, Command, Peer, Types};

/// How long a node that is alone may take to lead a group.
const LEAD_WITHIN: Duration = Duration::from_secs(30);

/// How to open a replicated store.
#[derive(Clone, Debug)]
pub struct RaftOptions {
    /// Where the tables are, and how they are kept.
    pub tables: DiskOptions,
    /// Where the log is.
    pub log_dir: PathBuf,
    /// How the log is kept.
    pub log: LogOptions,
    /// This node.
    pub node: u64,
    /// The shards there are.
    pub shards: Vec<Shard>,
}

type Group = Raft<Types, Machine>;
/// Something to be proposed, and who wants to know what became of it.
type Proposal = (Command, Box<dyn FnOnce(Result<Applied, StoreError>) + Send>);

/// A group of this node.
struct Member {
    raft: Group,
    /// Gone once the engine is closed.
    proposals: Mutex<Option<mpsc::UnboundedSender<Proposal>>>,
    proposing: Mutex<Option<JoinHandle<()>>>,
}

/// A store whose shards are groups of Raft.
pub struct RaftEngine {
    tables: Arc<DiskEngine>,
    log: Log,
    receiving: Receiving,
    members: Mutex<BTreeMap<Shard, Arc<Member>>>,
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
    #[error("a group cannot be started: {0}")]
    Group(String),
}

fn group_error(error: impl std::fmt::Display) -> RaftOpenError {
    RaftOpenError::Group(error.to_string())
}

fn config() -> Config {
    Config {
        cluster_name: "bellwether".to_owned(),
        heartbeat_interval: 300,
        election_timeout_min: 1_500,
        election_timeout_max: 3_000,
        enable_pre_vote: Some(true),
        enable_leader_restore: Some(false),
        snapshot_policy: SnapshotPolicy::LogsSinceLast(20_000),
        max_in_snapshot_log_to_keep: 5_000,
        ..Config::default()
    }
}

impl RaftEngine {
    /// Opens a store on a node that is alone, and returns once it leads all groups. To be called
    /// within a runtime, on which the groups will run.
    ///
    /// # Errors
    /// When something cannot be opened.
    pub async fn open_alone(options: RaftOptions) -> Result<RaftEngine, RaftOpenError> {
        let mut tables = options.tables.clone();
        tables.sync = false;
        let tables = Arc::new(DiskEngine::open(tables)?);
        let log = Log::open(Directory::open(&options.log_dir)?, options.log.clone())?;
        let receiving = Receiving::open(options.log_dir.join("copies"))?;
        let engine = RaftEngine {
            tables,
            log,
            receiving,
            members: Mutex::default(),
            runtime: Handle::current(),
        };
        let config = Arc::new(config().validate().map_err(group_error)?);
        let shards = options.shards.iter();
        let starting = shards.map(|shard| engine.start(*shard, &options, &config));
        for started in futures::future::join_all(starting).await {
            let (shard, member) = started?;
            engine.members.lock().insert(shard, Arc::new(member));
        }
        Ok(engine)
    }

    async fn start(
        &self,
        shard: Shard,
        options: &RaftOptions,
        config: &Arc<Config>,
    ) -> Result<(Shard, Member), RaftOpenError> {
        let storage = LogStore::new(self.log.group(shard)?);
        let machine = Machine::new(self.tables.clone(), shard, &self.receiving)?;
        let raft = Group::new(options.node, config.clone(), Alone, storage, machine);
        let raft = raft.await.map_err(group_error)?;
        if !raft.is_initialized().await.map_err(group_error)? {
            let alone = BTreeMap::from([(options.node, Peer::default())]);
            raft.initialize(alone).await.map_err(group_error)?;
        } else {
            raft.trigger().elect(false).await.map_err(group_error)?;
        }
        let node = options.node;
        let waiting = raft.wait(Some(LEAD_WITHIN));
        let leads = waiting.metrics(
            |metrics| metrics.current_leader == Some(node) && metrics.last_applied.is_some(),
            "leads",
        );
        leads.await.map_err(group_error)?;
        // What was in the log before has been applied once this is.
        raft.write_blank().await.map_err(group_error)?;
        let (proposals, queue) = mpsc::unbounded_channel();
        let proposing = Mutex::new(Some(tokio::spawn(propose(raft.clone(), queue))));
        Ok((shard, Member { raft, proposals: Mutex::new(Some(proposals)), proposing }))
    }

    fn member(&self, shard: Shard) -> Option<Arc<Member>> {
        self.members.lock().get(&shard).cloned()
    }

    fn ask(&self, shard: Shard, proposal: Proposal) {
        let Some(member) = self.member(shard) else {
            return (proposal.1)(Err(StoreError::Closed));
        };
        let refused = match &*member.proposals.lock() {
            Some(proposals) => proposals.send(proposal).err().map(|refused| refused.0),
            None => Some(proposal),
        };
        if let Some((_, done)) = refused {
            done(Err(StoreError::Closed));
        }
    }
}

/// Proposes what is asked for, in order.
async fn propose(raft: Group, mut queue: mpsc::UnboundedReceiver<Proposal>) {
    while let Some((command, done)) = queue.recv().await {
        let done = Arc::new(Mutex::new(Some(done)));
        let call = {
            let done = done.clone();
            move |result| {
                if let Some(done) = done.lock().take() {
                    done(result);
                }
            }
        };
        let answer: Callback<_> = Callback(Box::new({
            let call = call.clone();
            move |result: openraft::raft::ClientWriteResult<Types>| {
                call(result.map(|response| response.data).map_err(|error| {
                    StoreError::Failed(format!("the group did not commit it: {error}"))
                }));
            }
        }));
        if raft.client_write_ff(command, Some(answer)).await.is_err() {
            call(Err(StoreError::Closed));
        }
    }
    // Once this has been applied, so has everything before it.
    let _ = raft.write_blank().await;
}

impl Engine for RaftEngine {
    fn acquire(&self, shard: Shard) -> Result<Term, StoreError> {
        let (sender, term) = crossbeam_channel::bounded(1);
        let done = Box::new(move |result| {
            // The receiver waits below, so this cannot fail.
            let _ = sender.send(result);
        });
        self.ask(shard, (encode_acquire(shard), done));
        match term.recv().unwrap_or(Err(StoreError::Closed))? {
            Applied::Acquired(term) => Ok(term),
            other => Err(StoreError::Failed(format!("taking a shard over led to {other:?}"))),
        }
    }

    fn view(&self) -> Arc<dyn View> {
        self.tables.view()
    }

    fn submit(&self, batch: Batch, done: Done) {
        let (shard, held) = (batch.shard, batch.term);
        let done = Box::new(move |result: Result<Applied, StoreError>| {
            done(result.and_then(|applied| match applied {
                Applied::Fenced { newest } => Err(StoreError::Fenced { shard, held, newest }),
                Applied::Done | Applied::Acquired(_) => Ok(()),
            }));
        });
        self.ask(shard, (encode_batch(batch), done));
    }

    fn stats(&self) -> EngineStats {
        self.tables.stats()
    }

    fn close(&self) -> Result<(), StoreError> {
        let members = std::mem::take(&mut *self.members.lock());
        let (sender, stopped) = crossbeam_channel::unbounded();
        for member in members.into_values() {
            drop(member.proposals.lock().take());
            let proposing = member.proposing.lock().take();
            let sender = sender.clone();
            self.runtime.spawn(async move {
                if let Some(proposing) = proposing {
                    let _ = proposing.await;
                }
                // It may have ended by itself.
                let _ = member.raft.shutdown().await;
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
