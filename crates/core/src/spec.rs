//! From stored schedules to the ones that [`crate::schedule`] computes with.

use crate::record::{Definition, RuleForm, Schedule as Stored};
use crate::schedule::{After, DayMatch, Dst, Fold, Gap, Rule, ScheduleSpec};
use crate::time::Time;

/// The schedule of a definition.
#[must_use]
pub fn schedule_spec(definition: &Definition) -> ScheduleSpec {
    definition.schedule.as_ref().map(from_stored).unwrap_or_default()
}

/// The instant of a schedule that is nothing but one `at` or `delay`, if it is such a one.
#[must_use]
pub fn plain_once(schedule: &Stored, created: Time) -> Option<Time> {
    let plain = schedule.start_ms.is_none()
        && schedule.end_ms.is_none()
        && schedule.jitter_ms == 0
        && schedule.max_runs == 0;
    if plain { once(schedule, created) } else { None }
}

/// The instant of a schedule whose only rule is an `at` or `delay` without exceptions, whatever
/// its bounds and jitter. It is what [`crate::schedule::Schedule::is_once`] says, without
/// compiling anything: an instant needs neither a zone nor a calendar.
#[must_use]
pub fn once(schedule: &Stored, anchor: Time) -> Option<Time> {
    let [rule] = schedule.any.as_slice() else {
        return None;
    };
    match rule.form.as_ref()? {
        _ if !schedule.except.is_empty() => None,
        RuleForm::AtMs(ms) => Some(Time(*ms)),
        RuleForm::DelayMs(ms) => Some(anchor.plus_ms(*ms)),
        _ => None,
    }
}

fn from_stored(stored: &Stored) -> ScheduleSpec {
    let rules = |rules: &[crate::record::Rule]| {
        rules.iter().filter_map(|rule| rule.form.as_ref().map(rule_of)).collect()
    };
    ScheduleSpec {
        any: rules(&stored.any),
        except: rules(&stored.except),
        timezone: stored.timezone.clone(),
        day_match: if stored.day_match_both { DayMatch::Both } else { DayMatch::Either },
        dst: Dst {
            gap: match stored.dst_gap {
                1 => Some(Gap::RunAfter),
                2 => Some(Gap::Skip),
                _ => None,
            },
            fold: match stored.dst_fold {
                1 => Some(Fold::First),
                2 => Some(Fold::Second),
                3 => Some(Fold::Both),
                _ => None,
            },
        },
        start: stored.start_ms.map(Time),
        end: stored.end_ms.map(Time),
        max_runs: (stored.max_runs > 0).then_some(stored.max_runs),
        jitter_ms: stored.jitter_ms,
    }
}

fn rule_of(form: &RuleForm) -> Rule {
    match form {
        RuleForm::Cron(text) => Rule::Cron(text.clone()),
        RuleForm::EveryMs(ms) => Rule::Every { period_ms: *ms, after: After::Start },
        RuleForm::EveryAfterFinishMs(ms) => Rule::Every { period_ms: *ms, after: After::Finish },
        RuleForm::AtMs(ms) => Rule::At(Time(*ms)),
        RuleForm::DelayMs(ms) => Rule::Delay { ms: *ms },
    }
}
