//! Why a job did or did not run, in words, from the ledger.

use super::jobs::{JobStatus, StoredJob};
use super::ledger::{StoredTick, ticks_of};
use super::runs::run;
use crate::id::RunId;
use crate::record::{GroupRow, Hold, RunStatus, TickFate};
use crate::run as life;
use crate::time::{MINUTE_MS, Time, format_duration_ms};
use crate::turn::{namespace_name, queue_name, status_name};
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
    let schedule = job.schedule().ok();
    if let Some(schedule) = &schedule {
        told.details.push(format!("Its schedule: {}.", schedule.describe()));
        if job.state.paused.is_none() && job.once().is_none() {
            told.next = schedule.times(now, 3);
        }
    }
    switches(job, group, &mut told);
    match at {
        None => explain_now(view, job, &mut told)?,
        Some(at) if job.once().is_some() => explain_once(view, job, at, &mut told)?,
        Some(at) => {
            let near = ticks_near(view, job, at)?;
            match near.first() {
                Some(row) => {
                    told.answer = row_in_words(job, row, at);
                    run_detail(view, job, row.tick.run, &mut told)?;
                }
                None => told.answer = no_row(job, schedule.as_ref(), at, now),
            }
            told.ticks = near;
        }
    }
    Ok(told)
}

fn switches(job: &StoredJob, group: Option<&GroupRow>, told: &mut Explanation) {
    let say = |what: &str, mark: &crate::record::Mark| {
        let note = if mark.note.is_empty() { String::new() } else { format!(" ({})", mark.note) };
        format!("{what} since {} by {}{note}.", Time(mark.at_ms), mark.by)
    };
    if let Some(mark) = &job.state.paused {
        told.details.push(say("It is paused", mark));
    }
    if let Some(mark) = &job.state.maintenance {
        told.details.push(say("It is in maintenance", mark));
    }
    if let Some(mark) = group.and_then(|group| group.paused.as_ref()) {
        told.details.push(say(&format!("Its group '{}' is paused", job.definition.group), mark));
    }
    if let Some(mark) = group.and_then(|group| group.maintenance.as_ref()) {
        let what = format!("Its group '{}' is in maintenance", job.definition.group);
        told.details.push(say(&what, mark));
    }
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
    let run = RunId { job: job.id, n: tick.run };
    let when = if row.at == at || tick.count > 1 { at } else { row.at };
    match tick.fate() {
        TickFate::Fired => format!("It ran: the tick of {} led to {run}, in time.", row.at),
        TickFate::Late => {
            format!("It ran late: the tick of {} led to {run}, {}.", row.at, tick.detail)
        }
        TickFate::Triggered => format!("Somebody triggered it at {}: {run}.", row.at),
        TickFate::Merged => format!(
            "It did not run for {when} itself: {} missed tick(s) were merged into the run of {}, \
             because its misfire policy is 'once'.",
            tick.count.max(1),
            Time(tick.into_ms)
        ),
        TickFate::Skipped => {
            let why = match tick.reason.as_str() {
                "overlap" => {
                    "another run was still open and its overlap policy did not allow a second"
                }
                "misfire" => "the time had passed while nothing could fire it",
                "paused" => "it was paused",
                "maintenance" => "it was in maintenance",
                "max_runs" => "its max_runs was reached",
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

fn explain_now(view: &dyn View, job: &StoredJob, told: &mut Explanation) -> Result<(), StoreError> {
    told.answer = match job.status() {
        JobStatus::Paused => "It does not run because it is paused.".to_owned(),
        JobStatus::Running => "It has an open run.".to_owned(),
        JobStatus::Scheduled => match job.state.next_ms {
            Some(next) => format!("It waits for its time: {}.", Time(next)),
            None => "It waits for its open run to end, from which its next time counts.".to_owned(),
        },
        JobStatus::Completed => "It has no further time, and its last run was fine.".to_owned(),
        JobStatus::Failed => "It has no further time, and its last run failed.".to_owned(),
        JobStatus::Canceled => "It has no further time, and its last run was canceled.".to_owned(),
    };
    for n in job.state.open.iter().take(5) {
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

fn explain_once(
    view: &dyn View,
    job: &StoredJob,
    at: Time,
    told: &mut Explanation,
) -> Result<(), StoreError> {
    let due = job.once().unwrap_or(at);
    told.answer = match job.status() {
        JobStatus::Scheduled if due > at => format!("It was not due at {at}: it is due at {due}."),
        JobStatus::Scheduled => format!("It was due at {due} and is about to start."),
        JobStatus::Paused => format!("It is due at {due}, but it is paused."),
        _ => format!("It was due once, at {due}."),
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
        RunStatus::Queued => format!(
            "{id} waits for a worker of queue '{}'{}.",
            queue_name(definition),
            match &definition.target {
                Some(crate::record::Target::Handler(handler)) =>
                    format!(" that handles the job type '{}'", handler.job_type),
                _ => String::new(),
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
