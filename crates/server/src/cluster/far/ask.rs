//! Asking other nodes for rows.

use std::sync::Arc;
use std::time::Duration;

use bellwether_core::waist::{Shard, StoreError, View};
use bellwether_protocol::node::v1;
use bellwether_protocol::node::v1::rows_client::RowsClient;
use bellwether_raft::net::Way;
use bellwether_store::Engine;

use super::{FarView, HeldAt};
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

impl Cluster {
    /// Asks a node that has a shard, and the next if that does not answer. Who did, and what.
    ///
    /// # Errors
    /// When nobody answers in time.
    pub(super) async fn ask_any(
        &self,
        shard: Shard,
        question: &Question,
    ) -> Result<(u64, Told), StoreError> {
        let asking = async {
            loop {
                for node in self.who_has(shard) {
                    let state = State::AtLeast(self.far.floor(shard));
                    if let Some(told) = self.ask_rows(node, shard, state, question).await
                        && !matches!(told, Told::NotHere(_))
                    {
                        return (node, told);
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
                match self.ask_rows(node, shard, state, question).await {
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

    /// Asks a node. `None` if it does not answer.
    async fn ask_rows(
        &self,
        node: u64,
        shard: Shard,
        state: State,
        question: &Question,
    ) -> Option<Told> {
        if node == self.identity.node {
            return self.tell_rows(shard, state, question.clone()).await.ok();
        }
        let mut way = self.rows_at(node)?;
        let asking = async {
            let told: Result<Told, WireError> = match question {
                Question::Get(keys) => {
                    decode_values(way.get(encode_get(shard, state, keys)).await?.into_inner())
                }
                Question::Scan(scan) => {
                    decode_page(way.scan(encode_scan(shard, state, scan)).await?.into_inner())
                }
                Question::Hold => {
                    let State::AtLeast(index) = state else {
                        return Ok(Told::NotHere("it is held already".to_owned()));
                    };
                    let (shard, at_least) = (Some(u32::from(shard)), Some(index));
                    decode_held(way.hold(v1::HoldRequest { shard, at_least }).await?.into_inner())
                }
            };
            told.map_err(|error| tonic::Status::internal(error.to_string()))
        };
        match tokio::time::timeout(ANSWER_WITHIN, asking).await {
            Ok(Ok(told)) => Some(told),
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
        match self.ask_any(shard, &Question::Hold).await? {
            (node, Told::Held(number)) => {
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
