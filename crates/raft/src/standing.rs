//! How the groups of a node stand: who leads, who takes part, how far everybody is; and what can be
//! done about it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bellwether_core::key::shard_range;
use bellwether_core::waist::{Family, Shard, StoreError, Term};
use bellwether_store::Engine;
use openraft::ChangeMembers;
use openraft::async_runtime::{Instant, WatchReceiver};
use openraft::errors::RaftError;
use openraft::metrics::{RaftMetrics, RaftServerMetrics, WaitError};
use openraft::raft::ReadPolicy;
use openraft::type_config::alias::WatchReceiverOf;
use tokio::sync::oneshot;

use crate::compaction::compact;
use crate::engine::{RaftEngine, RaftOpenError, group_error};
use crate::member::{Group, leads_alone};
use crate::types::{Peer, Types};

/// How long a node that is alone may take to lead a group.
const LEAD_WITHIN: Duration = Duration::from_secs(30);
/// How often to ask whether a quorum has acknowledged a new leader.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// How often at least, when that has taken long.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_millis(50);

/// How a group stands, as its replica on this node knows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// The node that leads it.
    pub leader: Option<u64>,
    /// The number of its leader.
    pub term: u64,
    /// The nodes that vote.
    pub voters: BTreeSet<u64>,
    /// The nodes that learn.
    pub learners: BTreeSet<u64>,
    /// The entry of the log that says so.
    pub membership: u64,
    /// Where they are all reached.
    pub peers: BTreeMap<u64, Peer>,
    /// Whether the newest change of who takes part is yet to be agreed upon.
    pub changing: bool,
    /// Whether a change of who votes was left half-way: until it is finished, majorities of those
    /// before and of those after it are needed.
    pub halfway: bool,
    /// The last entry of this node's log.
    pub last: u64,
    /// The last entry that this node has applied.
    pub applied: u64,
    /// How many entries it knows to be agreed upon and has yet to apply, if not to receive.
    pub behind: u64,
    /// How long ago a majority last said that this node leads, if it does.
    pub confirmed: Option<Duration>,
    /// The entry up to which everything is agreed upon that anybody was told of before a majority last
    /// said that this node leads; `None` if it does not, or has agreed upon nothing since it does: it
    /// does not know then what others told.
    pub agreed: Option<u64>,
    /// What this node knows of the others, if it leads.
    pub replicas: BTreeMap<u64, Progress>,
}

/// How far a replica is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// The last entry that it is known to have.
    pub matched: u64,
    /// How long ago it was heard; never if `None`.
    pub silent: Option<Duration>,
}

/// Wakes whoever waits for a group to be led by another, or to have other members.
pub struct Watch(WatchReceiverOf<Types, RaftServerMetrics<Types>>);

impl Watch {
    /// The node that leads.
    #[must_use]
    pub fn leader(&self) -> Option<u64> {
        self.0.borrow_watched().current_leader
    }

    /// Waits until something has changed. False once the group has stopped.
    pub async fn changed(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}

/// The last entry that a node is known to have.
fn matched(metrics: &RaftMetrics<Types>, node: u64) -> Option<u64> {
    let matched = metrics.replication.as_ref().and_then(|all| all.get(&node));
    matched.and_then(|at| at.as_ref()).map(|at| at.index)
}

fn no_replica() -> RaftOpenError {
    group_error("this node has no replica of the shard")
}

impl RaftEngine {
    fn raft(&self, shard: Shard) -> Result<Group, RaftOpenError> {
        self.members.get(shard).map(|member| member.raft.clone()).ok_or_else(no_replica)
    }

    /// This node's number.
    #[must_use]
    pub fn node(&self) -> u64 {
        self.identity.node
    }

    /// The shards that this node has a replica of.
    #[must_use]
    pub fn replicas(&self) -> Vec<Shard> {
        self.members.all().into_iter().map(|(shard, _)| shard).collect()
    }

    /// Whether this node has a replica of a shard.
    #[must_use]
    pub fn has(&self, shard: Shard) -> bool {
        self.members.get(shard).is_some()
    }

    /// Whether the replica of this node was begun anew and has yet to [arrive](crate::arrival): what it shows
    /// is nothing, or long past.
    #[must_use]
    pub fn is_awaited(&self, shard: Shard) -> bool {
        self.members.get(shard).is_some_and(|member| member.heard.arrival.is_awaited())
    }

    /// Who leads a shard, as far as this node knows.
    #[must_use]
    pub fn leader(&self, shard: Shard) -> Option<u64> {
        self.members.get(shard)?.raft.server_metrics().borrow_watched().current_leader
    }

