//! Asking other nodes for rows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bellwether_core::waist::{Shard, StoreError, View};
use bellwether_protocol::node::v1;
use bellwether_protocol::node::v1::rows_client::RowsClient;
use bellwether_raft::net::Way;
use bellwether_store::Engine;

use super::{FarView, HeldAt};
use crate::cluster::level::{BEHIND_MAX, can_be_listed};
use crate::cluster::wire::WireError;
use crate::cluster::wire::rows::{
    Question, State, Told, decode_held, decode_page, decode_values, encode_get, encode_scan,
};
use crate::cluster::{Cluster, MESSAGE_MAX};
use crate::shard::Failure;

/// How long a reader may be kept waiting for a node that has a shard.
const WITHIN: Duration = Duration::from_secs(10);
/// How long one node may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// How long to wait before nodes are asked again.
const AGAIN: Duration = Duration::from_millis(50);

/// What a node has told.
pub(super) struct Answered {
    /// Which node.
    pub(super) node: u64,
    /// What.
    pub(super) told: Told,
    /// As of when that is all that anybody was told of; `None` if it does not know.
    pub(super) level: Option<Instant>,
}

impl Cluster {
    /// Asks a node that has a shard, and the next if that does not answer, or is too far behind for
    /// lists and one is to be made.
    ///
    /// # Errors
    /// When nobody answers in time.
    pub(super) async fn ask_any(
        &self,
        shard: Shard,
        question: &Question,
        for_list: bool,
    ) -> Result<Answered, StoreError> {
        let asking = async {
            loop {
                for node in self.who_has(shard) {
                    let state = State::AtLeast(self.far.floor(shard));
                    let asked = Instant::now();
                    if let Some(answered) = self.ask_rows(node, shard, state, question).await
                        && !matches!(answered.told, Told::NotHere(_))
                        && (!for_list || can_be_listed(answered.level, asked))
                    {
                        return answered;
                    }
                }
                tokio::time::sleep(AGAIN).await;
            }
        };
        let within = tokio::time::timeout(WITHIN, asking).await;
        within.map_err(|_| StoreError::Unreachable { shard })
    }

    /// Asks the one node that keeps a state of a shard.
    ///
    /// # Errors
    /// When it does not answer in time, or does not keep it any more.
    pub(super) async fn ask_one(
        &self,
        node: u64,
        shard: Shard,
        state: State,
        question: &Question,
    ) -> Result<Told, StoreError> {
        let asking = async {
            loop {
                match self.ask_rows(node, shard, state, question).await.map(|it| it.told) {
                    Some(Told::NotHere(_)) => return Err(StoreError::Unreachable { shard }),
                    Some(told) => return Ok(told),
                    None => tokio::time::sleep(AGAIN).await,
                }
            }
        };
        let within = tokio::time::timeout(WITHIN, asking).await;
        within.unwrap_or(Err(StoreError::Unreachable { shard }))
    }

    /// The nodes that have a shard, its leader first: whatever anybody was told of, that has it.
    fn who_has(&self, shard: Shard) -> Vec<u64> {
        let own = self.identity.node;
        let is_up = |node: &u64| *node == own || self.book.get(*node).is_some_and(|k| k.is_up());
        let leader = self.leader(shard).filter(is_up);
        let others = self.book.replicas(shard).into_iter();
        let others = others.filter(|(node, said)| said.voters.contains(node)).map(|(node, _)| node);
        let others = others.filter(|node| Some(*node) != leader && *node != own);
        leader.into_iter().chain(others).collect()
    }

    /// The other nodes that are up and have a shard.
    pub(in crate::cluster) fn others_with(&self, shard: Shard) -> Vec<u64> {
        self.who_has(shard).into_iter().filter(|node| *node != self.identity.node).collect()
    }

    /// Asks a node. `None` if it does not answer.
    async fn ask_rows(
        &self,
        node: u64,
        shard: Shard,
        state: State,
        question: &Question,
    ) -> Option<Answered> {
        if node == self.identity.node {
            let level = self.known_levels().at(shard);
            let told = self.tell_rows(shard, state, question.clone()).await.ok()?;
            return Some(Answered { node, told, level });
        }
        let mut way = self.rows_at(node)?;
        let asked = Instant::now();
        let asking = async {
            let (told, level_ms): (Result<Told, WireError>, _) = match question {
                Question::Get(keys) => {
                    let answer = way.get(encode_get(shard, state, keys)).await?.into_inner();
                    let level_ms = answer.level_ms;
                    (decode_values(answer), level_ms)
                }
                Question::Scan(scan) => {
                    let answer = way.scan(encode_scan(shard, state, scan)).await?.into_inner();
                    let level_ms = answer.level_ms;
                    (decode_page(answer), level_ms)
                }
                Question::Hold => {
                    let State::AtLeast(index) = state else {
                        return Ok((Told::NotHere("it is held already".to_owned()), None));
                    };
                    let (shard, at_least) = (Some(u32::from(shard)), Some(index));
                    let request = v1::HoldRequest { shard, at_least };
                    (decode_held(way.hold(request).await?.into_inner()), None)
                }
            };
            let told = told.map_err(|error| tonic::Status::internal(error.to_string()))?;
            Ok::<_, tonic::Status>((told, level_ms))
        };
        match tokio::time::timeout(ANSWER_WITHIN, asking).await {
            Ok(Ok((told, level_ms))) => {
                // A node that does not say counts as one that is as far behind as can be shown.
                let behind = level_ms.map_or(BEHIND_MAX, Duration::from_millis);
                Some(Answered { node, told, level: asked.checked_sub(behind) })
            }
            Ok(Err(status)) => {
                tracing::debug!(node, shard, %status, "a node does not tell its rows");
                None
            }
            Err(_) => None,
        }
    }

    fn rows_at(&self, node: u64) -> Option<RowsClient<Way>> {
        let way = RowsClient::new(self.way_to(node).ok()?);
        Some(way.max_decoding_message_size(MESSAGE_MAX).max_encoding_message_size(MESSAGE_MAX))
    }

    /// A view of a shard at one moment, with everything that anybody was told of before this was
    /// called, wherever it is.
    ///
    /// # Errors
    /// When nobody can be reached who has it.
    pub async fn steady_view(self: &Arc<Self>, shard: Shard) -> Result<Arc<dyn View>, Failure> {
        if self.book.is_empty() {
            return Ok(self.engine.view());
        }
        self.catch_up(shard).await?;
        let here = self.far.is_here(shard);
        let local = self.engine.view();
        if here && self.far.is_here(shard) {
            return Ok(local);
        }
        match self.ask_any(shard, &Question::Hold, false).await? {
            Answered { node, told: Told::Held(number), .. } => {
                Ok(Arc::new(FarView::held(self.clone(), local, HeldAt { node, number })))
            }
            _ => Err(Failure::NoLeader(shard)),
        }
    }

    /// Tells a node that what it keeps is not wanted any more. It would find that out by itself.
    pub(super) async fn release(&self, node: u64, number: u64) {
        if node == self.identity.node {
            self.far.release(number);
        } else if let Some(mut way) = self.rows_at(node) {
            let request = v1::ReleaseRequest { held: Some(number) };
            let _ = tokio::time::timeout(ANSWER_WITHIN, way.release(request)).await;
        }
    }
}
