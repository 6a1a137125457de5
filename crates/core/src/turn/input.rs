//! What goes into a turn and what comes out of it.

use std::borrow::Cow;

use bytes::Bytes;

use super::{BatchInput, Lane};
use crate::id::{BatchId, JobId, RunId};
use crate::key::DueKey;
use crate::record::{AttemptResult, Definition, EventKind, NodeRow, OutputChunk, RunStatus};
use crate::time::Time;
use crate::waist::StoreError;

/// Something that asks for a decision.
#[derive(Clone, PartialEq, Debug)]
pub enum Input {
    /// Create jobs, or find that they exist. Each is accepted or refused on its own.
    Create {
        /// Who asks.
        actor: String,
        /// What to create.
        jobs: Vec<NewJob>,
    },
    /// Set an id aside for a job that is to be created in this shard.
    NewId,
    /// Reserve a caller's key for a job of another shard.
    ReserveKey {
        /// The key's namespace.
        namespace: String,
        /// The key.
        key: String,
        /// The job it is for.
        job: JobId,
        /// The job that is known not to exist (any more), whose reservation may be replaced.
        replace: Option<JobId>,
    },
    /// Free a caller's key that was reserved for a job of another shard.
    FreeKey {
        /// The key's namespace.
        namespace: String,
        /// The key.
        key: String,
        /// The job it was for.
        job: JobId,
    },
    /// Replace a job's definition.
    Replace {
        /// Who asks.
        actor: String,
        /// Which job.
        job: JobId,
        /// Its new definition.
        definition: Box<Definition>,
        /// Hash of the request.
        hash: Bytes,
        /// Whether it is to be paused or not, if the request says so.
        enabled: Option<bool>,
        /// The revision that the new definition was made from, if it was made from one: an edit of
        /// another is refused.
        expected_revision: Option<u32>,
    },
    /// Delete a job with all that belongs to it.
    Delete {
        /// Who asks.
        actor: String,
        /// Which job.
        job: JobId,
    },
    /// Pause a job.
    Pause {
        /// Who asks.
        actor: String,
        /// Which job.
        job: JobId,
        /// Why.
        note: String,
    },
    /// End a job's pause and its maintenance.
    Resume {
        /// Who asks.
        actor: String,
        /// Which job.
        job: JobId,
    },
    /// Put a job into maintenance.
    Maintenance {
        /// Who asks.
        actor: String,
        /// Which job.
        job: JobId,
        /// When it ends by itself.
        until: Option<Time>,
        /// Why.
        note: String,
    },
    /// Run a job now.
    Trigger {
        /// Who asks.
        actor: String,
        /// Which job.
        job: JobId,
    },
    /// Set or clear the switches of a group.
    Group {
        /// Who asks.
        actor: String,
        /// The group's namespace.
        namespace: String,
        /// The group.
        group: String,
        /// What to do.
        change: GroupChange,
    },
    /// Cancel a run.
    Cancel {
        /// Who asks.
        actor: String,
        /// Which run.
        run: RunId,
    },
    /// Give a run that has ended badly another go.
    Retry {
        /// Who asks.
        actor: String,
        /// Which run.
        run: RunId,
    },
    /// An entry of the due index has come up. It must be decided in the turn after the agenda has
    /// handed it out: whoever takes it out in between would find it gone from the agenda.
    Due {
        /// The entry.
        entry: DueKey,
        /// Its value.
        value: Bytes,
    },
    /// A worker says what became of an attempt.
    Report(Report),
    /// Nobody can say any more what became of the attempt of a run.
    Lost {
        /// Which run.
        run: RunId,
        /// The attempt's fencing token: nothing is said about an attempt that came after it.
        token: u64,
        /// How that is known.
        detail: String,
    },
    /// Remove history that is older than its retention: a bounded step.
    Prune,
    /// Something about a batch.
    Batch {
        /// Which; any for one that is to begin.
        batch: BatchId,
        /// What.
        input: Box<BatchInput>,
    },
    /// Store a token.
    PutToken {
        /// Who asks.
        actor: String,
        /// The token.
        token: crate::record::TokenRow,
    },
    /// Set the bounds of a queue.
    PutQueue {
        /// Who asks.
        actor: String,
        /// Its name.
        name: String,
        /// What to change.
        change: QueueChange,
    },
    /// Change who belongs to the cluster.
    Node {
        /// Who asks.
        actor: String,
        /// What to change.
        change: NodeChange,
    },
    /// Revoke a token.
    RevokeToken {
        /// Who asks.
        actor: String,
        /// Its name.
        name: String,
        /// Whether the last one that may do everything must stay.
        keep_admin: bool,
    },
}

