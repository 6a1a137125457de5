//! What a node says of itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use bellwether_core::record::{self, NodeRow};
use bellwether_core::time::Time;
use bellwether_core::turn::{Demand, Offer};
use bellwether_core::waist::Shard;
use bellwether_protocol::node::v1;

use super::ask::decode_shard;
use super::work::{decode_roster_entry, encode_roster_entry};
use super::{WireError, required, stored};

/// A replica with more entries than this to catch up with is neither read nor to lead. Under load a
/// few are always on their way.
pub const FAR_BEHIND: u64 = 64;

/// What a node says of itself.
#[derive(Clone, PartialEq, Debug)]
pub struct Said {
    /// As it is known to the cluster.
    pub row: NodeRow,
    /// When it was started.
    pub started: Time,
    /// Its version.
    pub version: String,
    /// Bytes that it uses on disk.
    pub disk_bytes: u64,
    /// Those of its log.
    pub log_bytes: u64,
    /// Its replicas.
    pub replicas: Vec<SaidOfReplica>,
    /// Whether it is about to stop.
    pub stopping: bool,
    /// The workers that are connected to it.
    pub workers: Vec<(Arc<str>, Offer, Demand)>,
    /// Whether the node that is told this has been removed from the cluster.
    pub removed: bool,
    /// Whether the node that is told this is to leave the cluster.
    pub leaving: bool,
    /// The other nodes that it hears, and where.
    pub hears: Vec<NodeRow>,
    /// The queues of the shards that act there: what is with workers, and what waits.
    pub queues: Vec<(String, u64, u64)>,
    /// What its clock said then, unless it is too old to tell.
    pub clock: Option<Time>,
}

/// What a node says of a replica.
#[derive(Clone, PartialEq, Debug)]
pub struct SaidOfReplica {
    /// The shard.
    pub shard: Shard,
    /// Who leads it as far as that node knows.
    pub leader: Option<u64>,
    /// The number of that leader.
    pub term: u64,
    /// The last entry of its log.
    pub last: u64,
    /// The last entry that it has applied.
    pub applied: u64,
    /// How many entries are known there to be agreed upon and yet to be applied.
    pub behind: u64,
    /// Who votes.
    pub voters: BTreeSet<u64>,
    /// Who learns.
    pub learners: BTreeSet<u64>,
    /// The entry of the log that says so.
    pub membership: u64,
    /// Whether that is being changed.
    pub changing: bool,
    /// How long ago a majority last said that that node leads, if it does.
    pub confirmed_ms: Option<u64>,
    /// If that node leads, the entry up to which everything is agreed upon that anybody was told of
    /// before that.
    pub agreed: Option<u64>,
    /// About how many bytes it uses on disk, if that is known.
    pub bytes: Option<u64>,
    /// How the runs stand, if the shard acts there.
    pub acting: Option<SaidOfActing>,
}

impl SaidOfReplica {
    /// Whether it has yet to catch up.
    #[must_use]
    pub fn is_far_behind(&self) -> bool {
        self.behind > FAR_BEHIND
    }
}

/// What a node says of a shard that acts there.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SaidOfActing {
    /// The term under which it acts.
    pub term: u64,
    /// Runs that are open.
    pub open_runs: u64,
    /// Runs that wait for a worker.
    pub ready_runs: u64,
    /// Upcoming entries in memory.
    pub wheel_entries: u64,
}

/// It as a message.
#[must_use]
pub fn encode(said: &Said) -> v1::Attendance {
    v1::Attendance {
        node: Some(record::encode(&said.row)),
        started_ms: Some(said.started.0),
        version: Some(said.version.clone()),
        disk_bytes: Some(said.disk_bytes),
        log_bytes: Some(said.log_bytes),
        replicas: said.replicas.iter().map(encode_replica).collect(),
        stopping: Some(said.stopping),
        workers: said
            .workers
            .iter()
            .map(|(name, offer, most)| encode_roster_entry(name, offer, *most))
            .collect(),
        removed: Some(said.removed),
        leaving: Some(said.leaving),
        hears: said.hears.iter().map(record::encode).collect(),
        queues: said.queues.iter().map(encode_queue).collect(),
        clock_ms: said.clock.map(|clock| clock.0),
    }
}

