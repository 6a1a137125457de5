//! Runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::Instant;

/// One execution of a job for one tick.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Run {
    /// Its id.
    #[schema(example = "run_06D1R3M0G0400-1")]
    pub id: String,
    /// Its job.
    #[schema(example = "job_06D1R3M0G0400")]
    pub job_id: String,
    /// Its job's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its job's namespace.
    pub namespace: String,
    /// Its job's queue.
    pub queue: String,
    /// Its number within the job, from 1.
    pub number: u32,
    /// Where it stands.
    pub status: RunStatus,
    /// The one worker that may run it, of a job that runs on all workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned_to: Option<String>,
    /// Why it is not claimed yet though it is queued: `overlap` or `order`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<String>,
    /// What made it: `schedule`, `misfire` or `trigger`.
    pub cause: String,
    /// The tick it stands for.
    pub scheduled_at: Instant,
    /// When its last attempt started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Instant>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Instant>,
    /// How long the last attempt took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// A stable word for why it ended as it did, if not well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The same in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Exit code of the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The same for all attempts: for the target to recognise a repetition.
    pub idempotency_key: String,
    /// When the next attempt is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Instant>,
    /// Its attempts, oldest first.
    pub attempts: Vec<Attempt>,
}

/// Where a run stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Not yet due.
    Scheduled,
    /// Waits for a worker.
    Queued,
    /// Promised to a worker.
    Claimed,
    /// Under way.
    Running,
    /// Failed, and waits for its next attempt.
    Retrying,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
    /// Ended because somebody asked.
    Canceled,
    /// Nobody knows how it ended.
    Lost,
    /// Never started.
    Skipped,
}

/// One attempt of a run.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// Its number, from 1.
    pub number: u32,
    /// How it ended: `succeeded`, `failed`, `canceled`, `lost`; absent while it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Who executes it.
    pub worker: String,
    /// Its fencing token: higher for every later attempt in the shard.
    pub fencing_token: u64,
    /// When it was promised to the worker.
    pub claimed_at: Instant,
    /// When the worker started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Instant>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Instant>,
    /// From start to end, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// A stable word for why it ended badly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The same in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The response, if it was a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Response>,
    /// What its handler returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub result: Option<Box<RawValue>>,
    /// Bytes it printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
    /// Bytes it printed that were not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_dropped_bytes: Option<u64>,
    /// Processor time it used, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    /// Most memory it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_max_bytes: Option<u64>,
}

/// A response.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Response {
    /// Its status.
    pub status: u16,
    /// Its headers, those with secrets masked.
    pub headers: BTreeMap<String, String>,
    /// Its body, as much as is kept; bytes that are no UTF-8 are replaced.
    pub body: String,
    /// Bytes of the body that were not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_dropped_bytes: Option<u64>,
}

/// Something that happened to a run.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RunEvent {
    /// When.
    pub at: Instant,
    /// What: `queued`, `claimed`, `started`, `succeeded`, `retrying`, `failed`, `canceled`, `lost`,
    /// `requeued`, `skipped`, `cancel_requested`, `retry_requested`.
    pub event: String,
    /// Which attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// By whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The attempt's fencing token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fencing_token: Option<u64>,
    /// Exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Status of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_status: Option<u16>,
    /// A stable word for why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The same in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// When the next attempt is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Instant>,
}

/// Something that happened to a run, as told to whoever listens.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LiveEvent {
    /// When.
    pub at: Instant,
    /// What.
    pub event: String,
    /// To which run; absent if it happened to the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Of which job.
    pub job_id: String,
    /// The job's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The job's namespace.
    pub namespace: String,
    /// The job's queue.
    pub queue: String,
    /// What the run is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    /// Which attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// A stable word for why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The same in a sentence, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The run that a request led to.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RunAnswer {
    /// Its id.
    #[schema(example = "run_06D1R3M0G0400-1")]
    pub run_id: String,
    /// All runs that were made, of a job that runs on all workers; `run_id` is the first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run_ids: Vec<String>,
}

impl RunAnswer {
    /// One run.
    #[must_use]
    pub fn of(run: impl std::fmt::Display) -> RunAnswer {
        RunAnswer { run_id: run.to_string(), run_ids: Vec::new() }
    }
}
