//! What can be done with a job: pause, resume, trigger, maintenance.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use bellwether_api::{Job, MaintenanceRequest, PauseRequest, Problem, Role, RunAnswer};
use bellwether_core::id::{JobId, RunId};
use bellwether_core::time::Time;
use bellwether_core::turn::{Input, Reply};

use super::answer::Answer;
use super::extract::{OptionalBody, Params};
use super::jobs::{self, InNamespace};
use super::shown;
use crate::access::Caller;
use crate::clock;
use crate::node::Node;

/// Longest note.
const NOTE_MAX: usize = 1_024;

/// Checks the note that goes with a switch.
pub fn note(text: Option<String>) -> Answer<String> {
    let text = text.unwrap_or_default();
    if text.chars().count() > NOTE_MAX {
        let detail = format!("a note has at most {NOTE_MAX} characters");
        return Err(Problem::new(422, "too_long", detail).at("note").into());
    }
    Ok(text)
}

/// When maintenance ends by itself.
pub fn until(request: &MaintenanceRequest) -> Answer<Option<Time>> {
    let now = clock::now();
    match (request.until, request.lasting) {
        (Some(_), Some(_)) => {
            let detail = "give 'until' or 'for', not both";
            Err(Problem::new(422, "conflicting_fields", detail).at("for").into())
        }
        (Some(until), None) if until.0 <= now => {
            let detail = "'until' has passed already";
            Err(Problem::new(422, "in_the_past", detail).at("until").into())
        }
        (Some(until), None) => Ok(Some(until.0)),
        (None, Some(span)) if span.0 == 0 => {
            let detail = "'for' is no time at all; leave it out for maintenance without an end";
            Err(Problem::new(422, "out_of_range", detail).at("for").into())
        }
        (None, Some(span)) => Ok(Some(now.plus_ms(span.0))),
        (None, None) => Ok(None),
    }
}

async fn change(
    node: &Arc<Node>,
    caller: &Caller,
    name: &str,
    params: &InNamespace,
    input: impl FnOnce(JobId) -> Input,
) -> Answer<Json<Job>> {
    caller.need(Role::Operator)?;
    let job = jobs::find(node, caller, name, params.namespace.as_deref())?;
    node.ask(job.id, input(job.id)).await?;
    Ok(Json(shown::changed(node, job.id, |_| true, Vec::new()).await?))
}

/// Pauses a job: nothing is launched until it is resumed. Ticks that pass are not missed.
#[utoipa::path(post, path = "/v1/jobs/{job}/pause", tag = "jobs", operation_id = "pauseJob",
    params(("job" = String, Path, description = "Id or key"), InNamespace),
    request_body(content = Option<PauseRequest>),
    responses(
        (status = 200, description = "The job", body = Job),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn pause(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(name): Path<String>,
    Params(params): Params<InNamespace>,
    OptionalBody(request): OptionalBody<PauseRequest>,
) -> Answer<Json<Job>> {
    let (actor, note) = (caller.name.clone(), note(request.note)?);
    change(&node, &caller, &name, &params, |job| Input::Pause { actor, job, note }).await
}

/// Ends a job's pause and its maintenance.
#[utoipa::path(post, path = "/v1/jobs/{job}/resume", tag = "jobs", operation_id = "resumeJob",
    params(("job" = String, Path, description = "Id or key"), InNamespace),
    responses(
        (status = 200, description = "The job", body = Job),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn resume(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(name): Path<String>,
    Params(params): Params<InNamespace>,
) -> Answer<Json<Job>> {
    let actor = caller.name.clone();
    change(&node, &caller, &name, &params, |job| Input::Resume { actor, job }).await
}

/// Puts a job into maintenance: its ticks are skipped, and shown as such.
#[utoipa::path(post, path = "/v1/jobs/{job}/maintenance", tag = "jobs", operation_id = "maintainJob",
    params(("job" = String, Path, description = "Id or key"), InNamespace),
    request_body(content = Option<MaintenanceRequest>),
    responses(
        (status = 200, description = "The job", body = Job),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn maintenance(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(name): Path<String>,
    Params(params): Params<InNamespace>,
    OptionalBody(request): OptionalBody<MaintenanceRequest>,
) -> Answer<Json<Job>> {
    let (actor, until, note) = (caller.name.clone(), until(&request)?, note(request.note)?);
    change(&node, &caller, &name, &params, |job| Input::Maintenance { actor, job, until, note })
        .await
}

/// Runs a job now, also one that is paused.
///
/// A job for all workers gets one run for each of them, and is refused if there is none.
/// A one-off job that waits is run now instead of later, and its ledger says so of its own time.
/// One that has run runs once more.
#[utoipa::path(post, path = "/v1/jobs/{job}/trigger", tag = "jobs", operation_id = "triggerJob",
    params(("job" = String, Path, description = "Id or key"), InNamespace),
    responses(
        (status = 202, description = "The run, or the runs", body = RunAnswer),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn trigger(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(name): Path<String>,
    Params(params): Params<InNamespace>,
) -> Answer<(StatusCode, Json<RunAnswer>)> {
    caller.need(Role::Operator)?;
    let job = jobs::find(&node, &caller, &name, params.namespace.as_deref())?;
    let input = Input::Trigger { actor: caller.name.clone(), job: job.id };
    match node.ask(job.id, input).await? {
        Reply::Run(run) => Ok((StatusCode::ACCEPTED, Json(RunAnswer::of(run)))),
        Reply::Runs(first, count) => {
            let run_ids = (first.n..).take(count as usize);
            let run_ids = run_ids.map(|n| RunId { n, ..first }.to_string()).collect();
            let answer = RunAnswer { run_ids, ..RunAnswer::of(first) };
            Ok((StatusCode::ACCEPTED, Json(answer)))
        }
        _ => Err(Problem::new(500, "bug", "triggering gave no run").into()),
    }
}
