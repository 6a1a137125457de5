//! Flags that say when.

use anyhow::Result;
use bellwether_api::{After, DayMatch, Instant, JobSpec, Schedule, Span, TextOr};
use bellwether_core::schedule::{Rule, parse_expression};
use bellwether_core::{schedule as core, time};
use clap::Args;
use jiff::tz::TimeZone;

use super::flags::set;
use super::value::{parse_span, typed_time};
use crate::exit::usage;
use crate::show::{now, parse_time};

/// When it is due.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "When")]
pub struct ScheduleFlags {
    /// On one line: '5 2 * * 6', @daily, 'every 5m', 'in 30m', a time
    #[arg(long, value_name = "EXPRESSION", group = "form")]
    schedule: Option<String>,
    /// By a cron expression of 5, 6 (seconds first) or 7 (year last) fields, or a preset
    #[arg(long, value_name = "EXPRESSION", group = "form")]
    cron: Option<String>,
    /// At a fixed period
    #[arg(long, value_name = "DURATION", value_parser = parse_span, group = "form")]
    every: Option<Span>,
    /// Once, at a time
    #[arg(long, value_name = "TIME", group = "form")]
    at: Option<String>,
    /// Once, so long from now
    #[arg(long, value_name = "DURATION", value_parser = parse_span, group = "form")]
    delay: Option<Span>,
    /// With --every: count from the end of the last run
    #[arg(long)]
    after_finish: bool,
    /// Zone of cron expressions and of times without one, such as Europe/Berlin; UTC if not given
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// Not before this
    #[arg(long, value_name = "TIME")]
    start: Option<String>,
    /// Not after this
    #[arg(long, value_name = "TIME")]
    end: Option<String>,
    /// No more often than this
    #[arg(long, value_name = "N")]
    max_runs: Option<u32>,
    /// Delay each run by up to this much
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    jitter: Option<Span>,
    /// Day of month and day of week must both match
    #[arg(long)]
    match_both_days: bool,
}

impl ScheduleFlags {
    pub(super) fn apply(&self, spec: &mut JobSpec) -> Result<()> {
        let form = self.form()?;
        let bounds = self.timezone.is_some()
            || self.start.is_some()
            || self.end.is_some()
            || self.max_runs.is_some()
            || self.jitter.is_some()
            || self.match_both_days
            || self.after_finish;
        if form.is_none() && !bounds {
            return Ok(());
        }
        let mut schedule = current(spec)?;
        if let Some(form) = form {
            let Schedule { cron, every, at, delay, after, .. } = form;
            schedule =
                Schedule { cron, every, at, delay, after, rate: None, any: None, ..schedule };
        }
        if self.after_finish {
            if schedule.every.is_none() && schedule.rate.is_none() {
                return Err(usage("--after-finish goes with --every"));
            }
            schedule.after = Some(After::Finish);
        }
        if self.match_both_days {
            if schedule.cron.is_none() && schedule.any.is_none() {
                return Err(usage("--match-both-days goes with a cron expression"));
            }
            schedule.day_match = Some(DayMatch::Both);
        }
        set(&mut schedule.timezone, &self.timezone);
        set(&mut schedule.start, &self.time(self.start.as_deref())?);
        set(&mut schedule.end, &self.time(self.end.as_deref())?);
        set(&mut schedule.max_runs, &self.max_runs);
        set(&mut schedule.jitter, &self.jitter);
        spec.schedule_time = None;
        spec.schedule = Some(TextOr::Object(schedule));
        Ok(())
    }

    /// The one rule the flags give.
    fn form(&self) -> Result<Option<Schedule>> {
        if let Some(line) = &self.schedule {
            let rule = parse_expression(line).map_err(|error| usage(error.message))?;
            return Ok(Some(schedule_of_rule(&rule)));
        }
        let form = Schedule {
            cron: self.cron.clone(),
            every: self.every,
            at: self.time(self.at.as_deref())?,
            delay: self.delay,
            ..Schedule::default()
        };
        Ok((form != Schedule::default()).then_some(form))
    }

    /// A time on the clock of the zone that was given, else of this machine.
    fn time(&self, text: Option<&str>) -> Result<Option<Instant>> {
        let Some(text) = text else { return Ok(None) };
        let time = match &self.timezone {
            None => typed_time(text)?,
            Some(name) => {
                let name = core::check_timezone(name).map_err(|error| usage(error.message))?;
                let zone = TimeZone::get(&name).map_err(|error| usage(error.to_string()))?;
                parse_time(text, &zone, now()).map_err(usage)?
            }
        };
        Ok(Some(Instant(time)))
    }
}

/// The schedule a spec has so far, as an object.
fn current(spec: &JobSpec) -> Result<Schedule> {
    match (&spec.schedule, spec.schedule_time) {
        (Some(schedule), _) => schedule_object(schedule),
        (None, Some(at)) => Ok(Schedule { at: Some(at), ..Schedule::default() }),
        (None, None) => Ok(Schedule::default()),
    }
}

/// A schedule written on one line, or as an object, as an object.
pub fn schedule_object(schedule: &TextOr<Schedule>) -> Result<Schedule> {
    match schedule {
        TextOr::Object(schedule) => Ok(schedule.clone()),
        TextOr::Text(line) => {
            let rule = parse_expression(line).map_err(|error| usage(error.message))?;
            Ok(schedule_of_rule(&rule))
        }
    }
}

/// Whether a job runs once.
pub fn is_once(spec: &JobSpec) -> bool {
    if spec.schedule_time.is_some() {
        return true;
    }
    match spec.schedule.as_ref().map(schedule_object) {
        Some(Ok(schedule)) => schedule.at.is_some() || schedule.delay.is_some(),
        _ => false,
    }
}

/// A rule as an object.
fn schedule_of_rule(rule: &Rule) -> Schedule {
    let mut schedule = Schedule::default();
    match rule {
        Rule::Cron(text) => schedule.cron = Some(text.clone()),
        Rule::Every { period_ms, after } => {
            schedule.every = Some(Span(*period_ms));
            schedule.after = (*after == core::After::Finish).then_some(After::Finish);
        }
        Rule::At(at) => schedule.at = Some(Instant(*at)),
        Rule::Delay { ms } => schedule.delay = Some(Span((*ms).min(time::DURATION_MAX_MS))),
    }
    schedule
}
