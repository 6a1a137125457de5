//! What happened: runs, their events and results.

use bytes::Bytes;
use prost::{Enumeration, Message};

use super::definition::Header;

/// A run, open or ended.
///
/// Its events are the truth; `status`, `attempt`, `token` and `worker` are what folding them
/// gives, kept so that nobody has to fold (see [`crate::run`]).
#[derive(Clone, PartialEq, Message)]
pub struct Run {
    /// Its number within the job, from 1.
    #[prost(uint32, tag = "1")]
    pub n: u32,
    /// The tick it stands for.
    #[prost(int64, tag = "2")]
    pub scheduled_ms: i64,
    /// Where it is filed in history: the time part of its key.
    #[prost(int64, tag = "3")]
    pub filed_ms: i64,
    /// Where it is filed in history: how long it is kept.
    #[prost(uint32, tag = "4")]
    pub class: u32,
    /// Where it stands.
    #[prost(enumeration = "RunStatus", tag = "5")]
    pub status: i32,
    /// What made it.
    #[prost(enumeration = "Cause", tag = "6")]
    pub cause: i32,
    /// The number of its current or last attempt; 0 before the first.
    #[prost(uint32, tag = "7")]
    pub attempt: u32,
    /// Attempts that count against the retries.
    #[prost(uint32, tag = "8")]
    pub failures: u32,
    /// Attempts whose outcome is unknown.
    #[prost(uint32, tag = "9")]
    pub losses: u32,
    /// The fencing token of the current or last attempt.
    #[prost(uint64, tag = "10")]
    pub token: u64,
    /// The worker of the current or last attempt.
    #[prost(string, tag = "11")]
    pub worker: String,
    /// While retrying: when the next attempt is due.
    #[prost(int64, tag = "12")]
    pub retry_ms: i64,
    /// While queued: why it may not be claimed yet.
    #[prost(enumeration = "Hold", tag = "13")]
    pub hold: i32,
    /// Somebody has asked for it to be canceled.
    #[prost(bool, tag = "14")]
    pub cancel_requested: bool,
    /// The job was deleted: leave no trace at the end.
    #[prost(bool, tag = "15")]
    pub forget: bool,
    /// What happened, in order.
    #[prost(message, repeated, tag = "16")]
    pub events: Vec<Event>,
    /// What attempts yielded, where there is something to keep.
    #[prost(message, repeated, tag = "17")]
    pub results: Vec<AttemptResult>,
    /// The batch that counts it; 0 if none does.
    #[prost(fixed64, tag = "20")]
    pub batch: u64,
    /// As what the batch has counted it; see [`super::Count`].
    #[prost(enumeration = "super::Count", tag = "21")]
    pub counted: i32,
    /// The one worker that may have it; empty for any.
    #[prost(string, tag = "18")]
    pub pinned: String,
    /// If it may be with one worker only: the number of the first run that the same instant led to.
    #[prost(uint32, tag = "19")]
    pub first_n: u32,
}

/// Where a run stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Enumeration)]
#[repr(i32)]
pub enum RunStatus {
    /// Not yet due (only a one-off that is canceled before its time is filed from here).
    Scheduled = 0,
    /// Waits for a worker.
    Queued = 1,
    /// Promised to a worker.
    Claimed = 2,
    /// A worker has said that it runs.
    Running = 3,
    /// Waits for its next attempt.
    Retrying = 4,
    /// Ended well.
    Succeeded = 5,
    /// Ended badly.
    Failed = 6,
    /// Ended because somebody asked.
    Canceled = 7,
    /// How it ended is unknown.
    Lost = 8,
    /// Never started.
    Skipped = 9,
}

/// What made a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Enumeration)]
#[repr(i32)]
pub enum Cause {
    /// Its schedule.
    Schedule = 0,
    /// Its schedule, after the time had passed.
    Misfire = 1,
    /// Somebody triggered it.
    Trigger = 2,
}

/// Why a queued run may not be claimed yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Enumeration)]
#[repr(i32)]
pub enum Hold {
    /// It may.
    None = 0,
    /// Another run of its job is open.
    Overlap = 1,
    /// Another run of its ordering key is first.
    Order = 2,
}

