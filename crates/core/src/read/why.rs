//! Why a job did or did not run, in words, from the ledger.

use super::jobs::{JobStatus, StoredJob, in_force, sentence};
use super::ledger::{StoredTick, ticks_of};
use super::runs::run;
use crate::id::RunId;
use crate::record::{GroupRow, Hold, RunStatus, Tick, TickFate};
use crate::run as life;
use crate::time::{MINUTE_MS, Time, format_duration_ms};
use crate::turn::{Demand, mark_in_words, namespace_name, queue_name, status_name};
use crate::waist::{StoreError, View};

/// An explanation.
#[derive(Clone, Debug, Default)]
pub struct Explanation {
    /// The answer in a sentence.
    pub answer: String,
    /// What supports it.
    pub details: Vec<String>,
    /// The rows of the ledger it rests on.
    pub ticks: Vec<StoredTick>,
    /// The next times.
    pub next: Vec<Time>,
}

/// Rows of the ledger looked at.
const ROWS_MAX: usize = 5_000;
/// Runs told about.
const RUNS_MAX: usize = 5;

/// The numbers of the first runs that a tick led to.
fn runs_of(tick: &Tick) -> impl Iterator<Item = u32> + use<> {
    (tick.run..).take((tick.runs.max(1) as usize).min(RUNS_MAX))
}

/// Explains what became of a job at `at`, or what it is doing now.
///
/// # Errors
/// When the store cannot be read.
pub fn why(
    view: &dyn View,
    job: &StoredJob,
    group: Option<&GroupRow>,
    at: Option<Time>,
    now: Time,
) -> Result<Explanation, StoreError> {
    let mut told = Explanation::default();
    let group = group.unwrap_or(&NO_SWITCHES);
    let schedule = job.schedule();
    match &schedule {
        Ok(schedule) => {
            told.details.push(format!("Its schedule: {}.", schedule.describe()));
            let paused = job.state.paused.is_some() || group.paused.is_some();
            if !paused && job.once().is_none() {
                told.next = schedule.times(now, 3);
            }
        }
        Err(_) => told.details.push(format!("{}.", job.schedule_text())),
    }
    let schedule = schedule.ok();
    let switches = switches(job, group, now);
    told.details.extend(switches.iter().map(|switch| format!("{}.", sentence(switch))));
    let stopped = switches.first().map(String::as_str);
    match at {
        None => explain_now(view, job, stopped, &mut told)?,
        Some(at) if job.once().is_some() => explain_once(view, job, stopped, at, &mut told)?,
        Some(at) => {
            let near = ticks_near(view, job, at)?;
            match near.first() {
                Some(row) => {
                    told.answer = row_in_words(job, row, at);
                    for n in runs_of(&row.tick) {
                        run_detail(view, job, n, &mut told)?;
                    }
                }
                None => told.answer = no_row(job, schedule.as_ref(), at, now),
            }
            told.ticks = near;
        }
    }
    Ok(told)
}

/// A group that is neither paused nor in maintenance.
const NO_SWITCHES: GroupRow = GroupRow { paused: None, maintenance: None };

/// What keeps the job from running now, in words, the strongest first.
fn switches(job: &StoredJob, group: &GroupRow, now: Time) -> Vec<String> {
    let group_name = &job.definition.group;
    [
        ("it is paused".to_owned(), &job.state.paused),
        (format!("its group '{group_name}' is paused"), &group.paused),
        ("it is in maintenance".to_owned(), &job.state.maintenance),
        (format!("its group '{group_name}' is in maintenance"), &group.maintenance),
    ]
    .into_iter()
    .filter_map(|(what, mark)| {
        let mark = mark.as_ref().filter(|mark| in_force(mark, now))?;
        Some(mark_in_words(&what, mark))
    })
    .collect()
}

/// Rows that cover `at` or lie within a minute of it, the best one first.
fn ticks_near(view: &dyn View, job: &StoredJob, at: Time) -> Result<Vec<StoredTick>, StoreError> {
    let rows = ticks_of(view, job.id, None, ROWS_MAX)?;
    let distance = |row: &StoredTick| {
        let until = Time(row.tick.until_ms.max(row.at.0));
        if at < row.at { row.at.since_ms(at) } else { at.since_ms(until) }
    };
    let mut near: Vec<StoredTick> =
        rows.into_iter().filter(|row| distance(row) < MINUTE_MS).collect();
    near.sort_by_key(|row| (distance(row), row.at));
    near.truncate(5);
    Ok(near)
}

