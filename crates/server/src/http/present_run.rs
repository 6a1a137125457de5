//! Runs and their events as JSON.

use std::collections::BTreeMap;

use bellwether_api as api;
use bellwether_api::Instant;
use bellwether_core::read::StoredRun;
use bellwether_core::record::{AttemptResult, Cause, Event, EventKind, Hold, Run, RunStatus};
use bellwether_core::run as life;
use bellwether_core::time::Time;
use bellwether_core::turn::{Notice, namespace_name, queue_name};

use super::present_lease::raw_json;
use crate::node::News;

/// A run.
#[must_use]
pub fn run(stored: &StoredRun) -> api::Run {
    let run = &stored.run;
    let definition = &stored.definition;
    let attempts = attempts(run);
    let last = attempts.last();
    let ended = life::is_ended(run.status());
    let ending = run.events.last().filter(|_| ended);
    api::Run {
        id: stored.id.to_string(),
        job_id: stored.id.job.to_string(),
        key: text(&definition.key),
        namespace: namespace_name(definition).to_owned(),
        queue: queue_name(definition).to_owned(),
        number: run.n,
        status: run_status(run.status()),
        pinned_to: text(&run.pinned),
        held_by: match run.hold() {
            Hold::None => None,
            Hold::Overlap => Some("overlap".to_owned()),
            Hold::Order => Some("order".to_owned()),
        },
        cause: match run.cause() {
            Cause::Schedule => "schedule",
            Cause::Misfire => "misfire",
            Cause::Trigger => "trigger",
        }
        .to_owned(),
        scheduled_at: Instant(Time(run.scheduled_ms)),
        started_at: last.and_then(|attempt| attempt.started_at),
        finished_at: life::finished(run).map(Instant),
        duration_ms: last.and_then(|attempt| attempt.duration_ms),
        reason: ending.and_then(|event| text(&event.reason)),
        detail: ending.and_then(|event| text(&event.detail)),
        exit_code: last.and_then(|attempt| attempt.exit_code),
        idempotency_key: stored.id.to_string(),
        next_attempt_at: (run.retry_ms != 0).then_some(Instant(Time(run.retry_ms))),
        attempts,
    }
}

fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// A run's attempts, from its events.
fn attempts(run: &Run) -> Vec<api::Attempt> {
    let mut attempts: Vec<api::Attempt> = Vec::new();
    for event in &run.events {
        let at = Instant(Time(event.at_ms));
        let outcome = match event.kind() {
            EventKind::Claimed => {
                attempts.push(claimed(event, at));
                continue;
            }
            EventKind::Started => {
                if let Some(attempt) = attempts.last_mut() {
                    attempt.started_at = Some(at);
                }
                continue;
            }
            EventKind::Succeeded => "succeeded",
            EventKind::Retrying | EventKind::Failed => "failed",
            EventKind::Canceled => "canceled",
            EventKind::Lost => "lost",
            EventKind::Requeued if event.reason == life::HANDED_BACK => "handed_back",
            EventKind::Requeued => "lost",
            _ => continue,
        };
        if let Some(attempt) = attempts.last_mut().filter(|attempt| attempt.outcome.is_none()) {
            end(attempt, event, at, outcome);
        }
    }
    for result in &run.results {
        if let Some(attempt) = attempts.iter_mut().find(|a| a.number == result.attempt) {
            add_result(attempt, result);
        }
    }
    attempts
}

fn claimed(event: &Event, at: Instant) -> api::Attempt {
    api::Attempt {
        number: event.attempt,
        outcome: None,
        worker: event.worker.clone(),
        fencing_token: event.token,
        claimed_at: at,
        started_at: None,
        finished_at: None,
        duration_ms: None,
        exit_code: None,
        signal: None,
        reason: None,
        detail: None,
        response: None,
        output_bytes: None,
        output_dropped_bytes: None,
        result: None,
        cpu_ms: None,
        memory_max_bytes: None,
    }
}

fn end(attempt: &mut api::Attempt, event: &Event, at: Instant, outcome: &str) {
    attempt.outcome = Some(outcome.to_owned());
    attempt.finished_at = Some(at);
    attempt.duration_ms = attempt.started_at.map(|started| at.0.since_ms(started.0));
    attempt.exit_code = event.exit_code;
    attempt.signal = event.signal;
    attempt.reason = text(&event.reason);
    attempt.detail = text(&event.detail);
}

