//! Where things stand: what the shard itself has to remember.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::{Enumeration, Message};

use super::run::Run;
use crate::time::Time;

/// A one-off job that waits, in the due index: all there is of it.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct OneOff {
    /// The encoded [`super::Definition`].
    #[prost(bytes = "bytes", tag = "1")]
    pub definition: Bytes,
    /// The instant it was asked for; the key may be later if that had passed.
    #[prost(int64, tag = "2")]
    pub scheduled_ms: i64,
    /// When it was created.
    #[prost(int64, tag = "3")]
    pub created_ms: i64,
    /// How long its history is kept.
    #[prost(uint32, tag = "4")]
    pub class: u32,
    /// Hash of the request that created it.
    #[prost(bytes = "bytes", tag = "5")]
    pub hash: Bytes,
    /// The batch it is a member of; 0 if of none.
    #[prost(fixed64, tag = "6")]
    pub batch: u64,
}

/// Where a one-off job or a run of another job is filed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub struct Filed {
    /// The time part of its key.
    #[prost(int64, tag = "1")]
    pub time_ms: i64,
    /// The class part of its key in history.
    #[prost(uint32, tag = "2")]
    pub class: u32,
}

/// A run in the active family or in history.
#[derive(Clone, PartialEq, Message)]
pub struct RunRow {
    /// The run.
    #[prost(message, optional, tag = "1")]
    pub run: Option<Run>,
    /// For a one-off job stored in compact form: the job itself.
    #[prost(message, optional, tag = "2")]
    pub job: Option<OneOff>,
}

/// The definition of a job stored in full form.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct JobRow {
    /// The encoded [`super::Definition`].
    #[prost(bytes = "bytes", tag = "1")]
    pub definition: Bytes,
    /// When it was created.
    #[prost(int64, tag = "2")]
    pub created_ms: i64,
    /// When it was last changed.
    #[prost(int64, tag = "3")]
    pub updated_ms: i64,
    /// How often it was changed.
    #[prost(uint32, tag = "4")]
    pub revision: u32,
    /// What delays and phases count from.
    #[prost(int64, tag = "5")]
    pub anchor_ms: i64,
    /// Hash of the request that created or replaced it.
    #[prost(bytes = "bytes", tag = "6")]
    pub hash: Bytes,
    /// The batch it is a member of; 0 if of none.
    #[prost(fixed64, tag = "7")]
    pub batch: u64,
}

/// What changes about a job stored in full form.
#[derive(Clone, PartialEq, Message)]
pub struct JobState {
    /// The next tick; `None` if none is planned.
    #[prost(int64, optional, tag = "1")]
    pub next_ms: Option<i64>,
    /// The time part of the key of its entry in the due index, if it has one.
    #[prost(int64, optional, tag = "2")]
    pub due_ms: Option<i64>,
    /// Ticks up to and including this one have been dealt with.
    #[prost(int64, optional, tag = "3")]
    pub handled_ms: Option<i64>,
    /// Runs made so far; the last one's number.
    #[prost(uint32, tag = "4")]
    pub runs: u32,
    /// Those of them that the schedule made, for `max_runs`.
    #[prost(uint32, tag = "5")]
    pub scheduled_runs: u32,
    /// Numbers of the open runs, oldest first.
    #[prost(uint32, repeated, tag = "6")]
    pub open: Vec<u32>,
    /// Set while paused.
    #[prost(message, optional, tag = "7")]
    pub paused: Option<Mark>,
    /// Set while in maintenance.
    #[prost(message, optional, tag = "8")]
    pub maintenance: Option<Mark>,
    /// How the last ended run ended.
    #[prost(message, optional, tag = "9")]
    pub last: Option<LastRun>,
    /// The schedule has no further tick.
    #[prost(bool, tag = "10")]
    pub ended: bool,
    /// The one tick of a one-off came while it was held back: run it when released.
    #[prost(bool, tag = "11")]
    pub held: bool,
    /// Runs below this number have been pruned.
    #[prost(uint32, tag = "12")]
    pub pruned_runs: u32,
    /// Ticks before this have been pruned from the ledger.
    #[prost(int64, tag = "13")]
    pub pruned_ticks_ms: i64,
    /// Rows in the ledger.
    #[prost(uint32, tag = "14")]
    pub ticks: u32,
    /// The job was deleted; what is left of it is being removed.
    #[prost(bool, tag = "15")]
    pub deleted: bool,
    /// Failed runs since the last success.
    #[prost(uint32, tag = "16")]
    pub failures: u32,
    /// The pause is the rules' own: the schedule does not compile. A new one ends it.
    #[prost(bool, tag = "17")]
    pub broken: bool,
}

