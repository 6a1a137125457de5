//! The tick ledger.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Instant;

/// A due instant of a job, or several in a row with the same fate, and what became of it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Tick {
    /// The instant; the first of several.
    pub at: Instant,
    /// The last of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Instant>,
    /// How many instants this stands for.
    pub count: u32,
    /// Whether there were more than were counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub count_is_minimum: bool,
    /// What became of it.
    pub fate: TickFate,
    /// A stable word for why: `overlap`, `misfire`, `paused`, `maintenance`, `max_runs`, `late`,
    /// `trigger`, `no_worker`, `restored`, `replaced`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The same in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The run it led to; the first of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// How many runs it led to, of a job that runs on all workers. Their numbers go on from the
    /// first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<u32>,
    /// The tick, or the trigger, whose run stands for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_into: Option<Instant>,
    /// When that was decided.
    pub decided_at: Instant,
}

/// What became of a tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TickFate {
    /// It led to a run in time.
    Fired,
    /// It led to a run later than it should have.
    Late,
    /// Another tick's run stands for it, or that of a trigger which brought it forward.
    Merged,
    /// It led to nothing.
    Skipped,
    /// Somebody triggered a run.
    Triggered,
}

/// Why a job did or did not run, in words.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// The answer in a sentence.
    pub answer: String,
    /// What supports it, a sentence each.
    pub details: Vec<String>,
    /// The rows of the ledger it rests on.
    pub ticks: Vec<Tick>,
    /// The next times.
    pub next: Vec<Instant>,
}