/// A job to be created.
#[derive(Clone, PartialEq, Debug)]
pub struct NewJob {
    /// What was asked for, validated.
    pub definition: Definition,
    /// Hash of the request: the same key with the same hash is the same job.
    pub hash: Bytes,
    /// The id to give it, if a key was reserved for it in another shard, and the instant up to
    /// which that reservation is good.
    pub reserved: Option<(JobId, Time)>,
}

/// What to change about the nodes of the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeChange {
    /// A new node, whose number is yet to be given. If its name is taken, it gets another.
    Join(NodeRow),
    /// A node says how it is reached. One that is not known is added under its number.
    Introduce(NodeRow),
    /// A node is to be emptied.
    Leave(u64),
    /// A node has been emptied, or will not come back.
    Forget(u64),
}

/// What to change about a queue's bounds. What is absent stays as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QueueChange {
    /// How many runs may be under way at once; 0 for any number.
    pub concurrency: Option<u32>,
    /// How many runs may be launched in 1,000 seconds; 0 for any number.
    pub rate_milli: Option<u64>,
    /// Whether nothing is launched.
    pub paused: Option<bool>,
    /// Why.
    pub note: String,
}

/// What to do to a group.
#[derive(Clone, PartialEq, Debug)]
pub enum GroupChange {
    /// Pause it.
    Pause {
        /// Why.
        note: String,
    },
    /// End its pause and its maintenance.
    Resume,
    /// Put it into maintenance.
    Maintenance {
        /// When that ends by itself.
        until: Option<Time>,
        /// Why.
        note: String,
    },
}

/// What a worker says about an attempt.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// Which run.
    pub run: RunId,
    /// The fencing token under which the worker got it.
    pub token: u64,
    /// What happened.
    pub what: Reported,
}

/// What can happen to an attempt.
#[derive(Clone, PartialEq, Debug)]
pub enum Reported {
    /// It has been started.
    Started {
        /// When.
        at: Time,
    },
    /// It has printed something. Sequence numbers count from 0 within the attempt.
    Output {
        /// Number of the first of the chunks.
        sequence: u32,
        /// The chunks.
        chunks: Vec<OutputChunk>,
    },
    /// It has ended.
    Finished(Box<Finished>),
    /// It was given back without having been started.
    HandedBack,
}

/// How an attempt ended.
#[derive(Clone, PartialEq, Debug)]
pub struct Finished {
    /// When it was started, if it was.
    pub started: Option<Time>,
    /// When it ended.
    pub finished: Time,
    /// How.
    pub how: Ending,
    /// Exit code, if it was a process that ended by itself.
    pub exit_code: Option<i32>,
    /// Signal, if one ended it.
    pub signal: Option<i32>,
    /// Status of the response, or 0.
    pub http_status: u32,
    /// A stable word for why it ended badly.
    pub reason: String,
    /// A sentence for people.
    pub detail: String,
    /// What is to be kept of it; `None` if nothing.
    pub result: Option<AttemptResult>,
    /// What it printed and was not reported before.
    pub output: Vec<OutputChunk>,
    /// Number of the first of these chunks.
    pub output_sequence: u32,
}

impl Finished {
    /// Of an attempt that was started and ended at one instant, with nothing to say.
    #[must_use]
    pub fn at(now: Time, how: Ending) -> Finished {
        Finished {
            started: Some(now),
            finished: now,
            how,
            exit_code: None,
            signal: None,
            http_status: 0,
            reason: String::new(),
            detail: String::new(),
            result: None,
            output: Vec::new(),
            output_sequence: 0,
        }
    }
}

/// The ways an attempt can end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// As the job's rules want it.
    Succeeded,
    /// Otherwise; another attempt may help.
    Failed,
    /// Otherwise, and another attempt would not help.
    FailedForGood,
    /// Somebody asked for it.
    Canceled,
    /// It was killed for a reason of the worker's own; how far it got is unknown.
    Interrupted,
}

