//! A node: a store, its shards, and the way to them.

use std::sync::{Arc, Weak};

use bellwether_core::bounds::{Limit, Limits};
use bellwether_core::id::JobId;
use bellwether_core::read;
use bellwether_core::turn::{HeldJob, Input, Notice, Reply};
use bellwether_core::waist::{Shard, StoreError, View};
use bellwether_raft::engine::RaftEngine;
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use xxhash_rust::xxh3::Xxh3;

use crate::access::Tokens;
use crate::backup::Backups;
use crate::batches::Batches;
use crate::bounds::Desk;
use crate::cluster::{Cluster, Listing, TooOld};
use crate::config::Config;
use crate::live::Hearing;
use crate::metrics::Metrics;
use crate::shard::{Failure, ShardHandle};
use crate::spread::Spread;
use crate::work::{Dispatch, LocalWorker, QueueLimits, Remotes};

/// Everything a request needs.
pub struct Node {
    /// The settings.
    pub config: Config,
    /// Its part in its cluster.
    pub cluster: Arc<Cluster>,
    /// Where everything is stored.
    pub engine: Arc<RaftEngine>,
    /// The shards, by number.
    pub shards: Vec<ShardHandle>,
    /// The built-in worker, if there is one.
    pub worker: Option<Arc<LocalWorker>>,
    /// Who gets what.
    pub dispatch: Arc<Dispatch>,
    /// Workers that dial in.
    pub remotes: Arc<Remotes>,
    /// Who sees to batches.
    pub batches: Arc<Batches>,
    /// Who takes backups.
    pub backups: Arc<Backups>,
    /// Figures.
    pub metrics: Arc<Metrics>,
    /// What happens in shards that act here, as it happens.
    pub notices: broadcast::Sender<Arc<News>>,
    /// Who may do what.
    pub tokens: Tokens,
    /// How many listen to that.
    pub listeners: Mutex<usize>,
    /// What happens on other nodes, while somebody listens here.
    pub hearing: Mutex<Weak<Hearing>>,
    /// Where jobs go that may go to any shard.
    pub spread: Spread,
    /// Cancelled when the server is about to stop.
    pub stop: CancellationToken,
}

impl Node {
    /// The newest durable state of all shards. What this node has no replica of is read elsewhere:
    /// whoever reads much does so where waiting keeps nobody.
    #[must_use]
    pub fn view(&self) -> Arc<dyn View> {
        self.cluster.view()
    }

    /// Whether there are no other nodes. One without a replica of shard 0, which has them all, does
    /// not know of any yet.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.cluster.book.is_empty() && self.engine.has(0)
    }

    /// A view that shows everything about a shard that anybody was told of before this was called.
    ///
    /// # Errors
    /// When nobody can say.
    pub async fn view_of(&self, shard: Shard) -> Result<Arc<dyn View>, Failure> {
        if !self.is_alone() {
            self.cluster.catch_up(shard).await?;
        }
        Ok(self.view())
    }

    /// What a list over shards is made from, and how old that may be.
    ///
    /// # Errors
    /// When it would be too old.
    pub fn listing(&self, shards: &[Shard]) -> Result<Listing, TooOld> {
        self.cluster.listing(shards)
    }

    /// Makes the bounds of queues known that are stored.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn load_queues(&self) -> Result<(), StoreError> {
        set_limits(&self.cluster.desk, &self.dispatch, queue_limits(&*self.view())?);
        Ok(())
    }

    /// All shards' numbers.
    #[must_use]
    pub fn shard_numbers(&self) -> Vec<Shard> {
        self.shards.iter().map(|shard| shard.shard).collect()
    }

    /// The shard that owns a job; `None` if there is no such shard, and so no such job.
    #[must_use]
    pub fn shard_of(&self, job: JobId) -> Option<&ShardHandle> {
        self.shards.get(usize::from(job.shard()))
    }

    /// The shard of a name within a namespace: a caller's key, or an ordering key.
    #[must_use]
    pub fn shard_of_name(&self, namespace: &str, name: &str) -> &ShardHandle {
        let mut hasher = Xxh3::new();
        hasher.update(namespace.as_bytes());
        hasher.update(&[0]);
        hasher.update(name.as_bytes());
        let number = hasher.digest() % self.shards.len() as u64;
        &self.shards[number as usize]
    }

    /// The shard for a job that may go to any.
    #[must_use]
    pub fn any_shard(&self) -> &ShardHandle {
        &self.shards[self.spread.next(self.shards.len())]
    }

    /// Asks the shard of a job for a decision.
    ///
    /// # Errors
    /// When it was rejected or could not be made.
    pub async fn ask(&self, job: JobId, input: Input) -> Result<Reply, Failure> {
        match self.shard_of(job) {
            Some(shard) => shard.ask(input).await,
            None => Err(Failure::Rejected(bellwether_core::turn::Rejection::no_job())),
        }
    }
}

/// The bounds of queues that are stored.
///
/// # Errors
/// When the store cannot be read.
pub fn queue_limits(view: &dyn View) -> Result<Limits, StoreError> {
    let rows = read::queues(view, 0)?.into_iter().map(|(name, row)| {
        let limit = Limit {
            concurrency: (row.concurrency > 0).then_some(u64::from(row.concurrency)),
            rate_milli: row.rate_milli,
            paused: row.paused.is_some(),
        };
        (name, limit)
    });
    Ok(rows.collect())
}

/// Makes the bounds of queues known to the shards and workers of this node, if they have changed.
pub fn set_limits(desk: &Desk, dispatch: &Dispatch, limits: Limits) {
    let here = limits.iter().map(|(name, limit)| {
        let concurrency = limit.concurrency.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
        (name.clone(), QueueLimits { concurrency, paused: limit.paused })
    });
    let here = here.collect();
    if desk.set_limits(limits) {
        dispatch.set_limits(here);
    }
}

/// What listeners are told.
#[derive(Clone, Debug)]
pub enum News {
    /// Something happened to a run.
    Run(Box<Notice>),
    /// A job was paused by the rules themselves.
    Held(Box<HeldJob>),
    /// So many things were not told; 0 if their number is unknown, and may be none.
    Missed(u64),
}

impl News {
    /// Whether it is about a namespace and a queue; about any, where none is given.
    #[must_use]
    pub fn is_about(&self, namespace: Option<&str>, queue: Option<&str>) -> bool {
        let (in_namespace, in_queue) = match self {
            News::Run(notice) => (&notice.namespace, &notice.queue),
            News::Held(held) => (&held.namespace, &held.queue),
            News::Missed(_) => return true,
        };
        namespace.is_none_or(|name| name == in_namespace) && queue.is_none_or(|q| q == in_queue)
    }
}
