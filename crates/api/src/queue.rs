//! Queues and their bounds.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Mark;

/// A queue.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Runs that wait for a worker.
    pub waiting: u64,
    /// Runs that are with workers.
    pub running: u64,
    /// How many runs may be under way at once; any number if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How many runs may be launched a second; any number if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_second: Option<f64>,
    /// Set while nothing is launched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Mark>,
}

/// What to change about a queue. What is absent stays as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueSpec {
    /// How many runs may be under way at once; 0 for any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1000000)]
    pub concurrency: Option<u32>,
    /// How many runs may be launched a second; 0 for any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1000000)]
    pub rate_per_second: Option<f64>,
    /// Whether nothing is launched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Why, for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    pub note: Option<String>,
}
