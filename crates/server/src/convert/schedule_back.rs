//! Schedules: from what is stored to what a caller would have written.

use bellwether_api::{
    After, DayMatch, Dst, Fold, Gap, Instant, Schedule, ScheduleRule, Span, TextOr,
};
use bellwether_core::record::{self, RuleForm};
use bellwether_core::time::Time;

/// The instant of a schedule that is nothing but one `at`: it is also shown as `schedule_time`.
pub(super) fn plain_at(stored: &record::Schedule) -> Option<Instant> {
    let form = stored.any.first().and_then(|rule| rule.form.as_ref())?;
    let bare = record::Schedule { any: stored.any.clone(), ..record::Schedule::default() };
    match form {
        RuleForm::AtMs(ms) if stored.any.len() == 1 && *stored == bare => Some(Instant(Time(*ms))),
        _ => None,
    }
}

/// A stored schedule as an object. One rule is written as its own form, several as `any`.
pub(super) fn object(stored: &record::Schedule) -> Schedule {
    let mut schedule = Schedule {
        except: (!stored.except.is_empty()).then(|| rules(&stored.except)),
        timezone: (!stored.timezone.is_empty()).then(|| stored.timezone.clone()),
        day_match: stored.day_match_both.then_some(DayMatch::Both),
        dst: dst(stored),
        start: stored.start_ms.map(|ms| Instant(Time(ms))),
        end: stored.end_ms.map(|ms| Instant(Time(ms))),
        max_runs: (stored.max_runs > 0).then_some(stored.max_runs),
        jitter: (stored.jitter_ms > 0).then_some(Span(stored.jitter_ms)),
        ..Schedule::default()
    };
    match stored.any.as_slice() {
        [record::Rule { form: Some(form) }] => match form {
            RuleForm::Cron(text) => schedule.cron = Some(text.clone()),
            RuleForm::EveryMs(ms) => schedule.every = Some(Span(*ms)),
            RuleForm::EveryAfterFinishMs(ms) => {
                schedule.every = Some(Span(*ms));
                schedule.after = Some(After::Finish);
            }
            RuleForm::AtMs(ms) => schedule.at = Some(Instant(Time(*ms))),
            RuleForm::DelayMs(ms) => schedule.delay = Some(Span(*ms)),
        },
        several => schedule.any = Some(rules(several)),
    }
    schedule
}

fn rules(stored: &[record::Rule]) -> Vec<TextOr<ScheduleRule>> {
    stored.iter().filter_map(|rule| rule.form.as_ref()).map(rule).collect()
}

fn rule(form: &RuleForm) -> TextOr<ScheduleRule> {
    let mut rule = ScheduleRule::default();
    match form {
        RuleForm::Cron(text) => rule.cron = Some(text.clone()),
        RuleForm::EveryMs(ms) => rule.every = Some(Span(*ms)),
        // Only the line can say it inside a union.
        RuleForm::EveryAfterFinishMs(ms) => {
            return TextOr::Text(format!("every {} after finish", Span(*ms)));
        }
        RuleForm::AtMs(ms) => rule.at = Some(Instant(Time(*ms))),
        RuleForm::DelayMs(ms) => rule.delay = Some(Span(*ms)),
    }
    TextOr::Object(rule)
}

fn dst(stored: &record::Schedule) -> Option<Dst> {
    let gap = match stored.dst_gap {
        1 => Some(Gap::RunAfter),
        2 => Some(Gap::Skip),
        _ => None,
    };
    let fold = match stored.dst_fold {
        1 => Some(Fold::First),
        2 => Some(Fold::Second),
        3 => Some(Fold::Both),
        _ => None,
    };
    (gap.is_some() || fold.is_some()).then_some(Dst { gap, fold })
}