    /// How a shard's group stands; `None` if this node has no part in it.
    #[must_use]
    pub fn standing(&self, shard: Shard) -> Option<Standing> {
        let raft = self.members.get(shard)?.raft.clone();
        let metrics = raft.metrics().borrow_watched().clone();
        let membership = metrics.membership_config.membership();
        let silence = metrics.heartbeat.unwrap_or_default();
        let replicas =
            metrics.replication.unwrap_or_default().into_iter().map(|(node, matched)| {
                let heard = silence.get(&node).and_then(|at| at.as_ref());
                let matched = matched.map_or(0, |at| at.index);
                (node, Progress { matched, silent: heard.map(|at| at.elapsed()) })
            });
        let applied = metrics.last_applied.map_or(0, |at| at.index);
        let own_term = metrics.cluster_committed.filter(|at| {
            metrics.current_leader == Some(metrics.id)
                && **at.committed_leader_id() == metrics.current_term
        });
        Some(Standing {
            leader: metrics.current_leader,
            term: metrics.current_term,
            voters: membership.voter_ids().collect(),
            learners: membership.learner_ids().collect(),
            membership: metrics.membership_config.log_id().as_ref().map_or(0, |at| at.index),
            peers: membership.nodes().map(|(node, peer)| (*node, peer.clone())).collect(),
            halfway: membership.get_joint_config().len() > 1,
            changing: metrics.membership_config != metrics.committed_membership_config,
            last: metrics.last_log_index.unwrap_or(0),
            applied,
            behind: metrics.cluster_committed.map_or(0, |at| at.index).saturating_sub(applied),
            confirmed: if leads_alone(&raft.server_metrics().borrow_watched()) {
                Some(Duration::ZERO)
            } else {
                metrics.last_quorum_acked.map(|at| at.elapsed())
            },
            agreed: own_term.map(|at| at.index),
            replicas: replicas.collect(),
        })
    }

    /// The last entry of a shard's log that this node has applied; `None` if it has no part in it.
    #[must_use]
    pub fn applied(&self, shard: Shard) -> Option<u64> {
        let metrics = self.members.get(shard)?.raft.metrics();
        Some(metrics.borrow_watched().last_applied.map_or(0, |at| at.index))
    }

    /// Watches who leads a shard.
    #[must_use]
    pub fn watch(&self, shard: Shard) -> Option<Watch> {
        Some(Watch(self.members.get(shard)?.raft.server_metrics()))
    }

    /// Begins all groups that have not been begun with this node as their only member, and leads
    /// them. Only for the first node of a new cluster.
    ///
    /// Tables that were there before, such as those of a restore, have rows that no entry of the log has
    /// written. What the log of such a shard has so far is purged, so that whoever joins needs a copy. If this is
    /// interrupted, it has to be done again before anybody may join.
    ///
    /// # Errors
    /// When it does not lead them in time, or the tables cannot be read or made durable.
    pub async fn found(&self, peer: &Peer) -> Result<(), RaftOpenError> {
        let node = self.identity.node;
        for shard in self.replicas() {
            let raft = self.raft(shard)?;
            let has_rows = self.has_rows(shard)?;
            if !raft.is_initialized().await.map_err(group_error)? {
                let alone = BTreeMap::from([(node, peer.clone())]);
                raft.initialize(alone).await.map_err(group_error)?;
                self.wait_to_lead(shard).await?;
            }
            if has_rows {
                self.purge(shard).await?;
            }
        }
        self.lead_alone(peer).await
    }