fn row_in_words(job: &StoredJob, row: &StoredTick, at: Time) -> String {
    let tick = &row.tick;
    let first = RunId { job: job.id, n: tick.run };
    let run = match tick.runs {
        0 | 1 => first.to_string(),
        runs => format!("{runs} runs from {first}, one on each worker"),
    };
    let when = if row.at == at || tick.count > 1 { at } else { row.at };
    match tick.fate() {
        TickFate::Fired => format!("It ran: the tick of {} led to {run}, in time.", row.at),
        TickFate::Late => {
            format!("It ran late: the tick of {} led to {run}, {}.", row.at, tick.detail)
        }
        TickFate::Triggered => format!("Somebody triggered it at {}: {run}.", row.at),
        TickFate::Merged if tick.reason == "trigger" && row.at.0 > tick.into_ms => format!(
            "It did not wait for {}: a trigger brought it forward to {}, {run}.",
            row.at,
            Time(tick.into_ms)
        ),
        TickFate::Merged if tick.reason == "trigger" => format!(
            "It was held back when {} came, and run by a trigger at {}: {run}.",
            row.at,
            Time(tick.into_ms)
        ),
        TickFate::Merged => format!(
            "It did not run for {when} itself: {} missed tick(s) were merged into the run of {}, \
             because its misfire policy is 'once'.",
            tick.count.max(1),
            Time(tick.into_ms)
        ),
        TickFate::Skipped if tick.reason == "restored" => {
            format!("Nobody knows whether it ran at {when}: it was {}.", tick.detail)
        }
        TickFate::Skipped => {
            if matches!(tick.reason.as_str(), "paused" | "maintenance") && !tick.detail.is_empty() {
                return format!("It did not run at {when}: {}.", tick.detail);
            }
            let why = match tick.reason.as_str() {
                "overlap" => {
                    "another run was still open and its overlap policy did not allow a second"
                }
                "misfire" => "the time had passed while nothing could fire it",
                "paused" => "it was paused",
                "maintenance" => "it was in maintenance",
                "max_runs" => "its max_runs was reached",
                "replaced" => "its schedule was replaced before that was decided",
                "no_worker" => "it runs on all workers, and there was none",
                other => other,
            };
            let detail =
                if tick.detail.is_empty() { String::new() } else { format!(" ({})", tick.detail) };
            format!("It did not run at {when}: {why}{detail}.")
        }
    }
}

fn no_row(
    job: &StoredJob,
    schedule: Option<&crate::schedule::Schedule>,
    at: Time,
    now: Time,
) -> String {
    if at < job.created {
        return format!("It did not exist at {at}: it was created at {}.", job.created);
    }
    let Some(schedule) = schedule else {
        return "Its schedule cannot be read.".to_owned();
    };
    let before = at.minus_ms(MINUTE_MS);
    let near = schedule.next_after(before).filter(|tick| *tick <= at.plus_ms(MINUTE_MS));
    match near {
        None => match schedule.next_after(at) {
            Some(next) => format!("Nothing was due around {at}: the next time after it is {next}."),
            None => format!("Nothing was due around {at}, and nothing is after it."),
        },
        Some(tick) if tick > now => format!("Its time has not come yet: it is due at {tick}."),
        Some(tick) if tick < job.updated => format!(
            "Its present schedule would have been due at {tick}, but the job was changed at {}, \
             after that.",
            job.updated
        ),
        Some(tick) => format!(
            "It was due at {tick}, but the ledger no longer holds that time; it keeps a bounded \
             number of rows."
        ),
    }
}

fn explain_now(
    view: &dyn View,
    job: &StoredJob,
    stopped: Option<&str>,
    told: &mut Explanation,
) -> Result<(), StoreError> {
    told.answer = match (job.status(), stopped) {
        (JobStatus::Paused | JobStatus::Scheduled, Some(why)) => {
            format!("It does not run because {why}.")
        }
        (JobStatus::Running, Some(why)) => format!("It has an open run, and {why}."),
        (status, _) => standing(job, status),
    };
    for n in job.state.open.iter().take(RUNS_MAX) {
        run_detail(view, job, *n, told)?;
    }
    if job.state.open.is_empty()
        && let Some(last) = &job.state.last
    {
        run_detail(view, job, last.n, told)?;
    }
    told.ticks = ticks_of(view, job.id, None, 5)?;
    Ok(())
}

