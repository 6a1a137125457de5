//! What is stored and sent, as protobuf messages of our own: openraft's types are not a format.
//!
//! Fields are only ever added; a number once used is not used again.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use bellwether_core::waist::{Batch, Family, Op, Shard, Term};
use bellwether_store::Replicated;
use bytes::Bytes;
use openraft::EntryPayload;
use openraft::vote::RaftVote;
use openraft::vote::leader_id_std::CommittedLeaderId;
use prost::{Message, Oneof};

use crate::log::Point;
use crate::types::{Command, Entry, LogId, Membership, Peer, StoredMembership, Vote};

/// Bytes that cannot be understood.
pub(crate) fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} cannot be understood"))
}

fn decode<M: Message + Default>(what: &str, bytes: Bytes) -> io::Result<M> {
    M::decode(bytes).map_err(|error| malformed(&format!("{what} ({error})")))
}

/// What is asked of a shard, as it is replicated: a batch, or to take it over.
#[derive(Clone, PartialEq, Message)]
struct WireBatch {
    #[prost(uint32, tag = "1")]
    shard: u32,
    #[prost(uint64, tag = "2")]
    term: u64,
    #[prost(message, repeated, tag = "3")]
    ops: Vec<WireOp>,
    /// A leader takes the shard over; there is nothing else then.
    #[prost(bool, tag = "4")]
    acquire: bool,
}

#[derive(Clone, PartialEq, Message)]
struct WireOp {
    /// 0 put, 1 delete, 2 drop a range.
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(uint32, tag = "2")]
    family: u32,
    #[prost(bytes = "bytes", tag = "3")]
    key: Bytes,
    /// The value, or the end of the range.
    #[prost(bytes = "bytes", tag = "4")]
    value: Bytes,
}

/// The wish to take a shard over, as it is replicated.
#[must_use]
pub fn encode_acquire(shard: Shard) -> Command {
    let wire = WireBatch { shard: u32::from(shard), acquire: true, ..WireBatch::default() };
    Command(Bytes::from(wire.encode_to_vec()))
}

/// A batch as it is replicated.
#[must_use]
pub fn encode_batch(batch: Batch) -> Command {
    let ops = batch.ops.into_iter().map(|op| match op {
        Op::Put { family, key, value } => WireOp { kind: 0, family: family as u32, key, value },
        Op::Delete { family, key } => {
            WireOp { kind: 1, family: family as u32, key, value: Bytes::new() }
        }
        Op::DropRange { family, from, to } => {
            WireOp { kind: 2, family: family as u32, key: from, value: to }
        }
    });
    let wire = WireBatch {
        shard: u32::from(batch.shard),
        term: batch.term,
        ops: ops.collect(),
        acquire: false,
    };
    Command(Bytes::from(wire.encode_to_vec()))
}

/// What was replicated.
///
/// # Errors
/// When it cannot be understood.
pub fn decode_command(command: &Command) -> io::Result<Replicated> {
    let wire: WireBatch = decode("a batch", command.0.clone())?;
    if wire.acquire {
        return Ok(Replicated::Acquire);
    }
    let ops = wire.ops.into_iter().map(|WireOp { kind, family, key, value }| {
        let family = Family::ALL.get(family as usize).copied();
        let family = family.ok_or_else(|| malformed("a family of keys"))?;
        Ok(match kind {
            0 => Op::Put { family, key, value },
            1 => Op::Delete { family, key },
            2 => Op::DropRange { family, from: key, to: value },
            _ => return Err(malformed("a kind of write")),
        })
    });
    let shard = Shard::try_from(wire.shard).map_err(|_| malformed("a shard's number"))?;
    let batch = Batch { shard, term: wire.term as Term, ops: ops.collect::<io::Result<_>>()? };
    Ok(Replicated::Write(batch))
}

/// What an entry says.
#[derive(Clone, PartialEq, Message)]
struct WirePayload {
    #[prost(oneof = "WireKind", tags = "1, 2")]
    kind: Option<WireKind>,
}

#[derive(Clone, PartialEq, Oneof)]
enum WireKind {
    #[prost(bytes = "bytes", tag = "1")]
    Batch(Bytes),
    #[prost(message, tag = "2")]
    Membership(WireMembership),
}

/// Who takes part in a group.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct WireMembership {
    /// One set of voters, or two while they change.
    #[prost(message, repeated, tag = "1")]
    voters: Vec<WireVoters>,
    /// All nodes, those that do not vote included.
    #[prost(btree_map = "uint64, message", tag = "2")]
    nodes: BTreeMap<u64, WirePeer>,
}

