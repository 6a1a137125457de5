//! From a written rule to a compiled one, with the checks that can refuse it.

use super::cron::Pattern;
use super::error::ScheduleError;
use super::exclude::Exclusion;
use super::expression;
use super::spec::{After, Rule, ScheduleSpec};
use super::ticks::CronTicks;
use super::zone::{EARLIEST_S, Zone};
use super::{JITTER_MAX_MS, PERIOD_MIN_MS, RULES_MAX};
use crate::time::{DURATION_MAX_MS, Time, format_duration_ms};

/// Earlier than any tick.
pub(super) const EARLIEST: Time = Time(EARLIEST_S * 1_000);

/// A compiled rule.
#[derive(Debug)]
pub(super) enum Source {
    Cron(Box<CronTicks>),
    /// Ticks at `first + n × period`.
    Grid {
        first: Time,
        period_ms: u64,
    },
    /// A tick at `first`, then so long after each end.
    AfterFinish {
        first: Time,
        period_ms: u64,
    },
    Once(Time),
}

impl Source {
    /// The first tick strictly later than an instant.
    pub(super) fn next_after(&self, zone: &Zone, after: Time) -> Option<Time> {
        match self {
            Source::Cron(ticks) => ticks.next_after(zone, after),
            Source::Grid { first, period_ms } => {
                if after < *first {
                    return Some(*first);
                }
                let passed = after.since_ms(*first) / period_ms;
                let next = passed.checked_add(1)?.checked_mul(*period_ms)?;
                let next = first.0.checked_add(i64::try_from(next).ok()?)?;
                Some(Time(next))
            }
            Source::AfterFinish { first, .. } | Source::Once(first) => {
                (after < *first).then_some(*first)
            }
        }
    }
}

/// The error of a schedule without ticks.
pub(super) fn never(reason: &str) -> ScheduleError {
    ScheduleError::new("never_fires", format!("the schedule would never fire: {reason}"))
}

/// Refuses a rule that no calendar can satisfy, such as 30 February, also where others would fire.
pub(super) fn can_match(source: Source, zone: &Zone) -> Result<Source, ScheduleError> {
    match &source {
        Source::Cron(ticks) if ticks.next_after(zone, EARLIEST).is_none() => {
            Err(never("there is no such day, or the year is out of range"))
        }
        _ => Ok(source),
    }
}

/// Checks everything that does not need a rule to be compiled.
pub(super) fn check_bounds(spec: &ScheduleSpec) -> Result<(), ScheduleError> {
    let rules = spec.any.len() + spec.except.len();
    if spec.any.is_empty() {
        let message = "the schedule has no rule; give `cron`, `every`, `at` or `delay`";
        return Err(ScheduleError::new("no_rules", message).at("any"));
    }
    if rules > RULES_MAX {
        let message = format!("the schedule has {rules} rules; at most {RULES_MAX} are allowed");
        return Err(ScheduleError::new("too_many_rules", message).at("any"));
    }
    if let (Some(start), Some(end)) = (spec.start, spec.end)
        && end < start
    {
        return Err(never("`end` is before `start`").at("end"));
    }
    if spec.max_runs == Some(0) {
        let message = "`max_runs` is 0; leave it out for no limit, or give 1 or more";
        return Err(ScheduleError::new("invalid_max_runs", message).at("max_runs"));
    }
    if spec.jitter_ms > JITTER_MAX_MS {
        let longest = format_duration_ms(JITTER_MAX_MS);
        let message = format!("the jitter is longer than {longest}, the longest allowed");
        return Err(ScheduleError::new("invalid_jitter", message).at("jitter"));
    }
    Ok(())
}

fn check_period(period_ms: u64) -> Result<(), ScheduleError> {
    if period_ms < PERIOD_MIN_MS {
        let message = "a period shorter than one second is not possible; use 1s or more";
        return Err(ScheduleError::new("invalid_rate", message));
    }
    if period_ms > DURATION_MAX_MS {
        let message = "a period longer than ten years is not possible";
        return Err(ScheduleError::new("invalid_rate", message));
    }
    Ok(())
}

/// Compiles a rule that fires.
pub(super) fn source(
    rule: &Rule,
    spec: &ScheduleSpec,
    identity: &str,
    anchor: Time,
) -> Result<Source, ScheduleError> {
    match rule {
        Rule::Cron(text) => match expression::go_every(text) {
            Some(every) => source(&every?, spec, identity, anchor),
            None => {
                let pattern = Pattern::compile(text, identity, spec.day_match)?;
                Ok(Source::Cron(Box::new(CronTicks::new(pattern, spec.dst))))
            }
        },
        Rule::Every { period_ms, after } => {
            let period_ms = *period_ms;
            check_period(period_ms)?;
            let after_creation = anchor.plus_ms(period_ms);
            Ok(match after {
                After::Start => {
                    Source::Grid { first: spec.start.unwrap_or(after_creation), period_ms }
                }
                // A start that has passed is no tick to count from any more.
                After::Finish => {
                    let start = spec.start.filter(|start| *start > anchor);
                    Source::AfterFinish { first: start.unwrap_or(after_creation), period_ms }
                }
            })
        }
        Rule::At(time) => Ok(Source::Once(*time)),
        Rule::Delay { ms } if *ms > DURATION_MAX_MS => Err(ScheduleError::new(
            "invalid_delay",
            "a delay longer than ten years is not possible",
        )),
        Rule::Delay { ms } => Ok(Source::Once(anchor.plus_ms(*ms))),
    }
}

/// Compiles a rule that excepts.
pub(super) fn exclusion(
    rule: &Rule,
    spec: &ScheduleSpec,
    identity: &str,
    anchor: Time,
) -> Result<Exclusion, ScheduleError> {
    match rule {
        Rule::Cron(text) if expression::go_every(text).is_none() => {
            let pattern = Pattern::compile(text, identity, spec.day_match)?;
            Ok(Exclusion::Cron(Box::new(pattern)))
        }
        _ => match source(rule, spec, identity, anchor)? {
            Source::Grid { first, period_ms } => Ok(Exclusion::Every { origin: first, period_ms }),
            Source::Once(time) => Ok(Exclusion::At(time)),
            Source::AfterFinish { .. } | Source::Cron(_) => Err(ScheduleError::new(
                "unsupported_rule",
                "a period that counts from the last end cannot be an exception",
            )),
        },
    }
}