/// Who set something, when, until when and why.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct Mark {
    /// When it was set.
    #[prost(int64, tag = "1")]
    pub at_ms: i64,
    /// By whom.
    #[prost(string, tag = "2")]
    pub by: String,
    /// When it ends by itself; `None` if it does not.
    #[prost(int64, optional, tag = "3")]
    pub until_ms: Option<i64>,
    /// Why.
    #[prost(string, tag = "4")]
    pub note: String,
}

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct LastRun {
    /// Its number.
    #[prost(uint32, tag = "1")]
    pub n: u32,
    /// Its tick.
    #[prost(int64, tag = "2")]
    pub scheduled_ms: i64,
    /// Its status.
    #[prost(enumeration = "super::run::RunStatus", tag = "3")]
    pub status: i32,
    /// When it ended.
    #[prost(int64, tag = "4")]
    pub finished_ms: i64,
}

/// A row of the tick ledger: one due instant, or several in a row with the same fate.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct Tick {
    /// What became of it.
    #[prost(enumeration = "TickFate", tag = "1")]
    pub fate: i32,
    /// A stable word for why, empty if it fired in time.
    #[prost(string, tag = "2")]
    pub reason: String,
    /// When that was decided.
    #[prost(int64, tag = "3")]
    pub decided_ms: i64,
    /// The run it led to, if any; the first of several.
    #[prost(uint32, tag = "4")]
    pub run: u32,
    /// How many instants this row stands for (0 means 1).
    #[prost(uint32, tag = "5")]
    pub count: u32,
    /// The last of them, if more than one.
    #[prost(int64, tag = "6")]
    pub until_ms: i64,
    /// Merged: the tick, or the time of the trigger, whose run stands for it.
    #[prost(int64, tag = "7")]
    pub into_ms: i64,
    /// A sentence for people, where there is more to say.
    #[prost(string, tag = "8")]
    pub detail: String,
    /// Whether `count` is a lower bound, because counting was stopped.
    #[prost(bool, tag = "9")]
    pub count_is_minimum: bool,
    /// How many runs it led to, numbered on from `run`, if it was meant for all workers (0 means 1).
    #[prost(uint32, tag = "10")]
    pub runs: u32,
}

/// What became of a tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Enumeration)]
#[repr(i32)]
pub enum TickFate {
    /// It led to a run, in time.
    Fired = 0,
    /// It led to a run, later than it should have.
    Late = 1,
    /// Another tick's run stands for it, or that of a trigger which brought it forward.
    Merged = 2,
    /// It led to nothing.
    Skipped = 3,
    /// Somebody triggered a run.
    Triggered = 4,
}

/// Whose a caller's key is.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct KeyRow {
    /// The job.
    #[prost(fixed64, tag = "1")]
    pub job: u64,
    /// Reserved on behalf of a job in another shard: when. Zero if the job is in this shard.
    #[prost(int64, tag = "2")]
    pub reserved_ms: i64,
}

/// A group's switches in one shard.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct GroupRow {
    /// Set while paused.
    #[prost(message, optional, tag = "1")]
    pub paused: Option<Mark>,
    /// Set while in maintenance.
    #[prost(message, optional, tag = "2")]
    pub maintenance: Option<Mark>,
}

/// The bounds of a queue, kept in shard 0.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct QueueRow {
    /// How many runs may be under way at once; 0 for any number.
    #[prost(uint32, tag = "1")]
    pub concurrency: u32,
    /// How many runs may be launched in 1,000 seconds; 0 for any number.
    #[prost(uint64, tag = "2")]
    pub rate_milli: u64,
    /// Set while nothing is launched.
    #[prost(message, optional, tag = "3")]
    pub paused: Option<Mark>,
}

