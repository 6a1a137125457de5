//! At which nodes workers are connected, and what becomes of one that has fallen silent.
//!
//! Every node says, all the time, which workers it has; that is known half a second later. A worker
//! that asks request by request has a seat at one node, and whichever node it asks passes that on. If
//! it has two after all, because nodes could not see one another, the one of lower number counts and
//! the other is let go. None of that decides about runs: what a worker has is known to the leaders, and
//! they alone give it up.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bellwether_core::id::RunId;
use bellwether_core::shard::StillHeld;
use bellwether_core::waist::Shard;
use bellwether_protocol::node::v1;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use tokio_util::sync::CancellationToken;

use super::Cluster;
use super::wire::live::{GiveUp, encode_give_up};
use crate::work::{LocalWorker, Silent, Surroundings};

/// How often a leader is told that a worker is silent, if it does not answer. After that it is left
/// to what the leader sees itself.
const TELL_TIMES: usize = 5;
/// How often it is looked whether another node still has a worker of the same name.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long to wait in between.
const TELL_AGAIN: Duration = Duration::from_millis(500);

impl Cluster {
    /// Whether a worker is connected to this node.
    pub(super) fn is_here(&self, worker: &str) -> bool {
        self.hands.get().is_some_and(|hands| {
            let own = hands.worker.as_ref().filter(|own| own.has_started());
            own.is_some_and(|own| own.name() == worker) || hands.remotes.has_seat(worker)
        })
    }

    /// Starts the built-in worker. What is with a worker is known by its name, and each of two would give up
    /// what the other runs: if another node has one of that name, this one waits until that has been gone
    /// for so long that nobody counts on what it had.
    pub fn start_worker(self: &Arc<Self>, worker: &Arc<LocalWorker>, stop: &CancellationToken) {
        if !self.book.has_worker(worker.name()) {
            worker.start();
            return;
        }
        tell_of_namesake(worker, &self.book.nodes_with(worker.name()));
        let (cluster, worker, stop) = (self.clone(), worker.clone(), stop.clone());
        self.acting.spawn(async move {
            let mut seen = Instant::now();
            while seen.elapsed() < cluster.given_up_after() + LOOK_AGAIN {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(LOOK_AGAIN) => {}
                }
                if cluster.book.has_worker(worker.name()) {
                    seen = Instant::now();
                }
            }
            worker.start();
        });
    }

    /// Has the built-in worker take no more runs if one of its name is at another node of a lower number:
    /// both were started before they could hear of one another.
    pub(super) fn yield_name(&self, worker: &LocalWorker) {
        let nodes = self.book.nodes_with(worker.name());
        let yields = nodes.first().is_some_and(|other| *other < self.identity.node);
        if yields && worker.has_started() && !worker.is_retired() {
            tell_of_namesake(worker, &nodes);
            worker.retire();
        }
    }

    /// The nodes that are up to which a worker is connected, as far as this one knows.
    fn whereabouts(&self, worker: &str) -> Vec<u64> {
        let here = self.is_here(worker).then_some(self.identity.node);
        here.into_iter().chain(self.book.nodes_with(worker)).collect()
    }

    /// The same of several, as an answer to another node.
    #[must_use]
    pub fn all_whereabouts(&self, workers: Vec<String>) -> Vec<v1::Whereabouts> {
        let of = |worker: String| {
            let nodes = self.whereabouts(&worker);
            (!nodes.is_empty()).then_some(v1::Whereabouts { worker: Some(worker), nodes })
        };
        workers.into_iter().filter_map(of).collect()
    }

    /// Whether a worker is connected to a node, as that says itself; `None` if it does not answer.
    pub async fn has_at(&self, node: u64, worker: &str) -> Option<bool> {
        let answer = self.ask_whereabouts(node, vec![worker.to_owned()]).await?;
        Some(answer.iter().any(|found| found.nodes.contains(&node)))
    }

    /// Which of these runs' workers are connected to other nodes, as the leader of their shard knows.
    /// It has heard of every node whose workers it lets go on.
    pub(super) async fn connected_elsewhere(
        &self,
        shard: Shard,
        held: &[StillHeld],
    ) -> Option<BTreeSet<String>> {
        let workers: BTreeSet<String> = held.iter().map(|held| held.worker.clone()).collect();
        if workers.is_empty() {
            return Some(workers);
        }
        let (own, leader) = (self.identity.node, self.leader(shard)?);
        let workers = workers.into_iter().collect();
        let found = if leader == own {
            self.all_whereabouts(workers)
        } else {
            self.ask_whereabouts(leader, workers).await?
        };
        let elsewhere = found.into_iter().filter(|found| found.nodes.iter().any(|n| *n != own));
        Some(elsewhere.filter_map(|found| found.worker).collect())
    }

    /// Lets go of workers that are connected to other nodes, and looked after there.
    pub(super) fn yield_workers(&self) {
        let Some(hands) = self.hands.get() else { return };
        let elsewhere = self.book.seats();
        for worker in hands.remotes.let_go(self.identity.node, &elsewhere) {
            // If it is connected nowhere some day, the leaders of what it has must notice.
            self.holders.note(&worker);
        }
    }

    /// Gives up what a worker has that a node has not heard for too long, unless it is connected to
    /// another. False if the shard does not act here.
    pub fn given_up(&self, silent: GiveUp) -> bool {
        let handle = self.shards.get(usize::from(silent.shard));
        let Some(handle) = handle.filter(|handle| handle.acts_here()) else { return false };
        let elsewhere = self.whereabouts(&silent.worker).iter().any(|node| *node != silent.node);
        if elsewhere {
            self.holders.note(&silent.worker);
        } else {
            for (run, token) in silent.runs {
                handle.lost(run, token, silent.detail.clone());
            }
        }
        true
    }

    /// Has the leader of a shard give up what a worker has that was not heard here.
    async fn have_given_up(&self, silent: GiveUp) {
        for _ in 0..TELL_TIMES {
            if self.is_here(&silent.worker) || self.given_up(silent.clone()) {
                return;
            }
            let leader = self.leader(silent.shard).filter(|node| *node != self.identity.node);
            if let Some(leader) = leader
                && self.tell_given_up(leader, encode_give_up(&silent)).await
            {
                return;
            }
            tokio::time::sleep(TELL_AGAIN).await;
        }
    }
}