/// Where a job stands that nothing stops.
fn standing(job: &StoredJob, status: JobStatus) -> String {
    match status {
        JobStatus::Paused => "It does not run because it is paused.".to_owned(),
        JobStatus::Running => "It has an open run.".to_owned(),
        JobStatus::Scheduled => match job.state.next_ms {
            Some(next) => format!("It waits for its time: {}.", Time(next)),
            None => "It waits for its open run to end, from which its next time counts.".to_owned(),
        },
        JobStatus::Completed => "It has no further time, and its last run was fine.".to_owned(),
        JobStatus::Failed => "It has no further time, and its last run failed.".to_owned(),
        JobStatus::Canceled => "It has no further time, and its last run was canceled.".to_owned(),
    }
}

fn explain_once(
    view: &dyn View,
    job: &StoredJob,
    stopped: Option<&str>,
    at: Time,
    told: &mut Explanation,
) -> Result<(), StoreError> {
    told.ticks = ticks_near(view, job, at)?;
    if let Some(row) = told.ticks.first() {
        told.answer = row_in_words(job, row, at);
        for n in runs_of(&row.tick) {
            run_detail(view, job, n, told)?;
        }
        return Ok(());
    }
    let due = job.once().unwrap_or(at);
    let waits = matches!(job.status(), JobStatus::Scheduled | JobStatus::Paused);
    told.answer = match stopped.filter(|_| waits) {
        Some(why) => format!("It is due at {due}, but {why}."),
        None if waits && due > at => format!("It was not due at {at}: it is due at {due}."),
        None if waits => format!("It was due at {due} and is about to start."),
        None => format!("It was due once, at {due}."),
    };
    run_detail(view, job, job.state.runs, told)
}

fn run_detail(
    view: &dyn View,
    job: &StoredJob,
    n: u32,
    told: &mut Explanation,
) -> Result<(), StoreError> {
    let id = RunId { job: job.id, n };
    let Some(found) = (if n == 0 { None } else { run(view, id)? }) else {
        return Ok(());
    };
    let definition = &found.definition;
    let run = &found.run;
    let line = match run.status() {
        RunStatus::Queued if run.hold() == Hold::Overlap => {
            format!("{id} waits for another run of the job to end.")
        }
        RunStatus::Queued if run.hold() == Hold::Order => format!(
            "{id} waits for its ordering key '{}/{}': another run of the key is first.",
            namespace_name(definition),
            definition.ordering_key
        ),
        RunStatus::Queued if !run.pinned.is_empty() => {
            format!("{id} waits for the worker '{}', which it is meant for.", run.pinned)
        }
        RunStatus::Queued => format!(
            "{id} waits for a worker of queue '{}'{}{}.",
            queue_name(definition),
            match &definition.target {
                Some(crate::record::Target::Handler(handler)) =>
                    format!(" that handles the job type '{}'", handler.job_type),
                _ => String::new(),
            },
            match definition.resources {
                Some(_) => format!(", with room for {}", Demand::of(definition)),
                None => String::new(),
            }
        ),
        RunStatus::Retrying => format!(
            "{id} has failed {} time(s) and is tried again at {}.",
            run.failures,
            Time(run.retry_ms)
        ),
        status => {
            let last = run.events.last();
            let mut line = format!("{id} is {}", status_name(status));
            if let Some(start) = life::last_time(run, &[crate::record::EventKind::Started]) {
                line.push_str(&format!(", started at {start}"));
            }
            if let Some(end) = life::finished(run) {
                line.push_str(&format!(", ended at {end}"));
                if let Some(start) = life::last_time(run, &[crate::record::EventKind::Started]) {
                    line.push_str(&format!(" after {}", format_duration_ms(end.since_ms(start))));
                }
            }
            if let Some(detail) = last.map(|event| event.detail.as_str()).filter(|d| !d.is_empty())
            {
                line.push_str(&format!(": {detail}"));
            }
            line.push('.');
            line
        }
    };
    told.details.push(line);
    Ok(())
}
