//! The server's settings that the rules depend on.

use crate::time::{DAY_MS, HOUR_MS, SECOND_MS};

/// What an operator can set about the rules. The same on all nodes of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A tick that fires later than this was missed, and its job's misfire policy applies.
    pub misfire_after_ms: u64,
    /// How long history and output are kept, unless a job says otherwise.
    pub retention_age_ms: u64,
    /// How many runs of a recurring job are kept, unless it says otherwise.
    pub retention_runs: u32,
    /// How many rows of a job's ledger are kept.
    pub ledger_rows: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            misfire_after_ms: 5 * SECOND_MS,
            retention_age_ms: 7 * DAY_MS,
            retention_runs: 500,
            ledger_rows: 2_000,
        }
    }
}

/// Under `misfire: once` and `all`, recurring ticks older than this are dropped by default.
pub const MISFIRE_WINDOW_MS: u64 = HOUR_MS;
/// Under `misfire: all`, so many ticks are made up for by default.
pub const MISFIRE_MAX: u32 = 100;
/// Under `overlap: queue`, so many runs wait by default.
pub const OVERLAP_QUEUE_MAX: u32 = 10;
/// After so many attempts with an unknown outcome, `at_least_once` gives up: the job is likely to
/// bring its worker down.
pub const LOSSES_MAX: u32 = 10;

/// The retention class of an age: whole hours, rounded up, at most about seven years.
#[must_use]
pub fn class_of(age_ms: u64) -> u16 {
    u16::try_from(age_ms.div_ceil(HOUR_MS)).unwrap_or(u16::MAX).max(1)
}

/// How long a class is kept.
#[must_use]
pub fn class_age_ms(class: u16) -> u64 {
    u64::from(class) * HOUR_MS
}
