//! Batches: many runs of the same kind, made from items.

use bytes::Bytes;
use prost::{Enumeration, Message};

use super::state::Mark;

/// A batch, in its home shard.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct BatchRow {
    /// Tenant; empty is `default`.
    #[prost(string, tag = "1")]
    pub namespace: String,
    /// The caller's own name, unique among the batches of the namespace; may be empty.
    #[prost(string, tag = "2")]
    pub key: String,
    /// Text for people.
    #[prost(string, tag = "3")]
    pub description: String,
    /// When it was created.
    #[prost(int64, tag = "4")]
    pub created_ms: i64,
    /// By whom.
    #[prost(string, tag = "5")]
    pub created_by: String,
    /// The encoded [`super::Definition`] into which items are put; empty if items are whole ones.
    #[prost(bytes = "bytes", tag = "6")]
    pub template: Bytes,
    /// No member is made before this.
    #[prost(int64, tag = "7")]
    pub begin_ms: i64,
    /// Where it stands.
    #[prost(enumeration = "BatchStage", tag = "8")]
    pub stage: i32,
    /// Items received.
    #[prost(uint64, tag = "9")]
    pub items: u64,
    /// Chunks in which they were received.
    #[prost(uint32, tag = "10")]
    pub chunks: u32,
    /// Chunks of a lower number have become jobs, or were given up.
    #[prost(uint32, tag = "11")]
    pub next_chunk: u32,
    /// Items that were given up before they had become jobs.
    #[prost(uint64, tag = "12")]
    pub given_up: u64,
    /// Set once somebody has canceled it.
    #[prost(message, optional, tag = "13")]
    pub canceled: Option<Mark>,
    /// When all was over.
    #[prost(int64, tag = "14")]
    pub ended_ms: i64,
    /// The job to trigger then; 0 if none.
    #[prost(fixed64, tag = "15")]
    pub on_complete: u64,
    /// The run of it that was triggered; 0 if none was.
    #[prost(uint32, tag = "16")]
    pub completion: u32,
    /// Why it could not be triggered.
    #[prost(string, tag = "17")]
    pub completion_error: String,
    /// When the last chunk was received.
    #[prost(int64, tag = "18")]
    pub received_ms: i64,
    /// Hash of everything that was received: the same key with the same hash is the same batch.
    #[prost(bytes = "bytes", tag = "19")]
    pub hash: Bytes,
    /// Once it is over: when it may be forgotten.
    #[prost(int64, tag = "20")]
    pub forget_ms: i64,
    /// Once it is over: whether all shards have been told.
    #[prost(bool, tag = "21")]
    pub parts_told: bool,
}

impl BatchRow {
    /// Its namespace by name.
    #[must_use]
    pub fn namespace_name(&self) -> &str {
        if self.namespace.is_empty() { "default" } else { &self.namespace }
    }

    /// Whether it has been accepted: before that it is nobody's business.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        matches!(self.stage(), BatchStage::Open | BatchStage::Ended)
    }
}

/// Where a batch stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Enumeration)]
#[repr(i32)]
pub enum BatchStage {
    /// Its items are being received; nothing has been done about them.
    Receiving = 0,
    /// It has been accepted as a whole: its items become jobs, and these run.
    Open = 1,
    /// Everything is over.
    Ended = 2,
    /// It was never received to the end, and what is there of it is being thrown away.
    Discarded = 3,
}

/// How a batch stands in one shard.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub struct PartRow {
    /// Members made in this shard.
    #[prost(uint64, tag = "1")]
    pub members: u64,
    /// Those that wait for another attempt.
    #[prost(uint64, tag = "2")]
    pub retrying: u64,
    /// Those that are with a worker.
    #[prost(uint64, tag = "3")]
    pub running: u64,
    /// Those that ended well.
    #[prost(uint64, tag = "4")]
    pub succeeded: u64,
    /// Those that ended badly.
    #[prost(uint64, tag = "5")]
    pub failed: u64,
    /// Those that were canceled.
    #[prost(uint64, tag = "6")]
    pub canceled: u64,
    /// Those of which nobody knows how they ended.
    #[prost(uint64, tag = "7")]
    pub lost: u64,
    /// Those that were never started.
    #[prost(uint64, tag = "8")]
    pub skipped: u64,
    /// Chunks of a lower number have been dealt with by this shard.
    #[prost(uint32, tag = "9")]
    pub next_chunk: u32,
    /// No more members are made: the batch was canceled.
    #[prost(bool, tag = "10")]
    pub closed: bool,
    /// Members up to this one have been canceled.
    #[prost(fixed64, tag = "11")]
    pub canceled_upto: u64,
    /// When the batch was over; 0 before that.
    #[prost(int64, tag = "12")]
    pub ended_ms: i64,
    /// The run of the job that was to be triggered by its end, if that job is in this shard.
    #[prost(uint32, tag = "13")]
    pub completion: u32,
    /// All members have been canceled.
    #[prost(bool, tag = "14")]
    pub canceled_all: bool,
}

/// As what a batch counts the run of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Enumeration)]
#[repr(i32)]
pub enum Count {
    /// It waits for its time or for a worker.
    Waiting = 0,
    /// It waits for another attempt.
    Retrying = 1,
    /// It is with a worker.
    Running = 2,
    /// It ended well.
    Succeeded = 3,
    /// It ended badly.
    Failed = 4,
    /// It was canceled.
    Canceled = 5,
    /// Nobody knows how it ended.
    Lost = 6,
    /// It was never started.
    Skipped = 7,
}

/// Items of a batch, in order.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct ItemChunk {
    /// The items.
    #[prost(message, repeated, tag = "1")]
    pub items: Vec<Item>,
}

/// One item: what is put into the template, or a whole encoded [`super::Definition`].
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct Item {
    /// JSON as it was written, a text without its quotes, or an encoded definition.
    #[prost(bytes = "bytes", tag = "1")]
    pub data: Bytes,
    /// Whether `data` is a text rather than JSON.
    #[prost(bool, tag = "2")]
    pub is_text: bool,
}
