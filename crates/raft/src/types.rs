//! The types that Raft is made with.

use std::fmt;

use bytes::Bytes;
use openraft::impls::{InlineBatch, leader_id_std};
use openraft::raft::responder::Responder;
use openraft::{OptionalSend, RaftTypeConfig};

/// A node of the cluster, as every group's membership names it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Peer {
    /// Where other nodes reach it.
    pub address: String,
    /// Where it stands: replicas of a shard are kept in different zones.
    pub zone: String,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)
    }
}

/// What is replicated, encoded (see [`crate::codec`]). Shared, not copied.
#[derive(Clone, PartialEq, Eq)]
pub struct Command(pub Bytes);

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Raft as Bellwether uses it: one leader a term.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Types;

impl RaftTypeConfig for Types {
    type D = Command;
    type R = bellwether_store::Applied;
    type NodeId = u64;
    type Node = Peer;
    type Term = u64;
    type LeaderId = leader_id_std::LeaderId<u64, u64>;
    type Vote = openraft::impls::Vote<Self::LeaderId>;
    type Payload = openraft::EntryPayload<Command, u64, Peer>;
    type Entry =
        openraft::Entry<<Self::LeaderId as openraft::vote::RaftLeaderId>::Committed, Self::Payload>;
    type AsyncRuntime = crate::runtime::Runtime;
    type Responder<T>
        = Callback<T>
    where
        T: OptionalSend + 'static;
    type Batch<T>
        = InlineBatch<T>
    where
        T: OptionalSend + 'static;
    type ErrorSource = openraft::impls::BoxedErrorSource;
}

/// Called with the result of something that was proposed.
pub struct Callback<T>(pub Box<dyn FnOnce(T) + Send>);

impl<T: Send + 'static> Responder<Types, T> for Callback<T> {
    fn on_complete(self, result: T) {
        (self.0)(result);
    }
}

/// The place of an entry.
pub type LogId = openraft::type_config::alias::LogIdOf<Types>;
/// A vote.
pub type Vote = openraft::type_config::alias::VoteOf<Types>;
/// An entry.
pub type Entry = openraft::type_config::alias::EntryOf<Types>;
/// Who takes part.
pub type Membership = openraft::Membership<u64, Peer>;
/// Who takes part, and since which entry.
pub type StoredMembership = openraft::type_config::alias::StoredMembershipOf<Types>;
/// What a snapshot is of.
pub type SnapshotMeta = openraft::type_config::alias::SnapshotMetaOf<Types>;
