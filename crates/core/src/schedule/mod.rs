//! When jobs are due: the schedule language, its ticks and its plain words.
//!
//! A [`ScheduleSpec`] is what a caller writes: rules that fire, rules that are excepted, a zone and
//! bounds. [`Schedule::compile`] checks it once and turns it into a [`Schedule`], an immutable value
//! that answers "when next?" by arithmetic. Ticks are nominal: jitter, `max_runs`, overlap and
//! misfires are the caller's business, and so is the clock.
//!
//! ```text
//!  "5 2 * * 6" ──► normalise ──► croner ──► Pattern ─┐ wall-clock matches
//!                  names, H, ?   parses     bit masks │
//!  zone name  ──► Zone: stretches of constant offset ─┤
//!                                                     ▼
//!                                     ticks: gap and fold policy ──► union − exceptions ──► next
//! ```
//!
//! Invariants: a tick is strictly later than the instant asked about; stepping from tick to tick
//! and jumping into the middle give the same ticks; every search is bounded. The zone database is
//! compiled in, so that all nodes running one version agree.
//!
//! What it deliberately does not do: parse cron fields (the crate `croner` does), know of runs, or
//! remember the last tick. Start reading at [`Schedule`], then `ticks.rs` for clock changes.
//!
//! ```
//! use bellwether_core::schedule::{Rule, Schedule, ScheduleSpec};
//! use bellwether_core::time::Time;
//!
//! let spec = ScheduleSpec {
//!     any: vec![Rule::Cron("5 2 * * 6".into())],
//!     timezone: "Europe/Berlin".into(),
//!     ..ScheduleSpec::default()
//! };
//! let created = Time::parse("2026-01-01T00:00:00Z").unwrap();
//! let schedule = Schedule::compile(&spec, "default/nightly", created).unwrap();
//! assert_eq!(schedule.describe(), "At 02:05 on Saturday, Europe/Berlin time");
//! assert_eq!(schedule.next_after(created), Time::parse("2026-01-03T01:05:00Z").ok());
//! ```

mod compile;
mod compiled;
mod cron;
mod days;
mod describe;
mod error;
mod exclude;
mod expression;
mod normalise;
mod spec;
mod ticks;
mod wall;
mod words;
mod zone;

pub use compiled::{Schedule, jitter_ms};
pub use error::ScheduleError;
pub use expression::{parse_expression, parse_period_ms};
pub use spec::{After, DayMatch, Dst, Fold, Gap, Rule, ScheduleSpec};
pub use zone::{check_timezone, timezone_names};

/// The longest expression accepted, in bytes.
pub const EXPRESSION_LEN_MAX: usize = 512;
/// The most rules accepted in `any` and `except` together.
pub const RULES_MAX: usize = 32;
/// The shortest period of `every`, in milliseconds.
pub const PERIOD_MIN_MS: u64 = crate::time::SECOND_MS;
/// The longest jitter, in milliseconds.
pub const JITTER_MAX_MS: u64 = crate::time::DAY_MS;
