//! Schedules: from what a caller writes to what is stored, and whether they can ever fire.

use bellwether_api::{
    After, DayMatch, Fold, Gap, JobSpec, Problem, Schedule, ScheduleRule, Span, TextOr,
};
use bellwether_core::record::{self, Definition, RuleForm};
use bellwether_core::schedule::{self as core, EXPRESSION_LEN_MAX, RULES_MAX, ScheduleError};
use bellwether_core::spec::{plain_once, schedule_spec};
use bellwether_core::time::Time;

use super::limits::TIMEZONE_CHARS_MAX;
use super::name::{DEFAULT, longer_than};
use super::problem::{invalid, quoted, sentence, too_long, too_many};

/// The forms of a schedule, of which exactly one is given.
pub(super) const FORMS: [&str; 6] = ["cron", "every", "rate", "at", "delay", "any"];

/// The schedule of a job as it is stored. Takes it out of the spec.
pub(super) fn stored(spec: &mut JobSpec) -> Result<record::Schedule, Problem> {
    let schedule = spec.schedule.take();
    if let Some(time) = spec.schedule_time {
        let stored = plain(at("schedule_time", time.0)?);
        // An answer shows both, and may be sent back.
        if let Some(schedule) = schedule
            && from_either("schedule", schedule)? != stored
        {
            let detail = "`schedule_time` is short for `schedule: {\"at\": …}`; give one of \
                          them, or the same";
            return Err(invalid("conflicting_schedules", "schedule_time", detail));
        }
        return Ok(stored);
    }
    match schedule {
        Some(schedule) => from_either("schedule", schedule),
        None => Err(missing("schedule")),
    }
}

fn missing(field: &str) -> Problem {
    let detail = "the job has no schedule. Give `schedule`, such as {\"cron\": \"5 2 * * 6\"} or \
                  \"every 5m\", or `schedule_time`. To run it right away use \
                  {\"delay\": \"0s\"}; a job that is only ever triggered by hand needs a \
                  schedule too, such as a time far off";
    invalid("missing_schedule", field, detail)
}

/// Refuses a schedule that can never fire. A plain one-off always does, so nothing is compiled.
pub(super) fn check(definition: &Definition, now: Time) -> Result<(), Problem> {
    let Some(schedule) = &definition.schedule else {
        return Err(missing("schedule"));
    };
    if plain_once(schedule, now).is_some() {
        if !schedule.timezone.is_empty() {
            core::check_timezone(&schedule.timezone)
                .map_err(|error| schedule_problem(&error, "schedule.timezone"))?;
        }
        return Ok(());
    }
    let namespace = match definition.namespace.as_str() {
        "" => DEFAULT,
        name => name,
    };
    let identity = format!("{namespace}/{}", definition.key);
    core::Schedule::compile(&schedule_spec(definition), &identity, now)
        .map(|_| ())
        .map_err(|error| compile_problem(&error, "schedule.", schedule))
}

/// A problem for a schedule that was refused. `field` says where, if the error itself does not.
#[must_use]
pub fn schedule_problem(error: &ScheduleError, field: &str) -> Problem {
    let field = if field.is_empty() { error.field.as_str() } else { field };
    let problem = Problem::new(422, error.code, sentence(&error.message));
    if field.is_empty() { problem } else { problem.at(field) }
}

/// Finds the caller's own field for what the compiler found fault with: it speaks of `any[0]`
/// where the caller may have written `cron`.
pub(super) fn compile_problem(
    error: &ScheduleError,
    prefix: &str,
    stored: &record::Schedule,
) -> Problem {
    let form = match stored.any.as_slice() {
        [rule] if error.field == "any[0]" => match &rule.form {
            Some(RuleForm::Cron(_)) => "cron",
            Some(RuleForm::EveryMs(_) | RuleForm::EveryAfterFinishMs(_)) => "every",
            Some(RuleForm::AtMs(_)) => "at",
            Some(RuleForm::DelayMs(_)) => "delay",
            None => "any[0]",
        },
        _ => error.field.as_str(),
    };
    let field = format!("{prefix}{form}");
    schedule_problem(error, field.trim_end_matches('.'))
}

fn plain(form: RuleForm) -> record::Schedule {
    record::Schedule { any: vec![record::Rule { form: Some(form) }], ..record::Schedule::default() }
}

fn from_either(field: &str, schedule: TextOr<Schedule>) -> Result<record::Schedule, Problem> {
    match schedule {
        TextOr::Text(text) => Ok(plain(expression(field, &text)?)),
        TextOr::Object(schedule) => from_object(&format!("{field}."), schedule),
    }
}

