//! The schedule as a caller writes it. Plain data: nothing here has been checked.

use crate::time::Time;

/// A schedule before it is compiled: what fires, what is excepted, and the bounds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ScheduleSpec {
    /// Instants at which any of these rules fires are ticks. At least one is needed.
    pub any: Vec<Rule>,
    /// Ticks matched by any of these are removed. A five-field cron rule here covers the whole
    /// minute, so that `* 2 * * *` blacks out the hour from 02:00 to 03:00.
    pub except: Vec<Rule>,
    /// An IANA zone name for the wall clock of cron rules; empty means UTC.
    pub timezone: String,
    /// What it means that day-of-month and day-of-week are both restricted.
    pub day_match: DayMatch,
    /// What to do when the zone's clock is changed.
    pub dst: Dst,
    /// No tick before this instant; also the phase of `every`.
    pub start: Option<Time>,
    /// No tick after this instant; one exactly at it still counts.
    pub end: Option<Time>,
    /// After so many ticks the schedule is exhausted. The caller counts.
    pub max_runs: Option<u32>,
    /// Each tick may be delayed by up to so many milliseconds.
    pub jitter_ms: u64,
}

/// One source of ticks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rule {
    /// A cron expression of five, six or seven fields, or a preset such as `@daily`.
    Cron(String),
    /// A fixed period.
    Every {
        /// The period in milliseconds, at least one second.
        period_ms: u64,
        /// What the period is counted from.
        after: After,
    },
    /// Once, at an instant. One in the past is due at once.
    At(Time),
    /// Once, so many milliseconds after creation.
    Delay {
        /// The delay in milliseconds.
        ms: u64,
    },
}

/// What the period of [`Rule::Every`] is counted from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum After {
    /// From the schedule's start, so that ticks stay on a fixed grid.
    #[default]
    Start,
    /// From the end of the last run, so that runs never touch.
    Finish,
}

/// How two restricted day fields combine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DayMatch {
    /// A day that matches either field, as cron has always done it.
    #[default]
    Either,
    /// Only a day that matches both.
    Both,
}

/// The policy for changes of the zone's clock. What is `None` follows cron: a rule whose minute or
/// hour field starts with `*` follows the wall clock (nothing in the gap, twice in the fold); any
/// other runs once right after the gap, and the first time only in the fold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Dst {
    /// For wall-clock times that are left out when the clock is put forward.
    pub gap: Option<Gap>,
    /// For wall-clock times that come twice when the clock is put back.
    pub fold: Option<Fold>,
}

/// What becomes of ticks in the gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gap {
    /// They become one tick at the first instant after the gap.
    RunAfter,
    /// They are left out.
    Skip,
}

/// Which of two equal wall-clock times is a tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fold {
    /// The first.
    First,
    /// The second.
    Second,
    /// Both.
    Both,
}
