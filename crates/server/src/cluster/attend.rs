//! Every node tells every other, all the time, that it is there and how it stands.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bellwether_core::record::{NodeRow, NodeState};
use bellwether_core::turn::{Input, NodeChange, Reply};
use bellwether_core::waist::Shard;
use bellwether_store::Engine;
use bellwether_worker::guard::boot_ms;
use futures::future::join_all;
use tokio_util::sync::CancellationToken;

use super::Cluster;
use super::clocks::ahead_for_certain;
use super::wire::attend::{self, Said, SaidOfActing, SaidOfReplica};
use crate::clock;
use crate::shard::Failure;
use crate::work::{RosterEntry, is_built_in};

/// How often a node is heard.
const EVERY: Duration = Duration::from_millis(500);
/// How often files are looked at for how much they use.
const DISK_EVERY: Duration = Duration::from_secs(10);
/// How long the other may take to answer.
const WITHIN: Duration = Duration::from_secs(1);
/// How long to wait before a node introduces itself again.
const AGAIN: Duration = Duration::from_secs(1);

/// Bytes that a node uses on disk.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// All.
    disk: u64,
    /// Those of the log.
    log: u64,
    /// Those of each replica, about.
    shards: Arc<BTreeMap<Shard, u64>>,
}

impl Cluster {
    /// How this node stands.
    pub fn says(&self) -> Said {
        let sizes = self.sizes();
        let replicas = self.engine.replicas().into_iter().filter_map(|shard| {
            let standing = self.engine.standing(shard)?;
            let status = &self.shards.get(usize::from(shard))?.status;
            let load = |value: &std::sync::atomic::AtomicU64| value.load(Ordering::Relaxed);
            let (term, confirmed) = (load(&status.term), self.confirmed(&standing));
            Some(SaidOfReplica {
                shard,
                leader: standing.leader,
                term: standing.term,
                last: standing.last,
                applied: standing.applied,
                behind: standing.behind,
                voters: standing.voters,
                learners: standing.learners,
                membership: standing.membership,
                changing: standing.changing,
                confirmed_ms: confirmed
                    .map(|ago| u64::try_from(ago.as_millis()).unwrap_or(u64::MAX)),
                agreed: standing.agreed,
                bytes: sizes.shards.get(&shard).copied(),
                acting: (term > 0).then(|| SaidOfActing {
                    term,
                    open_runs: load(&status.open_runs),
                    ready_runs: status.ready.lock().iter().map(|(_, count)| count).sum(),
                    wheel_entries: load(&status.wheel_entries),
                }),
            })
        });
        Said {
            row: self.row(),
            started: self.started,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            disk_bytes: sizes.disk,
            log_bytes: sizes.log,
            replicas: replicas.collect(),
            stopping: self.stopping.load(Ordering::Relaxed),
            workers: self.hands.get().map(|hands| hands.dispatch.seated()).unwrap_or_default(),
            removed: false,
            leaving: false,
            hears: self.hears(),
            queues: self.queues_here(),
            clock: Some(clock::now()),
        }
    }

    /// The other nodes that are up.
    fn hears(&self) -> Vec<NodeRow> {
        let up = self.book.all().into_iter().filter(|known| known.is_up());
        up.map(|known| known.row).collect()
    }