fn add_result(attempt: &mut api::Attempt, result: &AttemptResult) {
    let number = |n: u64| (n > 0).then_some(n);
    if result.http_status > 0 {
        let mut headers = BTreeMap::<String, String>::new();
        for header in &result.headers {
            headers
                .entry(header.name.clone())
                .and_modify(|all| {
                    all.push_str(", ");
                    all.push_str(&header.value);
                })
                .or_insert_with(|| header.value.clone());
        }
        attempt.response = Some(api::Response {
            status: result.http_status as u16,
            headers,
            body: String::from_utf8_lossy(&result.body).into_owned(),
            body_dropped_bytes: number(result.body_dropped),
        });
    }
    attempt.output_bytes = number(result.output_bytes);
    attempt.output_dropped_bytes = number(result.output_dropped);
    attempt.result = raw_json(&result.result);
    attempt.cpu_ms = number(result.cpu_ms);
    attempt.memory_max_bytes = number(result.memory_max_bytes);
}

/// A run's status.
#[must_use]
pub fn run_status(status: RunStatus) -> api::RunStatus {
    match status {
        RunStatus::Scheduled => api::RunStatus::Scheduled,
        RunStatus::Queued => api::RunStatus::Queued,
        RunStatus::Claimed => api::RunStatus::Claimed,
        RunStatus::Running => api::RunStatus::Running,
        RunStatus::Retrying => api::RunStatus::Retrying,
        RunStatus::Succeeded => api::RunStatus::Succeeded,
        RunStatus::Failed => api::RunStatus::Failed,
        RunStatus::Canceled => api::RunStatus::Canceled,
        RunStatus::Lost => api::RunStatus::Lost,
        RunStatus::Skipped => api::RunStatus::Skipped,
    }
}

/// Run statuses by name.
#[must_use]
pub fn run_status_of(name: &str) -> Option<RunStatus> {
    Some(match name {
        "queued" => RunStatus::Queued,
        "claimed" => RunStatus::Claimed,
        "running" => RunStatus::Running,
        "retrying" => RunStatus::Retrying,
        "succeeded" => RunStatus::Succeeded,
        "failed" => RunStatus::Failed,
        "canceled" => RunStatus::Canceled,
        "lost" => RunStatus::Lost,
        "skipped" => RunStatus::Skipped,
        _ => return None,
    })
}

/// The name of a kind of event.
#[must_use]
pub fn event_name(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Unknown => "unknown",
        EventKind::Queued => "queued",
        EventKind::Claimed => "claimed",
        EventKind::Started => "started",
        EventKind::Succeeded => "succeeded",
        EventKind::Retrying => "retrying",
        EventKind::Failed => "failed",
        EventKind::Canceled => "canceled",
        EventKind::Lost => "lost",
        EventKind::Requeued => "requeued",
        EventKind::Skipped => "skipped",
        EventKind::CancelRequested => "cancel_requested",
        EventKind::RetryRequested => "retry_requested",
    }
}

/// An event of a run.
#[must_use]
pub fn event(event: &Event) -> api::RunEvent {
    api::RunEvent {
        at: Instant(Time(event.at_ms)),
        event: event_name(event.kind()).to_owned(),
        attempt: (event.attempt > 0).then_some(event.attempt),
        worker: text(&event.worker),
        fencing_token: (event.token > 0).then_some(event.token),
        exit_code: event.exit_code,
        signal: event.signal,
        response_status: (event.http_status > 0).then_some(event.http_status as u16),
        reason: text(&event.reason),
        detail: text(&event.detail),
        next_attempt_at: (event.next_ms != 0).then_some(Instant(Time(event.next_ms))),
    }
}

/// Something that has just happened.
///
/// # Errors
/// How many were missed, if that is what it says.
pub fn news(news: &News) -> Result<api::LiveEvent, u64> {
    Ok(match news {
        News::Missed(count) => return Err(*count),
        News::Run(notice) => of_run(notice),
        News::Held(held) => api::LiveEvent {
            at: Instant(held.at),
            event: "held".to_owned(),
            run_id: None,
            job_id: held.job.to_string(),
            key: text(&held.key),
            namespace: held.namespace.clone(),
            queue: held.queue.clone(),
            status: None,
            attempt: None,
            reason: text(&held.reason),
            detail: text(&held.why),
        },
    })
}

fn of_run(notice: &Notice) -> api::LiveEvent {
    api::LiveEvent {
        at: Instant(notice.at),
        event: event_name(notice.kind).to_owned(),
        run_id: Some(notice.run.to_string()),
        job_id: notice.run.job.to_string(),
        key: text(&notice.key),
        namespace: notice.namespace.clone(),
        queue: notice.queue.clone(),
        status: Some(run_status(notice.status)),
        attempt: (notice.attempt > 0).then_some(notice.attempt),
        reason: text(&notice.reason),
        detail: None,
    }
}
