//! Reading what is true now, not what was true a moment ago.
//!
//! Whoever leads a shard knows up to which entry everything is committed that anybody was told of.
//! A replica that has applied as much shows it: the own one, or, if there is none, the one that is
//! asked for rows afterwards (see `far`).

use std::time::Duration;

use bellwether_core::waist::Shard;
use bellwether_protocol::node::v1;
use bellwether_protocol::node::v1::read_point_answer::Answer;

use super::Cluster;
use crate::shard::Failure;

/// How long a reader may be kept waiting for a leader.
const WITHIN: Duration = Duration::from_secs(10);
/// How long a leader may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// How long to wait before a leader is asked again.
const AGAIN: Duration = Duration::from_millis(50);
/// How long to wait for the own replica before it is looked again whether it is the one to wait for.
const LOOK: Duration = Duration::from_millis(500);

impl Cluster {
    /// Waits until a view of this node shows everything about a shard that anybody was told of before
    /// this was called.
    ///
    /// # Errors
    /// When nobody can say.
    pub async fn catch_up(&self, shard: Shard) -> Result<(), Failure> {
        let catching_up = async {
            loop {
                if let Some(index) = self.read_point(shard).await {
                    self.reach(shard, index).await;
                    return;
                }
                tokio::time::sleep(AGAIN).await;
            }
        };
        let within = tokio::time::timeout(WITHIN, catching_up).await;
        within.map_err(|_| Failure::NoLeader(shard))
    }

    /// Waits until a view of this node shows a shard's log up to an entry. One whose own replica is
    /// too far behind shows that of another node.
    pub(super) async fn reach(&self, shard: Shard, index: u64) {
        while !self.far.raise(shard, index)
            && self.engine.applied_to(shard, index, LOOK).await.is_err()
        {
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn read_point(&self, shard: Shard) -> Option<u64> {
        let leader = self.leader(shard)?;
        if leader == self.identity.node {
            return self.engine.read_point(shard).await.ok();
        }
        let mut way = self.to(leader).ok()?;
        let request = v1::ReadPointRequest { shard: Some(u32::from(shard)) };
        let answer =
            tokio::time::timeout(ANSWER_WITHIN, way.read_point(request)).await.ok()?.ok()?;
        match answer.into_inner().answer? {
            Answer::Index(index) => Some(index),
            Answer::NotLeader(_) => None,
        }
    }
}