/// A node of the cluster, kept in shard 0.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct NodeRow {
    /// Its number. Never given to another.
    #[prost(uint64, tag = "1")]
    pub node: u64,
    /// Its name. No two nodes of a cluster have the same.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Where other nodes reach it.
    #[prost(string, tag = "3")]
    pub peer_address: String,
    /// Where its API is.
    #[prost(string, tag = "4")]
    pub api_address: String,
    /// Where it stands: replicas of a shard are kept in different zones.
    #[prost(string, tag = "5")]
    pub zone: String,
    /// When it joined.
    #[prost(int64, tag = "6")]
    pub joined_ms: i64,
    /// What is to become of it.
    #[prost(enumeration = "NodeState", tag = "7")]
    pub state: i32,
    /// What it asked to join with, so that it is known when it asks again; empty if it said nothing.
    #[prost(string, tag = "8")]
    pub join_id: String,
    /// How many replicas it wants shards to have; 0 if it has no opinion.
    #[prost(uint32, tag = "9")]
    pub replicas: u32,
}

/// What is to become of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, prost::Enumeration)]
#[repr(i32)]
pub enum NodeState {
    /// It takes part.
    Member = 0,
    /// It is being emptied.
    Leaving = 1,
    /// It has left, and its number is not used again.
    Gone = 2,
}

/// What a shard remembers about itself.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct ShardRow {
    /// The highest id given out.
    #[prost(fixed64, tag = "1")]
    pub last_id: u64,
    /// No entry of the due index is earlier than this.
    #[prost(int64, tag = "2")]
    pub due_from_ms: i64,
    /// Retention classes in use, each with the time up to which it has been pruned.
    #[prost(btree_map = "uint32, int64", tag = "3")]
    pub classes: BTreeMap<u32, i64>,
}

/// An entry of the audit log.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct Audit {
    /// Who.
    #[prost(string, tag = "1")]
    pub actor: String,
    /// What, as `noun.verb`.
    #[prost(string, tag = "2")]
    pub action: String,
    /// On what: an id, or the name of a group or token.
    #[prost(string, tag = "3")]
    pub subject: String,
    /// The subject's namespace.
    #[prost(string, tag = "4")]
    pub namespace: String,
    /// More, for people.
    #[prost(string, tag = "5")]
    pub detail: String,
    /// Several jobs at once: their ids.
    #[prost(fixed64, repeated, tag = "6")]
    pub jobs: Vec<u64>,
}

/// An access token, stored by the hash of its secret.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct TokenRow {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// SHA-256 of the secret.
    #[prost(bytes = "bytes", tag = "2")]
    pub hash: Bytes,
    /// viewer, operator, editor or admin.
    #[prost(string, tag = "3")]
    pub role: String,
    /// The one namespace it is good for; empty for all.
    #[prost(string, tag = "4")]
    pub namespace: String,
    /// When it was made.
    #[prost(int64, tag = "5")]
    pub created_ms: i64,
    /// By whom.
    #[prost(string, tag = "6")]
    pub created_by: String,
    /// When it stops being good; `None` if never.
    #[prost(int64, optional, tag = "7")]
    pub expires_ms: Option<i64>,
}

impl TokenRow {
    /// Whether it may do everything, everywhere, at this time.
    #[must_use]
    pub fn is_admin(&self, now: Time) -> bool {
        let expired = self.expires_ms.is_some_and(|at| at <= now.0);
        self.role == "admin" && self.namespace.is_empty() && !expired
    }
}

/// What a store says about itself, once, in shard 0.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct StoreRow {
    /// A random id, by which a store recognises its own processes.
    #[prost(string, tag = "1")]
    pub id: String,
    /// How many shards it has. Never changes.
    #[prost(uint32, tag = "2")]
    pub shards: u32,
    /// When it was made.
    #[prost(int64, tag = "3")]
    pub created_ms: i64,
}

/// That a store came out of a backup, and what that led to.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct RestoreRow {
    /// The backup's name.
    #[prost(string, tag = "1")]
    pub backup: String,
    /// The id of the store it was taken of.
    #[prost(string, tag = "2")]
    pub from_id: String,
    /// When it was taken: of the shard that was first.
    #[prost(int64, tag = "3")]
    pub taken_ms: i64,
    /// When it was restored.
    #[prost(int64, tag = "4")]
    pub restored_ms: i64,
    /// Jobs that are held because they may have run in between.
    #[prost(uint64, tag = "5")]
    pub held_jobs: u64,
    /// Runs that became `lost`.
    #[prost(uint64, tag = "6")]
    pub lost_runs: u64,
    /// Runs that were with a worker and are started again.
    #[prost(uint64, tag = "7")]
    pub repeated_runs: u64,
    /// Batches whose items become jobs that are held.
    #[prost(uint64, tag = "8")]
    pub held_batches: u64,
}
