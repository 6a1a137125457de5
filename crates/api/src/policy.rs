//! How jobs behave when things do not go as planned.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Span;

/// Retries after a known failure.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// How many after the first attempt.
    #[schema(maximum = 10000)]
    pub max: u32,
    /// The first delay; 1s if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial: Option<Span>,
    /// Each delay is this times the one before; 2 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub factor: Option<f64>,
    /// But not longer than this; 1h if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_delay: Option<Span>,
    /// Give or take this part of it; 0.1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub jitter: Option<f64>,
}

/// How many workers run a job each time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TargetWorkers {
    /// One, whichever has room.
    Any,
    /// Every worker that is connected and takes it, each with a run of its own.
    All,
}

/// What happens when the outcome of an attempt is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// The run is lost, and is not started again.
    AtMostOnce,
    /// Another attempt is started.
    AtLeastOnce,
}

/// What happens to ticks that nothing could fire in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Misfire {
    /// What to do; `once` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<MisfirePolicy>,
    /// Ticks older than this are dropped; 1h for recurring jobs if absent, no limit for one-off ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Span>,
    /// Under `all`, at most so many are made up for; 100 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub max: Option<u32>,
}

/// The policies for missed ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MisfirePolicy {
    /// One run stands for all that were missed.
    Once,
    /// None is made up for.
    Skip,
    /// Each is made up for.
    All,
}

/// What happens to a tick while a run of the job is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Overlap {
    /// What to do.
    pub policy: OverlapPolicy,
    /// Under `queue`, at most so many wait; 10 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub max: Option<u32>,
}

/// The policies for overlapping runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OverlapPolicy {
    /// The tick is skipped.
    Skip,
    /// The run waits.
    Queue,
    /// The open run is canceled first.
    Replace,
    /// Both run.
    Allow,
}

/// What a failed run means for its ordering key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The key waits until it is retried or canceled.
    Block,
    /// The next run goes ahead.
    Continue,
}

/// What counts as success.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Success {
    /// Exit codes of a command; 0 if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 64)]
    pub exit_codes: Vec<i32>,
    /// The output or body must match this regular expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    pub output_matches: Option<String>,
    /// The output or body must not match this regular expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    pub output_must_not_match: Option<String>,
    /// Status codes of a response: `200`, `2xx` or `200-299`; 2xx if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 64)]
    pub status_codes: Vec<StatusCode>,
    /// A path into the JSON of the response, such as `$.status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    pub json_path: Option<String>,
    /// What the path must yield; anything but null and false if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub json_equals: Option<serde_json::Value>,
}

/// A status code or a range of them: `200`, `"2xx"`, `"200-299"`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum StatusCode {
    /// One code.
    Number(u16),
    /// A code or a range of them.
    Text(String),
}

/// How long to keep what happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// At most so many runs of a recurring job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000000)]
    pub runs: Option<u32>,
    /// At most so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age: Option<Span>,
}
