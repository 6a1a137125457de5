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
use bellwether_protocol::peer::v1::peers_server::PeersServer;
use bellwether_store::{Applied, DiskEngine, DiskOptions, Done, Engine, EngineStats, OpenError};
use openraft::async_runtime::WatchReceiver;
use openraft::raft::ClientWriteResult;
use openraft::{ChangeMembers, Config, Raft, SnapshotPolicy};
use parking_lot::{Mutex, RwLock};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::codec::{encode_acquire, encode_batch};
use crate::log::{Directory, Log, LogOptions};
use crate::machine::Machine;
use crate::net::{Groups, Identity, Network, Service, service};
use crate::snapshot::Receiving;
use crate::storage::LogStore;
use crate::types::{Callback, Command, Peer, Types};

/// How long a node that is alone may take to lead a group.
const LEAD_WITHIN: Duration = Duration::from_secs(30);
/// How long a group may take to finish what was asked of it when it is closed.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);
/// How often to ask whether a quorum has acknowledged a new leader.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How to open a replicated store.
#[derive(Clone, Debug)]
pub struct RaftOptions {
    /// Where the tables are, and how they are kept.
    pub tables: DiskOptions,
    /// Where the log is.
    pub log_dir: PathBuf,
    /// How the log is kept.
    pub log: LogOptions,
    /// Who this node is.
    pub identity: Identity,
    /// The shards there are.
    pub shards: Vec<Shard>,
}

type Group = Raft<Types, Machine>;
/// Something to be proposed, and who wants to know what became of it.
type Proposal = (Command, Asker);

/// What is told of a proposal's end.
type Told = Box<dyn FnOnce(Result<Applied, StoreError>) + Send>;

/// Whoever wants to know what became of a proposal. They hear of it in any case, also if it is
/// dropped: a group that stops forgets what it was asked.
struct Asker(Option<Told>);

impl Asker {
    fn new(done: impl FnOnce(Result<Applied, StoreError>) + Send + 'static) -> Asker {
        Asker(Some(Box::new(done)))
    }

    fn hears(mut self, result: Result<Applied, StoreError>) {
        if let Some(done) = self.0.take() {
            done(result);
        }
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done(Err(StoreError::Closed));
        }
    }
}

/// A group of this node.
struct Member {
    raft: Group,
    /// Gone once the engine is closed.
    proposals: Mutex<Option<mpsc::UnboundedSender<Proposal>>>,
    proposing: Mutex<Option<JoinHandle<()>>>,
}

/// The groups of this node, by shard.
#[derive(Default)]
struct Members(RwLock<BTreeMap<Shard, Arc<Member>>>);

impl Members {
    fn get(&self, shard: Shard) -> Option<Arc<Member>> {
        self.0.read().get(&shard).cloned()
    }

    fn all(&self) -> Vec<(Shard, Arc<Member>)> {
        self.0.read().iter().map(|(shard, member)| (*shard, member.clone())).collect()
    }
}

impl Groups for Members {
    fn group(&self, number: Shard) -> Option<Group> {
        self.get(number).map(|member| member.raft.clone())
    }
}