    /// Whether this node is to leave the cluster.
    fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed) || self.row().state() == NodeState::Leaving
    }

    /// The queues of the shards that act here: what is with workers, and what waits.
    fn queues_here(&self) -> Vec<(String, u64, u64)> {
        let mut queues: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for status in self.shards.iter().map(|handle| &handle.status) {
            for (queue, count) in status.running.lock().iter() {
                queues.entry(queue.clone()).or_default().0 += count;
            }
            for (queue, count) in status.ready.lock().iter() {
                queues.entry(queue.clone()).or_default().1 += count;
            }
        }
        queues.into_iter().map(|(queue, (running, waiting))| (queue, running, waiting)).collect()
    }

    /// The same for the whole cluster, as of when other nodes were last heard.
    #[must_use]
    pub fn queues(&self) -> BTreeMap<String, (u64, u64)> {
        let up = self.book.all().into_iter().filter(|known| known.is_up());
        let afar = up.filter_map(|known| known.heard).flat_map(|(_, said)| said.queues);
        let mut queues: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for (queue, running, waiting) in self.queues_here().into_iter().chain(afar) {
            let sums = queues.entry(queue).or_default();
            *sums = (sums.0 + running, sums.1 + waiting);
        }
        queues
    }

    /// How long ago of the other nodes that are up the one was heard that has been silent for longest.
    #[must_use]
    pub fn heard_ago(&self) -> Duration {
        let up = self.book.all().into_iter().filter(|known| known.is_up());
        up.map(|known| known.silent()).max().unwrap_or_default()
    }

    /// Bytes on disk, as of a few seconds ago.
    fn sizes(&self) -> Sizes {
        let mut disk = self.disk.lock();
        match &*disk {
            Some((at, sizes)) if at.elapsed() < DISK_EVERY => sizes.clone(),
            _ => {
                let stats = self.engine.stats();
                let shards = Arc::new(self.engine.bytes_by_shard());
                let sizes = Sizes { disk: stats.disk_bytes, log: stats.log_bytes, shards };
                *disk = Some((Instant::now(), sizes.clone()));
                sizes
            }
        }
    }

    /// The workers that are connected to other nodes that are up, and stay.
    fn workers_elsewhere(&self) -> Vec<RosterEntry> {
        let up = self.book.all().into_iter().filter(|known| known.is_up());
        let workers = up.flat_map(|known| {
            let leaves = known.row.state() == NodeState::Leaving;
            let workers = known.heard.map(|(_, said)| said.workers).unwrap_or_default();
            workers.into_iter().filter(move |(name, _, _)| !(leaves && is_built_in(name)))
        });
        workers.collect()
    }

    /// Tells all others how this node stands, until told to stop.
    pub async fn keep_attending(self: Arc<Self>, stop: CancellationToken) {
        let mut interval = tokio::time::interval(EVERY);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = interval.tick() => {}
            }
            if let Err(error) = self.read_nodes() {
                tracing::error!(%error, "the nodes of the cluster cannot be read");
            }
            self.hold_all();
            let company = !self.book.is_empty();
            if let Some(hands) = self.hands.get() {
                hands.dispatch.hints.want(company);
                if let Some(worker) = &hands.worker {
                    self.yield_name(worker);
                    if self.is_leaving() {
                        worker.retire();
                    }
                }
            }
            for known in self.book.all() {
                self.engine.set_address(known.row.node, &known.row.peer_address);
            }
            if !company {
                *self.company.lock() = None;
                continue;
            }
            let is_new = self.company.lock().is_none();
            if is_new {
                *self.company.lock() = Some(boot_ms());
                if let Some(hands) = self.hands.get() {
                    hands.remotes.have_dial_again();
                }
            }
            self.look_at_levels();
            self.tell_all().await;
            self.note_touch();
            self.look_what_is_here();
            if let Some(hands) = self.hands.get() {
                hands.dispatch.set_afar(self.workers_elsewhere());
            }
            self.yield_workers();
            self.look_at_leaders();
        }
    }

    /// Tells all others how this node stands now.
    pub async fn tell_all(&self) {
        let said = attend::encode(&self.says());
        let others = self.book.all();
        join_all(others.iter().map(|known| self.tell(known.row.node, said.clone()))).await;
    }

    async fn tell(&self, node: u64, said: bellwether_protocol::node::v1::Attendance) {
        let Ok(mut way) = self.to(node) else { return };
        let (asked, asked_ms, asked_at) = (Instant::now(), boot_ms(), clock::now());
        match tokio::time::timeout(WITHIN, way.attend(said)).await {
            Ok(Ok(answer)) => match attend::decode(answer.into_inner()) {
                Ok(said) => {
                    if said.removed {
                        // Nor does it hear any more: what its worker holds would not end, while others
                        // have given it up.
                        self.was_removed();
                        return;
                    }
                    self.leaving.fetch_or(said.leaving, Ordering::Relaxed);
                    self.note_words(asked, &said);
                    let ahead_ms = said
                        .clock
                        .and_then(|theirs| ahead_for_certain(theirs, asked_at, clock::now()));
                    self.book.heard(said);
                    self.book.answered(node, asked_ms, ahead_ms);
                }
                Err(error) => tracing::warn!(node, %error, "a node says what is not understood"),
            },
            Ok(Err(status)) => tracing::debug!(node, %status, "a node does not answer"),
            Err(_) => tracing::debug!(node, "a node does not answer in time"),
        }
    }

    /// Tells the cluster how this node is reached, until it has been heard.
    pub async fn introduce(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let change = NodeChange::Introduce(self.row());
            let asked = self.shards[0].ask(Input::Node { actor: "node".to_owned(), change });
            let answer = tokio::select! {
                () = stop.cancelled() => return,
                answer = asked => answer,
            };
            match answer {
                Ok(Reply::Node(_, name)) => {
                    self.row.write().name = name;
                    return;
                }
                Err(Failure::Rejected(rejection)) => {
                    tracing::error!(%rejection, "this node is not wanted in its cluster");
                    if rejection.code == "node_removed" {
                        self.was_removed();
                    }
                    return;
                }
                other => tracing::debug!(?other, "the cluster has not heard of this node yet"),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}