fn encode_queue((queue, running, waiting): &(String, u64, u64)) -> v1::QueueState {
    let (running, waiting) = (Some(*running), Some(*waiting));
    v1::QueueState { queue: Some(queue.clone()), running, waiting }
}

fn decode_queue(message: v1::QueueState) -> Result<(String, u64, u64), WireError> {
    let running = required("QueueState.running", message.running)?;
    let waiting = required("QueueState.waiting", message.waiting)?;
    Ok((required("QueueState.queue", message.queue)?, running, waiting))
}

fn encode_replica(replica: &SaidOfReplica) -> v1::ReplicaState {
    v1::ReplicaState {
        shard: Some(u32::from(replica.shard)),
        leader: replica.leader,
        term: Some(replica.term),
        last: Some(replica.last),
        applied: Some(replica.applied),
        behind: Some(replica.behind),
        voters: replica.voters.iter().copied().collect(),
        learners: replica.learners.iter().copied().collect(),
        membership: Some(replica.membership),
        changing: Some(replica.changing),
        confirmed_ms: replica.confirmed_ms,
        agreed: Some(replica.agreed.unwrap_or(0)),
        bytes: replica.bytes,
        acting: replica.acting.map(|acting| v1::ActingState {
            term: Some(acting.term),
            open_runs: Some(acting.open_runs),
            ready_runs: Some(acting.ready_runs),
            wheel_entries: Some(acting.wheel_entries),
        }),
    }
}

/// What a message says.
///
/// # Errors
/// When it is not understood.
pub fn decode(message: v1::Attendance) -> Result<Said, WireError> {
    Ok(Said {
        row: stored("Attendance.node", message.node)?,
        started: Time(required("Attendance.started_ms", message.started_ms)?),
        version: required("Attendance.version", message.version)?,
        disk_bytes: required("Attendance.disk_bytes", message.disk_bytes)?,
        log_bytes: message.log_bytes.unwrap_or(0),
        replicas: message.replicas.into_iter().map(decode_replica).collect::<Result<_, _>>()?,
        stopping: required("Attendance.stopping", message.stopping)?,
        workers: message.workers.into_iter().map(decode_roster_entry).collect::<Result<_, _>>()?,
        removed: message.removed.unwrap_or(false),
        leaving: message.leaving.unwrap_or(false),
        hears: message
            .hears
            .into_iter()
            .map(|row| stored("Attendance.hears", Some(row)))
            .collect::<Result<_, _>>()?,
        queues: message.queues.into_iter().map(decode_queue).collect::<Result<_, _>>()?,
        clock: message.clock_ms.map(Time),
    })
}

fn decode_replica(message: v1::ReplicaState) -> Result<SaidOfReplica, WireError> {
    let acting = message.acting.map(|acting| {
        Ok(SaidOfActing {
            term: required("ActingState.term", acting.term)?,
            open_runs: required("ActingState.open_runs", acting.open_runs)?,
            ready_runs: required("ActingState.ready_runs", acting.ready_runs)?,
            wheel_entries: required("ActingState.wheel_entries", acting.wheel_entries)?,
        })
    });
    let acting = acting.transpose()?;
    let applied = required("ReplicaState.applied", message.applied)?;
    let behind = message.behind.unwrap_or(0);
    // One that does not say what is agreed upon knows it, if the shard acts there.
    let known = acting.map(|_| applied.saturating_add(behind));
    Ok(SaidOfReplica {
        shard: decode_shard("ReplicaState.shard", message.shard)?,
        leader: message.leader,
        term: required("ReplicaState.term", message.term)?,
        last: required("ReplicaState.last", message.last)?,
        applied,
        behind,
        voters: message.voters.into_iter().collect(),
        learners: message.learners.into_iter().collect(),
        membership: message.membership.unwrap_or(0),
        changing: required("ReplicaState.changing", message.changing)?,
        confirmed_ms: message.confirmed_ms,
        agreed: message.agreed.or(known).filter(|entry| *entry > 0),
        bytes: message.bytes,
        acting,
    })
}
