//! Work by plain HTTP: lease, heartbeat, complete.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::{Instant, Size, Span};

/// A worker asks for work.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseRequest {
    /// The worker's name, unique among all workers.
    #[schema(
        min_length = 1,
        max_length = 128,
        pattern = "^[A-Za-z0-9._-]+$",
        example = "mailer-1"
    )]
    pub worker: String,
    /// The job types it has handlers for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 1024, example = json!(["email_send"]))]
    pub job_types: Vec<String>,
    /// Whether it runs commands too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub commands: bool,
    /// What it says about itself, for jobs with `requires`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// How many runs at most; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub max: Option<u32>,
    /// How long to wait if there is nothing yet, at most `60s`; `20s` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Span>,
}

/// What is to be run. It may be nothing: ask again.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LeaseAnswer {
    /// The runs.
    pub runs: Vec<LeasedRun>,
    /// Runs that the worker has and is to stop, and to report as canceled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// Whether the worker gets nothing more: it is to finish what it has, and end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draining: bool,
    /// How long they are the worker's, from when it asked, unless it is heard again.
    pub lease: Span,
    /// How often it should be heard.
    pub heartbeat: Span,
    /// Whether the server is the only node. Then nobody can give away what the worker has while
    /// connections to it are refused; otherwise, and if this is absent, other nodes can.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sole: bool,
}

/// A run that a worker has leased.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LeasedRun {
    /// Its id.
    pub run_id: String,
    /// The job's id.
    pub job_id: String,
    /// The job's key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// The job's namespace.
    pub namespace: String,
    /// The queue.
    pub queue: String,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// Grows with every attempt: a target can refuse a lower one than it has seen.
    pub fencing_token: u64,
    /// The same for all attempts of the run.
    pub idempotency_key: String,
    /// The tick it is for.
    pub scheduled_at: Instant,
    /// How long it may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// The handler that is meant.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub job_type: String,
    /// What the handler is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub payload: Option<Box<RawValue>>,
    /// The command, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<LeasedCommand>,
}

/// A command as a worker gets it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct LeasedCommand {
    /// A line for a shell, unless there is an argv.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub line: String,
    /// Program and arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
    /// Variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Where to run it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cwd: String,
    /// As whom to run it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// What it reads.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stdin: String,
    /// The shell.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub shell: String,
    /// How much memory its processes may use together, which is the worker's to keep; no limit if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "512M")]
    pub memory_limit: Option<Size>,
    /// Time between TERM and KILL when it is stopped, which is the worker's to keep; `10s` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<Span>,
}

/// An attempt of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeasedAttempt {
    /// The run.
    #[schema(max_length = 64)]
    pub run_id: String,
    /// Its token.
    #[schema(minimum = 0)]
    pub fencing_token: u64,
    /// What it has printed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<LeasedOutput>,
}

/// A piece of what an attempt prints while it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeasedOutput {
    /// Which piece it is, from 0. One whose answer was lost is sent again, under the same number and
    /// with the same text, and is stored once.
    #[schema(minimum = 0, maximum = 10000)]
    pub sequence: u32,
    /// The text, at most 128 KB.
    #[schema(max_length = 131072)]
    pub text: String,
}

/// A worker is still there.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatRequest {
    /// The worker's name.
    #[schema(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._-]+$")]
    pub worker: String,
    /// What it is at: all of it, since what it was given a while ago and does not name here it is
    /// taken not to have.
    #[serde(default)]
    #[schema(max_items = 10000)]
    pub runs: Vec<LeasedAttempt>,
}

/// What the worker has to know.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct HeartbeatAnswer {
    /// Runs that are no longer the worker's: it stops them and reports nothing.
    pub lost: Vec<String>,
    /// Runs that are to be stopped, and reported as canceled.
    pub stop: Vec<String>,
    /// Whether the worker gets nothing more: it is to finish what it has, and end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draining: bool,
    /// Runs of which no more output is taken before their end. What came with this request was not
    /// stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub full: Vec<String>,
    /// How long the others are the worker's, from when it asked.
    pub lease: Span,
    /// Whether the server is the only node. Then nobody can give away what the worker has while
    /// connections to it are refused; otherwise, and if this is absent, other nodes can.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sole: bool,
}

/// A worker says how runs ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompleteRequest {
    /// The worker's name.
    #[schema(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._-]+$")]
    pub worker: String,
    /// The runs.
    #[schema(max_items = 10000)]
    pub results: Vec<CompletedRun>,
}

/// How a run ended.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompletedRun {
    /// The run.
    #[schema(max_length = 64)]
    pub run_id: String,
    /// Its token.
    #[schema(minimum = 0)]
    pub fencing_token: u64,
    /// How it ended.
    pub outcome: CompletedOutcome,
    /// A stable word for why it ended badly.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 64)]
    pub reason: String,
    /// The same in a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 1000)]
    pub detail: String,
    /// What it printed, without what was sent with heartbeats.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// The last piece of output that was sent with a heartbeat, if that was not answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unanswered: Option<LeasedOutput>,
    /// How many pieces of output were sent with heartbeats: the number of the piece that `output` is.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schema(minimum = 0, maximum = 10000)]
    pub output_sequence: u32,
    /// How many bytes it printed in all, pieces and what was left out included; as many as `output`
    /// has if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1_000_000_000_000_000_i64)]
    pub output_bytes: Option<u64>,
    /// What it returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub result: Option<Box<RawValue>>,
    /// Exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// When it was started; when it was leased if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Instant>,
    /// When it ended; now if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Instant>,
}

/// The ways a run can end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompletedOutcome {
    /// As it should.
    Succeeded,
    /// Otherwise; it is tried again if the job's retries allow.
    Failed,
    /// Otherwise, and another attempt would not help.
    FailedForGood,
    /// It was stopped because somebody asked for it.
    Canceled,
    /// It was not started, and another worker may have it.
    HandedBack,
}

/// What became of what a worker said.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CompleteAnswer {
    /// For each run, in order.
    pub results: Vec<CompleteResult>,
}

/// Whether a run's end was taken up.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CompleteResult {
    /// The run.
    pub run_id: String,
    /// False if the run was not the worker's any more: nothing was changed.
    pub accepted: bool,
    /// True if the end of this very attempt had been taken up before: the answer to that was lost on
    /// its way. What was said first counts, and nothing was changed now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