/// A store whose shards are groups of Raft.
pub struct RaftEngine {
    identity: Identity,
    tables: Arc<DiskEngine>,
    log: Log,
    receiving: Receiving,
    network: Network,
    members: Arc<Members>,
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

/// How groups are run.
#[must_use]
pub fn config() -> Config {
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
    /// Opens a store and starts its groups. To be called within a runtime, on which they will run.
    /// A group that nobody has begun waits to be taken in by others.
    ///
    /// # Errors
    /// When something cannot be opened.
    pub async fn open(options: RaftOptions) -> Result<RaftEngine, RaftOpenError> {
        let mut tables = options.tables.clone();
        tables.sync = false;
        let tables = Arc::new(DiskEngine::open(tables)?);
        let log = Log::open(Directory::open(&options.log_dir)?, options.log.clone())?;
        let receiving = Receiving::open(options.log_dir.join("copies"))?;
        let engine = RaftEngine {
            network: Network::new(options.identity.clone()),
            identity: options.identity,
            tables,
            log,
            receiving,
            members: Arc::default(),
            runtime: Handle::current(),
        };
        let config = Arc::new(config().validate().map_err(group_error)?);
        let starting = options.shards.iter().map(|shard| engine.start(*shard, &config));
        for started in futures::future::join_all(starting).await {
            let (shard, member) = started?;
            engine.members.0.write().insert(shard, Arc::new(member));
        }
        Ok(engine)
    }

    async fn start(
        &self,
        shard: Shard,
        config: &Arc<Config>,
    ) -> Result<(Shard, Member), RaftOpenError> {
        let storage = LogStore::new(self.log.group(shard)?);
        let machine = Machine::new(self.tables.clone(), shard, &self.receiving)?;
        let network = self.network.of_group(shard);
        let raft = Group::new(self.identity.node, config.clone(), network, storage, machine);
        let raft = raft.await.map_err(group_error)?;
        let (proposals, queue) = mpsc::unbounded_channel();
        let proposing = Mutex::new(Some(tokio::spawn(propose(raft.clone(), queue))));
        Ok((shard, Member { raft, proposals: Mutex::new(Some(proposals)), proposing }))
    }

    /// What other nodes may ask of this one.
    #[must_use]
    pub fn service(&self) -> PeersServer<Service> {
        service(self.identity.clone(), self.members.clone(), self.receiving.clone())
    }

    /// Leads all groups: as the first node of a new cluster, or as the only one of an old one.
    ///
    /// # Errors
    /// When it does not lead them in time.
    pub async fn lead_alone(&self, peer: Peer) -> Result<(), RaftOpenError> {
        let leading = self.members.all().into_iter().map(|(_, member)| {
            let peer = peer.clone();
            async move {
                let raft = &member.raft;
                if raft.is_initialized().await.map_err(group_error)? {
                    raft.trigger().elect(false).await.map_err(group_error)?;
                } else {
                    let alone = BTreeMap::from([(self.identity.node, peer)]);
                    raft.initialize(alone).await.map_err(group_error)?;
                }
                self.leads(raft).await
            }
        });
        futures::future::try_join_all(leading).await.map(drop)
    }

    /// Waits until this node leads a group and has applied all that was in its log before.
    async fn leads(&self, raft: &Group) -> Result<(), RaftOpenError> {
        let node = self.identity.node;
        let waiting = raft.wait(Some(LEAD_WITHIN));
        let leads = waiting.metrics(|metrics| metrics.current_leader == Some(node), "leads");
        leads.await.map_err(group_error)?;
        // A new leader takes nothing until a quorum has acknowledged it. Once this is applied, so is
        // everything that was in the log before.
        let mut again = tokio::time::interval(LOOK_EVERY);
        loop {
            again.tick().await;
            match raft.write_blank().await {
                Ok(_) => return Ok(()),
                Err(_) if raft.metrics().borrow_watched().current_leader == Some(node) => {}
                Err(error) => return Err(group_error(error)),
            }
        }
    }

    /// Waits until this node leads a shard and has applied all that was in its log before.
    ///
    /// # Errors
    /// When it does not lead it in time, or not any more.
    pub async fn wait_to_lead(&self, shard: Shard) -> Result<(), RaftOpenError> {
        match self.members.get(shard) {
            Some(member) => self.leads(&member.raft).await,
            None => Err(group_error("this node has no replica of it")),
        }
    }

    /// Takes another node into all groups that this one leads: first it learns, then it votes.
    ///
    /// # Errors
    /// When a group does not take it.
    pub async fn add_node(&self, node: u64, peer: Peer) -> Result<(), RaftOpenError> {
        for (_, member) in self.members.all() {
            let raft = &member.raft;
            if !raft.is_leader() {
                continue;
            }
            raft.add_learner(node, peer.clone(), true).await.map_err(group_error)?;
            let voters = ChangeMembers::AddVoterIds(std::collections::BTreeSet::from([node]));
            raft.change_membership(voters, false).await.map_err(group_error)?;
        }
        Ok(())
    }

    /// Who leads a shard, as far as this node knows.
    #[must_use]
    pub fn leader(&self, shard: Shard) -> Option<u64> {
        self.members.get(shard)?.raft.metrics().borrow_watched().current_leader
    }

    /// Proposes something. If the group is not here or has stopped, whoever asks hears that.
    fn ask(&self, shard: Shard, command: Command, asker: Asker) {
        if let Some(member) = self.members.get(shard)
            && let Some(proposals) = &*member.proposals.lock()
        {
            // What cannot be sent is dropped, and that is heard.
            let _ = proposals.send((command, asker));
        }
    }
}

/// Proposes what is asked for, in order.
async fn propose(raft: Group, mut queue: mpsc::UnboundedReceiver<Proposal>) {
    while let Some((command, asker)) = queue.recv().await {
        let answer = Callback(Box::new(move |result: ClientWriteResult<Types>| {
            asker.hears(result.map(|response| response.data).map_err(|error| {
                StoreError::Failed(format!("the group did not commit it: {error}"))
            }));
        }));
        // If the group has stopped, the answer is dropped, and that is heard.
        let _ = raft.client_write_ff(command, Some(answer)).await;
    }
    // Once this has been applied, so has everything before it. Without a quorum it never is.
    let _ = tokio::time::timeout(CLOSE_WITHIN, raft.write_blank()).await;
}

impl Engine for RaftEngine {
    fn acquire(&self, shard: Shard) -> Result<Term, StoreError> {
        let (sender, term) = crossbeam_channel::bounded(1);
        let asker = Asker::new(move |result| {
            // The receiver waits below, so this cannot fail.
            let _ = sender.send(result);
        });
        self.ask(shard, encode_acquire(shard), asker);
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
        let asker = Asker::new(move |result| {
            done(result.and_then(|applied| match applied {
                Applied::Fenced { newest } => Err(StoreError::Fenced { shard, held, newest }),
                Applied::Done | Applied::Acquired(_) => Ok(()),
            }));
        });
        self.ask(shard, encode_batch(batch), asker);
    }

    fn stats(&self) -> EngineStats {
        self.tables.stats()
    }

    fn close(&self) -> Result<(), StoreError> {
        let members = std::mem::take(&mut *self.members.0.write());
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