/// `prefix` is `schedule.` for a job, nothing for a preview.
pub(super) fn from_object(prefix: &str, schedule: Schedule) -> Result<record::Schedule, Problem> {
    let at_field = |name: &str| format!("{prefix}{name}");
    let whole = prefix.trim_end_matches('.');
    let given = [
        schedule.cron.is_some(),
        schedule.every.is_some(),
        schedule.rate.is_some(),
        schedule.at.is_some(),
        schedule.delay.is_some(),
        schedule.any.is_some(),
    ];
    let forms: Vec<&str> =
        FORMS.into_iter().zip(given).filter(|(_, given)| *given).map(|(form, _)| form).collect();
    match forms.as_slice() {
        [] => return Err(missing(whole)),
        [_] => {}
        several => {
            let detail = format!(
                "a schedule has one of {}; this one has {}. Use `any` for several",
                FORMS.map(|form| format!("`{form}`")).join(", "),
                several.iter().map(|form| format!("`{form}`")).collect::<Vec<_>>().join(" and ")
            );
            return Err(invalid("conflicting_schedules", whole, detail));
        }
    }
    if schedule.after.is_some() && schedule.every.is_none() && schedule.rate.is_none() {
        let detail = "`after` goes only with `every` or `rate`";
        return Err(invalid("field_not_applicable", at_field("after"), detail));
    }
    let any = match schedule.any {
        Some(rules) => rule_list(&at_field("any"), rules)?,
        None => vec![record::Rule { form: Some(single(prefix, &schedule)?) }],
    };
    let timezone = schedule.timezone.unwrap_or_default();
    if longer_than(&timezone, TIMEZONE_CHARS_MAX) {
        return Err(too_long(at_field("timezone"), TIMEZONE_CHARS_MAX, "characters"));
    }
    if schedule.max_runs == Some(0) {
        let detail = "`max_runs` is 0; leave it out for no limit, or give 1 or more";
        return Err(invalid("invalid_max_runs", at_field("max_runs"), detail));
    }
    let dst = schedule.dst.unwrap_or_default();
    Ok(record::Schedule {
        any,
        except: rule_list(&at_field("except"), schedule.except.unwrap_or_default())?,
        timezone: timezone.trim().to_owned(),
        day_match_both: schedule.day_match == Some(DayMatch::Both),
        dst_gap: match dst.gap {
            None => 0,
            Some(Gap::RunAfter) => 1,
            Some(Gap::Skip) => 2,
        },
        dst_fold: match dst.fold {
            None => 0,
            Some(Fold::First) => 1,
            Some(Fold::Second) => 2,
            Some(Fold::Both) => 3,
        },
        start_ms: schedule.start.map(|start| start.0.0),
        end_ms: schedule.end.map(|end| end.0.0),
        max_runs: schedule.max_runs.unwrap_or(0),
        jitter_ms: schedule.jitter.map_or(0, |jitter| jitter.0),
    })
}

/// The rule of a schedule that has one form other than `any`.
fn single(prefix: &str, schedule: &Schedule) -> Result<RuleForm, Problem> {
    let field = |name: &str| format!("{prefix}{name}");
    let after = schedule.after.unwrap_or(After::Start);
    if let Some(text) = &schedule.cron {
        cron(&field("cron"), text)
    } else if let Some(Span(ms)) = schedule.every {
        Ok(every(ms, after))
    } else if let Some(text) = &schedule.rate {
        core::parse_period_ms(text)
            .map(|ms| every(ms, after))
            .map_err(|error| schedule_problem(&error, &field("rate")))
    } else if let Some(time) = schedule.at {
        at(&field("at"), time.0)
    } else if let Some(Span(ms)) = schedule.delay {
        Ok(RuleForm::DelayMs(ms))
    } else {
        Err(missing(prefix.trim_end_matches('.')))
    }
}

fn rule_list(field: &str, rules: Vec<TextOr<ScheduleRule>>) -> Result<Vec<record::Rule>, Problem> {
    if rules.len() > RULES_MAX {
        return Err(too_many(field, rules.len(), RULES_MAX));
    }
    let rule = |(index, rule)| {
        let field = format!("{field}[{index}]");
        let form = match rule {
            TextOr::Text(text) => expression(&field, &text),
            TextOr::Object(rule) => rule_object(&field, &rule),
        };
        Ok(record::Rule { form: Some(form?) })
    };
    rules.into_iter().enumerate().map(rule).collect()
}

fn rule_object(field: &str, rule: &ScheduleRule) -> Result<RuleForm, Problem> {
    match (&rule.cron, rule.every, rule.at, rule.delay) {
        (Some(text), None, None, None) => cron(&format!("{field}.cron"), text),
        (None, Some(Span(ms)), None, None) => Ok(every(ms, After::Start)),
        (None, None, Some(time), None) => at(&format!("{field}.at"), time.0),
        (None, None, None, Some(Span(ms))) => Ok(RuleForm::DelayMs(ms)),
        _ => {
            let detail = "a rule has exactly one of `cron`, `every`, `at` and `delay`";
            Err(invalid("conflicting_schedules", field, detail))
        }
    }
}

/// A schedule in one line.
pub(super) fn expression(field: &str, text: &str) -> Result<RuleForm, Problem> {
    match core::parse_expression(text).map_err(|error| schedule_problem(&error, field))? {
        core::Rule::Cron(text) => Ok(RuleForm::Cron(text)),
        core::Rule::Every { period_ms, after: core::After::Start } => {
            Ok(RuleForm::EveryMs(period_ms))
        }
        core::Rule::Every { period_ms, after: core::After::Finish } => {
            Ok(RuleForm::EveryAfterFinishMs(period_ms))
        }
        core::Rule::At(time) => at(field, time),
        core::Rule::Delay { ms } => Ok(RuleForm::DelayMs(ms)),
    }
}

fn cron(field: &str, text: &str) -> Result<RuleForm, Problem> {
    let text = text.trim();
    if text.len() > EXPRESSION_LEN_MAX {
        return Err(too_long(field, EXPRESSION_LEN_MAX, "characters"));
    }
    Ok(RuleForm::Cron(text.to_owned()))
}

fn every(ms: u64, after: After) -> RuleForm {
    match after {
        After::Start => RuleForm::EveryMs(ms),
        After::Finish => RuleForm::EveryAfterFinishMs(ms),
    }
}

/// An instant. One in the past is due at once, but one before 1970 is a mistake, such as the zero
/// of some language.
fn at(field: &str, time: Time) -> Result<RuleForm, Problem> {
    if time < Time(0) {
        let detail = format!("{} is before 1970; give the time meant", quoted(&time.to_string()));
        return Err(invalid("invalid_time", field, detail));
    }
    Ok(RuleForm::AtMs(time.0))
}
