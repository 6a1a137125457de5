//! The bounds of queues among nodes: who keeps them, and what shards say to it.
//!
//! The node where shard 0 acts keeps the bounds. A shard's thread leaves what it has to say at the
//! [`Desk`](crate::bounds::Desk); here it is brought to the keeper, and answers to the nodes where
//! shards act. Messages may be lost: a shard that gets no answer asks again after a second, and a
//! keeper says again what was not confirmed.
//!
//! When a shard first speaks to a keeper, both commit something that changes nothing, each under its
//! own term. That neither has been replaced is what `bellwether_core::bounds` counts on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bellwether_core::bounds::{Answer, Ask};
use bellwether_core::waist::{Batch, Shard, Term};
use bellwether_protocol::node::v1;
use bellwether_store::Engine;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::Cluster;
use super::wire::bounds::{decode_answers, encode_answers, encode_asks};
use crate::bounds::{KeptBy, Standing};

/// How often it is looked who keeps the bounds, and launches by rate are given out.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long the other node may take to answer.
const WITHIN: Duration = Duration::from_secs(1);
/// How long a majority may take to confirm who leads.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(5);

impl Cluster {
    /// Keeps the bounds while shard 0 acts here, and finds out who does, until told to stop.
    pub async fn keep_bounds(self: Arc<Self>, stop: CancellationToken) {
        let mut interval = tokio::time::interval(LOOK_EVERY);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = interval.tick() => {}
            }
            let term = self.shards[0].status.term.load(Ordering::Relaxed);
            self.desk.keep((term > 0).then_some(term));
            if let Some(by) = self.who_keeps() {
                self.desk.speak_to(by);
            }
            self.desk.tick();
        }
    }

    fn who_keeps(&self) -> Option<KeptBy> {
        let own = self.shards[0].status.term.load(Ordering::Relaxed);
        if own > 0 {
            return Some(KeptBy { node: self.identity.node, term: own });
        }
        let said = self.book.replicas(0).into_iter();
        let acting = said.filter_map(|(node, said)| Some((said.acting?.term, node)));
        acting.max().map(|(term, node)| KeptBy { node, term })
    }

    /// Brings what shards of this node ask to whoever keeps the bounds, until told to stop.
    pub async fn keep_asking(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let asks = tokio::select! {
                () = stop.cancelled() => return,
                asks = self.desk.asks() => asks,
            };
            // If nobody is known to keep them, it is asked again.
            let Some(by) = self.desk.kept_by() else { continue };
            let mut known = Vec::new();
            for ask in asks {
                match self.desk.standing(ask.shard, ask.term) {
                    Standing::Confirmed => known.push(ask),
                    // It says all again when that is done.
                    Standing::InDoubt => {}
                    Standing::Unknown => {
                        let introducing = self.clone().introduce_shard(ask.shard, ask.term, by);
                        self.acting.spawn(introducing);
                    }
                }
            }
            if known.is_empty() {
                continue;
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.ask_keeper(by, known) => {}
            }
        }
    }

    async fn ask_keeper(&self, by: KeptBy, asks: Vec<Ask>) {
        let answers = if by.node == self.identity.node {
            self.hear_shards(by.term, asks).await
        } else {
            self.ask_afar(by, &asks).await
        };
        match answers {
            Ok(answers) => self.desk.tell(answers),
            Err(status) => tracing::debug!(node = by.node, %status, "does not keep the bounds"),
        }
    }

    async fn ask_afar(&self, by: KeptBy, asks: &[Ask]) -> Result<Vec<Answer>, Status> {
        let mut way = self.to(by.node)?;
        let request = encode_asks(by.term, asks);
        let answer = tokio::time::timeout(WITHIN, way.bound(request)).await;
        let answer = answer.map_err(|_| Status::deadline_exceeded("no answer"))??;
        decode_answers(answer.into_inner().answers).map_err(|e| Status::internal(e.to_string()))
    }

    /// Has it confirmed that a shard acts here before it speaks to a keeper.
    async fn introduce_shard(self: Arc<Self>, shard: Shard, term: Term, by: KeptBy) {
        let acts = self.is_newest(shard, term).await;
        self.desk.confirmed(shard, term, by, acts);
    }

    /// Hears shards that speak to the keeper on this node.
    pub(super) async fn hear_shards(
        &self,
        keeper: Term,
        asks: Vec<Ask>,
    ) -> Result<Vec<Answer>, Status> {
        let gone = || Status::failed_precondition("the bounds are kept elsewhere");
        let new: BTreeMap<Shard, Term> = self.desk.to_meet(keeper, &asks).ok_or_else(gone)?;
        if !new.is_empty() {
            if !self.is_newest(0, keeper).await {
                return Err(gone());
            }
            self.desk.meet(keeper, new);
        }
        self.desk.hear(keeper, asks).ok_or_else(gone)
    }

    /// Whether nobody has acted for a shard under a later term, as a majority agrees.
    async fn is_newest(&self, shard: Shard, term: Term) -> bool {
        let (sender, done) = oneshot::channel();
        let nothing = Batch { shard, term, ops: Vec::new() };
        let tell = Box::new(move |result: Result<(), _>| {
            let _ = sender.send(result.is_ok());
        });
        self.engine.submit(nothing, tell);
        let done = tokio::time::timeout(CONFIRMED_WITHIN, done).await;
        done.is_ok_and(|done| done.unwrap_or(false))
    }

    /// Tells shards that act on other nodes what they are left, until told to stop.
    pub async fn keep_answering(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let answers = tokio::select! {
                () = stop.cancelled() => return,
                answers = self.desk.answers() => answers,
            };
            let mut by_node: BTreeMap<u64, Vec<Answer>> = BTreeMap::new();
            for answer in answers {
                let leader = self.leader(answer.shard).filter(|node| *node != self.identity.node);
                if let Some(node) = leader {
                    by_node.entry(node).or_default().push(answer);
                }
            }
            // Nobody waits for a node that does not answer. What is lost is said again.
            for (node, answers) in by_node {
                let Ok(mut way) = self.to(node) else { continue };
                let request = v1::LeftRequest { answers: encode_answers(&answers) };
                self.acting.spawn(async move {
                    let _ = tokio::time::timeout(WITHIN, way.left(request)).await;
                });
            }
        }
    }
}