/// Something that happened to a run.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct Event {
    /// When.
    #[prost(int64, tag = "1")]
    pub at_ms: i64,
    /// What.
    #[prost(enumeration = "EventKind", tag = "2")]
    pub kind: i32,
    /// Which attempt; 0 if none.
    #[prost(uint32, tag = "3")]
    pub attempt: u32,
    /// Claimed: by whom.
    #[prost(string, tag = "4")]
    pub worker: String,
    /// Claimed: under which fencing token.
    #[prost(uint64, tag = "5")]
    pub token: u64,
    /// Ended: exit code.
    #[prost(sint32, optional, tag = "6")]
    pub exit_code: Option<i32>,
    /// Ended: signal that killed it.
    #[prost(sint32, optional, tag = "7")]
    pub signal: Option<i32>,
    /// Ended: status of the response.
    #[prost(uint32, tag = "8")]
    pub http_status: u32,
    /// A stable word for why.
    #[prost(string, tag = "9")]
    pub reason: String,
    /// A sentence for people.
    #[prost(string, tag = "10")]
    pub detail: String,
    /// Retrying: when the next attempt is due. Queued: the time it was due, if that has passed.
    #[prost(int64, tag = "11")]
    pub next_ms: i64,
}

/// The kinds of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Enumeration)]
#[repr(i32)]
pub enum EventKind {
    /// Never stored.
    Unknown = 0,
    /// The tick came; the run waits for a worker.
    Queued = 1,
    /// A worker was promised it.
    Claimed = 2,
    /// The worker started it.
    Started = 3,
    /// The attempt ended well, and with it the run.
    Succeeded = 4,
    /// The attempt ended badly; another will follow.
    Retrying = 5,
    /// The attempt ended badly, and with it the run.
    Failed = 6,
    /// The run was canceled.
    Canceled = 7,
    /// Nobody knows how the attempt ended; the run is given up.
    Lost = 8,
    /// Nobody knows how the attempt ended; another will follow.
    Requeued = 9,
    /// It was never started.
    Skipped = 10,
    /// Somebody asked for it to be canceled while an attempt was under way.
    CancelRequested = 11,
    /// Somebody asked for another go after the end.
    RetryRequested = 12,
}

/// What an attempt yielded.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct AttemptResult {
    /// Which attempt.
    #[prost(uint32, tag = "1")]
    pub attempt: u32,
    /// Status of the response; 0 if it was no request.
    #[prost(uint32, tag = "2")]
    pub http_status: u32,
    /// Headers of the response.
    #[prost(message, repeated, tag = "3")]
    pub headers: Vec<Header>,
    /// Body of the response, as much as is kept.
    #[prost(bytes = "bytes", tag = "4")]
    pub body: Bytes,
    /// Bytes of the body that were not kept.
    #[prost(uint64, tag = "5")]
    pub body_dropped: u64,
    /// Bytes that were printed.
    #[prost(uint64, tag = "6")]
    pub output_bytes: u64,
    /// Bytes that were printed and not kept.
    #[prost(uint64, tag = "7")]
    pub output_dropped: u64,
    /// Processor time used, in user and kernel mode together.
    #[prost(uint64, tag = "8")]
    pub cpu_ms: u64,
    /// Most memory used.
    #[prost(uint64, tag = "9")]
    pub memory_max_bytes: u64,
    /// What a handler returned, as JSON; empty if nothing.
    #[prost(bytes = "bytes", tag = "10")]
    pub result: Bytes,
}

/// A piece of what an attempt printed.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct OutputChunk {
    /// 1 is standard output, 2 standard error.
    #[prost(uint32, tag = "1")]
    pub stream: u32,
    /// The bytes.
    #[prost(bytes = "bytes", tag = "2")]
    pub data: Bytes,
    /// Bytes that were dropped between the chunk before and this one.
    #[prost(uint64, tag = "3")]
    pub dropped_before: u64,
}
