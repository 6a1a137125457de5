//! Batches: many runs of one kind, made from items.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::{Instant, JobSpec, Mark};

/// A batch to create: a `template` with `items`, or whole `jobs`. As NDJSON the first line is this
/// without `items` and `jobs`, and each line after it is an item, or a job if there is no template.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewBatch {
    /// The caller's own name for the batch, unique in its namespace: sent twice, it is created once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "newsletter-march", max_length = 256)]
    pub key: Option<String>,
    /// The tenant; if absent the token's, or `default` if it is good for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128)]
    pub namespace: Option<String>,
    /// Text for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub description: Option<String>,
    /// What is done for each item: a job without schedule, key and ordering key. The item becomes
    /// the payload of a handler, the body of a request or message, or the variable
    /// `BELLWETHER_ITEM` of a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<Box<JobSpec>>,
    /// The items: any JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>, max_items = 1000000)]
    pub items: Option<Vec<Box<RawValue>>>,
    /// Whole jobs, instead of template and items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<JobSpec>>, max_items = 1000000)]
    pub jobs: Option<Vec<Box<RawValue>>>,
    /// A job to trigger once all is over: id, or key in the batch's namespace. Not if the batch is
    /// canceled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub on_complete: Option<String>,
    /// When to begin; at once if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_time: Option<Instant>,
}

/// A batch.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Batch {
    /// Its id.
    #[schema(example = "batch_06D1R3M0G0400")]
    pub id: String,
    /// The caller's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its namespace.
    pub namespace: String,
    /// Text for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where it stands.
    pub status: BatchStatus,
    /// How many items it has.
    pub total: u64,
    /// Those that wait for a worker.
    pub waiting: u64,
    /// Those that failed and wait for another attempt.
    pub retrying: u64,
    /// Those that are with a worker.
    pub running: u64,
    /// Those that ended well.
    pub succeeded: u64,
    /// Those that ended badly.
    pub failed: u64,
    /// Those that were canceled.
    pub canceled: u64,
    /// Those of which nobody knows how they ended.
    pub lost: u64,
    /// Those that were never started, because they expired.
    pub skipped: u64,
    /// When it was created.
    pub created_at: Instant,
    /// By whom.
    pub created_by: String,
    /// When it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_time: Option<Instant>,
    /// When all was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Instant>,
    /// Who canceled it, when and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<Mark>,
    /// What follows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_complete: Option<OnComplete>,
    /// What is done for each item. Secrets are masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<Box<JobSpec>>,
}

/// What follows a batch.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct OnComplete {
    /// The job to trigger.
    pub job: String,
    /// The run that was triggered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Why none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Where a batch stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BatchStatus {
    /// Its time has not come.
    Scheduled,
    /// It is under way.
    Running,
    /// It was canceled, and some of it is still with workers.
    Canceling,
    /// All is over, and it was not canceled.
    Completed,
    /// All is over, and it was canceled.
    Canceled,
}

/// Canceling: why.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {
    /// Why, for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    pub note: Option<String>,
}