#[derive(Clone, PartialEq, Message)]
struct WireVoters {
    #[prost(uint64, repeated, tag = "1")]
    ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct WirePeer {
    #[prost(string, tag = "1")]
    address: String,
    #[prost(string, tag = "2")]
    zone: String,
}

#[derive(Clone, PartialEq, Message)]
struct WireVote {
    #[prost(uint64, tag = "1")]
    term: u64,
    #[prost(uint64, tag = "2")]
    node: u64,
    #[prost(bool, tag = "3")]
    committed: bool,
}

pub(crate) fn membership_to_wire(membership: &Membership) -> WireMembership {
    let voters = membership.get_joint_config().iter();
    let peer = |peer: &Peer| WirePeer { address: peer.address.clone(), zone: peer.zone.clone() };
    WireMembership {
        voters: voters.map(|ids| WireVoters { ids: ids.iter().copied().collect() }).collect(),
        nodes: membership.nodes().map(|(id, node)| (*id, peer(node))).collect(),
    }
}

pub(crate) fn membership_of_wire(wire: WireMembership) -> io::Result<Membership> {
    if wire.voters.is_empty() && wire.nodes.is_empty() {
        return Ok(Membership::default());
    }
    let voters: Vec<BTreeSet<u64>> =
        wire.voters.into_iter().map(|voters| voters.ids.into_iter().collect()).collect();
    let peer = |peer: WirePeer| Peer { address: peer.address, zone: peer.zone };
    let nodes: BTreeMap<u64, Peer> =
        wire.nodes.into_iter().map(|(id, node)| (id, peer(node))).collect();
    Membership::new(voters, nodes).map_err(|error| malformed(&format!("a membership ({error})")))
}

/// What an entry says, as it is stored.
#[must_use]
pub fn encode_payload(entry: &Entry) -> Bytes {
    let kind = match &entry.payload {
        EntryPayload::Blank => None,
        EntryPayload::Normal(command) => Some(WireKind::Batch(command.0.clone())),
        EntryPayload::Membership(membership) => {
            Some(WireKind::Membership(membership_to_wire(membership)))
        }
    };
    Bytes::from(WirePayload { kind }.encode_to_vec())
}

/// An entry that was stored.
///
/// # Errors
/// When it cannot be understood: one of a kind that only later versions know must not be taken for one that says
/// nothing, or this replica would go on without what it says and never be like the others again.
pub fn decode_entry(point: Point, data: Bytes) -> io::Result<Entry> {
    let says_nothing = data.is_empty();
    let wire: WirePayload = decode("an entry", data)?;
    let payload = match wire.kind {
        None if says_nothing => EntryPayload::Blank,
        None => {
            let why = format!(
                "entry {} is of a kind that only later versions know: upgrade this node",
                point.index
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Some(WireKind::Batch(bytes)) => EntryPayload::Normal(Command(bytes)),
        Some(WireKind::Membership(wire)) => EntryPayload::Membership(membership_of_wire(wire)?),
    };
    Ok(Entry { log_id: log_id(point), payload })
}

/// How far a log has been applied.
#[derive(Clone, PartialEq, Message)]
struct WirePosition {
    /// The last entry that was applied; none if absent.
    #[prost(message, optional, tag = "1")]
    applied: Option<Point>,
    /// Who takes part.
    #[prost(message, optional, tag = "2")]
    membership: Option<WireMembership>,
    /// The entry that said so.
    #[prost(message, optional, tag = "3")]
    since: Option<Point>,
}

/// How far a log has been applied, and who takes part by then, as it is stored.
#[must_use]
pub fn encode_position(applied: Option<LogId>, membership: &StoredMembership) -> Bytes {
    let wire = WirePosition {
        applied: applied.as_ref().map(point),
        membership: Some(membership_to_wire(membership.membership())),
        since: membership.log_id().as_ref().map(point),
    };
    Bytes::from(wire.encode_to_vec())
}

/// What [`encode_position`] has encoded.
///
/// # Errors
/// When it cannot be understood.
pub fn decode_position(bytes: Bytes) -> io::Result<(Option<LogId>, StoredMembership)> {
    let wire: WirePosition = decode("a position", bytes)?;
    let membership = membership_of_wire(wire.membership.unwrap_or_default())?;
    let membership = StoredMembership::new(wire.since.map(log_id), membership);
    Ok((wire.applied.map(log_id), membership))
}

/// A vote as it is stored.
#[must_use]
pub fn encode_vote(vote: &Vote) -> Bytes {
    let leader = vote.leader_id();
    let wire = WireVote { term: leader.term, node: leader.voted_for, committed: vote.committed };
    Bytes::from(wire.encode_to_vec())
}

/// A vote that was stored.
///
/// # Errors
/// When it cannot be understood.
pub fn decode_vote(bytes: Bytes) -> io::Result<Vote> {
    let WireVote { term, node, committed } = decode("a vote", bytes)?;
    let leader = openraft::impls::leader_id_std::LeaderId { term, voted_for: node };
    Ok(Vote::from_leader_id(leader, committed))
}

/// The place of an entry as openraft writes it.
#[must_use]
pub fn log_id(point: Point) -> LogId {
    LogId::new(CommittedLeaderId::new(point.term), point.index)
}

/// The place of an entry as the log writes it.
#[must_use]
pub fn point(id: &LogId) -> Point {
    Point { term: id.committed_leader_id().term, index: id.index }
}