    fn has_rows(&self, shard: Shard) -> Result<bool, RaftOpenError> {
        let (view, (from, to)) = (self.tables.view(), shard_range(shard));
        for family in Family::ALL {
            if let Some(row) = view.scan(family, &from, &to).next() {
                row.map_err(group_error)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes the tables of a shard that begins here durable, and purges from its log all that has been applied
    /// to them.
    async fn purge(&self, shard: Shard) -> Result<(), RaftOpenError> {
        let raft = self.raft(shard)?;
        // Something has, be it the blank entry of whoever leads, but perhaps it is yet to be seen here.
        let begun = self.wait(shard, LEAD_WITHIN, |metrics| metrics.last_applied.is_some()).await?;
        let upto = begun.last_applied.map_or(0, |at| at.index);
        compact(&raft, upto).await?;
        let purged =
            |metrics: &RaftMetrics<Types>| metrics.purged.is_some_and(|at| at.index >= upto);
        self.wait(shard, LEAD_WITHIN, purged).await.map(drop)
    }

    /// Leads the groups in which this node alone votes, at once: there is nobody to wait for. They
    /// learn where it is reached now. One that has yet to [arrive](crate::arrival) votes alone in its past only.
    ///
    /// # Errors
    /// When it does not lead them in time.
    pub async fn lead_alone(&self, peer: &Peer) -> Result<(), RaftOpenError> {
        let node = self.identity.node;
        let leading = self.replicas().into_iter().map(|shard| async move {
            let member = self.members.get(shard).ok_or_else(no_replica)?;
            let raft = &member.raft;
            if member.heard.arrival.is_awaited() || !raft.voter_ids().eq([node]) {
                return Ok(());
            }
            if !raft.is_leader() {
                raft.trigger().elect(false).await.map_err(group_error)?;
            }
            self.wait_to_lead(shard).await?;
            let known = self.standing(shard).and_then(|now| now.peers.get(&node).cloned());
            if known.as_ref() != Some(peer) {
                self.set_peers(shard, BTreeMap::from([(node, peer.clone())])).await?;
            }
            Ok(())
        });
        futures::future::try_join_all(leading).await.map(drop)
    }

    /// Takes a shard over, as [`Engine::acquire`] does, as soon as this node leads it and a quorum has
    /// acknowledged that. All that was in its log before has been applied by then.
    ///
    /// # Errors
    /// When it does not lead it in time, or not any more.
    pub async fn take_over(&self, shard: Shard) -> Result<Term, StoreError> {
        let node = self.identity.node;
        let led = self.wait_for_leader(shard, node, LEAD_WITHIN).await;
        led.map_err(|_| StoreError::NotLeader { shard })?;
        let mut pause = LOOK_EVERY;
        loop {
            // It may have been erased meanwhile.
            let Ok(raft) = self.raft(shard) else {
                return Err(StoreError::NotLeader { shard });
            };
            let (sender, term) = oneshot::channel();
            self.ask_to_acquire(shard, |result| {
                // Whoever asked may be gone.
                let _ = sender.send(result);
            });
            match term.await.unwrap_or(Err(StoreError::Closed)) {
                // A new leader takes nothing until a quorum has acknowledged it.
                Err(StoreError::NotLeader { .. })
                    if raft.server_metrics().borrow_watched().current_leader == Some(node) => {}
                taken => return taken,
            }
            // Mostly it is a matter of milliseconds. One that is cut off may take itself for the leader for long.
            tokio::time::sleep(pause).await;
            pause = (pause * 5 / 4).min(LOOK_AT_LEAST_EVERY);
        }
    }

    /// Waits until this node leads a shard and has applied all that was in its log before.
    async fn wait_to_lead(&self, shard: Shard) -> Result<(), RaftOpenError> {
        let raft = self.raft(shard)?;
        let node = self.identity.node;
        self.wait_for_leader(shard, node, LEAD_WITHIN).await?;
        // A new leader takes nothing until a quorum has acknowledged it. Once this is applied, so is
        // everything that was in the log before.
        let mut again = tokio::time::interval(LOOK_EVERY);
        loop {
            again.tick().await;
            match raft.write_blank().await {
                Ok(_) => return Ok(()),
                // It has stopped, and says for ever that it leads.
                Err(RaftError::Fatal(error)) => return Err(group_error(error)),
                Err(_) if raft.server_metrics().borrow_watched().current_leader == Some(node) => {}
                Err(error) => return Err(group_error(error)),
            }
        }
    }

    /// Waits until a node leads a shard, as far as this one knows.
    ///
    /// # Errors
    /// When it does not in time.
    pub async fn wait_for_leader(
        &self,
        shard: Shard,
        node: u64,
        within: Duration,
    ) -> Result<(), RaftOpenError> {
        self.wait(shard, within, move |metrics| metrics.current_leader == Some(node))
            .await
            .map(drop)
    }

    /// Waits until a node that learns has arrived: it has all that was agreed upon when it was first spoken to.
    /// Until then it neither votes nor stands for election, and a majority must not need it. Only the leader knows.
    ///
    /// # Errors
    /// When it has not in time.
    pub async fn wait_until_arrived(
        &self,
        shard: Shard,
        node: u64,
        within: Duration,
    ) -> Result<(), RaftOpenError> {
        self.wait_leading(shard, within, move |metrics| matched(metrics, node).is_some()).await?;
        // It has answered, so it was spoken to before this.
        let last = self.standing(shard).map_or(0, |standing| standing.last);
        self.wait_leading(shard, within, move |metrics| matched(metrics, node) >= Some(last)).await
    }

    /// Waits for something that only the leader sees, as long as this node leads.
    async fn wait_leading(
        &self,
        shard: Shard,
        within: Duration,
        holds: impl Fn(&RaftMetrics<Types>) -> bool + Send + Sync,
    ) -> Result<(), RaftOpenError> {
        let own = Some(self.identity.node);
        let ended = |metrics: &RaftMetrics<Types>| holds(metrics) || metrics.current_leader != own;
        match holds(&self.wait(shard, within, ended).await?) {
            true => Ok(()),
            false => Err(group_error("this node leads the shard no more")),
        }
    }

    /// Waits until a node has all that is in this one's log of a shard. Only the leader knows.
    ///
    /// # Errors
    /// When it does not in time.
    pub async fn wait_until_level(
        &self,
        shard: Shard,
        node: u64,
        within: Duration,
    ) -> Result<(), RaftOpenError> {
        let level =
            move |metrics: &RaftMetrics<Types>| matched(metrics, node) >= metrics.last_log_index;
        self.wait(shard, within, level).await.map(drop)
    }

    async fn wait(
        &self,
        shard: Shard,
        within: Duration,
        holds: impl Fn(&RaftMetrics<Types>) -> bool + Send,
    ) -> Result<RaftMetrics<Types>, RaftOpenError> {
        let waited = self.raft(shard)?.wait(Some(within)).metrics(holds, "holds").await;
        waited.map_err(|error| match error {
            // Without all that openraft knows.
            WaitError::Timeout(..) => group_error(format!("not within {within:?}")),
            WaitError::ShuttingDown => group_error("it stops"),
        })
    }

    /// The entry up to which everything is committed that anybody was told of before this was
    /// asked. Only the leader knows, and only if a majority says after that that it still leads: a
    /// machine that was suspended may take a promise of theirs for fresh that has long ended.
    ///
    /// # Errors
    /// When this node does not lead the shard, or cannot make sure that it does.
    pub async fn read_point(&self, shard: Shard) -> Result<u64, RaftOpenError> {
        let raft = self.raft(shard)?;
        let linearizer =
            raft.get_read_linearizer(ReadPolicy::ReadIndex).await.map_err(group_error)?;
        Ok(linearizer.read_log_id().log_id().index)
    }

    /// Waits until this node has applied a shard's log up to an entry.
    ///
    /// # Errors
    /// When it has not in time.
    pub async fn applied_to(
        &self,
        shard: Shard,
        index: u64,
        within: Duration,
    ) -> Result<(), RaftOpenError> {
        let applied = move |metrics: &RaftMetrics<Types>| {
            metrics.last_applied.is_some_and(|at| at.index >= index)
        };
        self.wait(shard, within, applied).await.map(drop)
    }

    /// Lets a node learn what a shard has, and returns once it has nearly all. Only the leader can.
    ///
    /// # Errors
    /// When the group does not take it.
    pub async fn add_learner(
        &self,
        shard: Shard,
        node: u64,
        peer: Peer,
    ) -> Result<(), RaftOpenError> {
        let raft = self.raft(shard)?;
        raft.add_learner(node, peer, true).await.map(drop).map_err(group_error)
    }

    /// Sets who votes, among those that take part; the others go on learning. Only the leader can.
    ///
    /// # Errors
    /// When the group does not agree.
    pub async fn set_voters(
        &self,
        shard: Shard,
        voters: BTreeSet<u64>,
    ) -> Result<(), RaftOpenError> {
        let raft = self.raft(shard)?;
        raft.change_membership(voters, true).await.map(drop).map_err(group_error)
    }

    /// Finishes a change of who votes that was left half-way, as it was meant. Only the leader can.
    ///
    /// # Errors
    /// When the group does not agree.
    pub async fn finish_voters(&self, shard: Shard) -> Result<(), RaftOpenError> {
        let raft = self.raft(shard)?;
        let nobody_more = ChangeMembers::AddVoterIds(BTreeSet::new());
        raft.change_membership(nobody_more, true).await.map(drop).map_err(group_error)
    }

    /// Lets nodes that learn go. Only the leader can.
    ///
    /// # Errors
    /// When the group does not agree.
    pub async fn remove_learners(
        &self,
        shard: Shard,
        nodes: BTreeSet<u64>,
    ) -> Result<(), RaftOpenError> {
        let raft = self.raft(shard)?;
        let change = ChangeMembers::RemoveNodes(nodes);
        raft.change_membership(change, false).await.map(drop).map_err(group_error)
    }

    /// Says where nodes are reached from now on. Only the leader can.
    ///
    /// # Errors
    /// When the group does not agree.
    pub async fn set_peers(
        &self,
        shard: Shard,
        peers: BTreeMap<u64, Peer>,
    ) -> Result<(), RaftOpenError> {
        let raft = self.raft(shard)?;
        let change = ChangeMembers::SetNodes(peers);
        raft.change_membership(change, false).await.map(drop).map_err(group_error)
    }

    /// Asks another node to lead a shard from now on, which it does as soon as it has everything.
    /// Only the leader can.
    ///
    /// # Errors
    /// When the group has stopped.
    pub async fn hand_over(&self, shard: Shard, to: u64) -> Result<(), RaftOpenError> {
        self.raft(shard)?.trigger().transfer_leader(to).await.map_err(group_error)
    }
}