/// The answer to an input.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Done, nothing to say.
    Done,
    /// Per job, in order: its id and whether it is new, or why not.
    Created(Vec<Result<Created, Rejection>>),
    /// A run was made or found.
    Run(RunId),
    /// So many runs were made, one for each worker, numbered on from this one.
    Runs(RunId, u32),
    /// A step of a long piece of work was done: whether more is left.
    More(bool),
    /// A batch was begun or found.
    Batch {
        /// Which.
        batch: BatchId,
        /// Whether it was begun now; false if it was there already.
        new: bool,
    },
    /// The report came too late or under a void token, and changed nothing.
    Stale,
    /// A node was added or found, under this number and name.
    Node(u64, String),
}

/// What creating a job led to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Created {
    /// The job.
    pub job: JobId,
    /// Whether it was created now; false if it was there already.
    pub new: bool,
}

/// The caller's fault: nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Rejection {
    /// What kind of fault.
    pub kind: RejectionKind,
    /// A stable word.
    pub code: Cow<'static, str>,
    /// A sentence that says what to do.
    pub message: String,
}

/// Kinds of rejections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RejectionKind {
    /// There is no such thing.
    NotFound,
    /// It does not go with what is there.
    Conflict,
    /// It is not valid in itself.
    Invalid,
    /// Not now; try again.
    Busy,
}

impl Rejection {
    /// There is no such job.
    #[must_use]
    pub fn no_job() -> Rejection {
        Rejection {
            kind: RejectionKind::NotFound,
            code: "job_not_found".into(),
            message: "there is no such job".to_owned(),
        }
    }

    /// There is no such run.
    #[must_use]
    pub fn no_run() -> Rejection {
        Rejection {
            kind: RejectionKind::NotFound,
            code: "run_not_found".into(),
            message: "there is no such run".to_owned(),
        }
    }

    /// It does not go with what is there.
    #[must_use]
    pub fn conflict(code: &'static str, message: impl Into<String>) -> Rejection {
        Rejection { kind: RejectionKind::Conflict, code: code.into(), message: message.into() }
    }
}

/// Why there is no reply.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Halt {
    /// The caller's fault; the turn goes on.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The store's fault; the turn is over.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What is to be done once the turn's writes are durable, and not before.
#[derive(Clone, Debug)]
pub enum Effect {
    /// An entry was added to the due index.
    Plan(DueKey, Bytes),
    /// An entry was taken from the due index.
    Unplan(DueKey),
    /// A worker was promised an attempt: hand it over.
    Assign(Box<Assignment>),
    /// A worker is to stop an attempt.
    Stop {
        /// The run.
        run: RunId,
        /// The attempt's token.
        token: u64,
        /// The worker.
        worker: String,
    },
    /// Something happened that others may want to know.
    Notice(Box<Notice>),
    /// A batch, or this shard's part of it, has changed.
    Batch(BatchId),
    /// A job was paused by the rules themselves: the operator is to be told.
    Held(Box<HeldJob>),
}

/// A job that was paused by the rules themselves.
#[derive(Clone, PartialEq, Debug)]
pub struct HeldJob {
    /// When.
    pub at: Time,
    /// The job.
    pub job: JobId,
    /// Its namespace.
    pub namespace: String,
    /// Its key.
    pub key: String,
    /// Its queue.
    pub queue: String,
    /// A stable word for why.
    pub reason: Cow<'static, str>,
    /// A sentence for people.
    pub why: String,
}

/// An attempt, as a worker gets it.
#[derive(Clone, PartialEq, Debug)]
pub struct Assignment {
    /// The run.
    pub run: RunId,
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// Its fencing token.
    pub token: u64,
    /// Who gets it.
    pub worker: String,
    /// The tick.
    pub scheduled: Time,
    /// When the attempt was due.
    pub due: Time,
    /// The one worker that may have the run; empty for any.
    pub pinned: String,
    /// The job.
    pub definition: Definition,
}

impl Assignment {
    /// The lane that the run waited in.
    #[must_use]
    pub fn lane(&self) -> Lane {
        Lane::of(&self.definition, &self.pinned)
    }
}

/// Something that happened to a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Notice {
    /// When.
    pub at: Time,
    /// To which run.
    pub run: RunId,
    /// What.
    pub kind: EventKind,
    /// What the run is now.
    pub status: RunStatus,
    /// Which attempt, or 0.
    pub attempt: u32,
    /// The job's namespace.
    pub namespace: String,
    /// The job's key.
    pub key: String,
    /// The job's queue.
    pub queue: String,
    /// A stable word for why.
    pub reason: String,
}