fn tell_of_namesake(worker: &LocalWorker, nodes: &[u64]) {
    tracing::error!(
        worker = worker.name(),
        ?nodes,
        "another node has a worker of this name, so that of this node takes no runs; start it again \
         with another --worker-name"
    );
}

impl Surroundings for Cluster {
    fn is_alone(&self) -> bool {
        self.book.is_empty()
    }

    fn is_in_touch(&self, shards: &BTreeSet<Shard>) -> bool {
        self.book.is_empty() || shards.iter().all(|shard| self.is_in_touch_with(*shard))
    }

    fn held_by<'a>(
        &'a self,
        worker: &'a str,
        shards: Option<BTreeSet<Shard>>,
    ) -> BoxFuture<'a, Option<Vec<StillHeld>>> {
        async move {
            if self.book.is_empty() {
                return Some(Vec::new());
            }
            let worker = [worker.to_owned()];
            let asked = |shard: Shard| shards.as_ref().is_none_or(|wanted| wanted.contains(&shard));
            let asking = self.shards.iter().filter(|handle| asked(handle.shard));
            let answers = join_all(asking.map(|handle| self.ask_held(handle.shard, &worker))).await;
            let held: Option<Vec<_>> = answers.into_iter().collect();
            Some(held?.into_iter().flat_map(|(_, held)| held).collect())
        }
        .boxed()
    }

    fn fell_silent(self: Arc<Self>, silent: Silent) -> BoxFuture<'static, ()> {
        async move {
            let shards: BTreeSet<Shard> =
                silent.runs.iter().map(|(run, _)| run.job.shard()).collect();
            let telling = shards.into_iter().map(|shard| {
                let of_shard = |(run, _): &&(RunId, u64)| run.job.shard() == shard;
                self.have_given_up(GiveUp {
                    shard,
                    worker: silent.worker.clone(),
                    node: self.identity.node,
                    detail: silent.detail.clone(),
                    runs: silent.runs.iter().filter(of_shard).copied().collect(),
                })
            });
            join_all(telling).await;
        }
        .boxed()
    }
}
