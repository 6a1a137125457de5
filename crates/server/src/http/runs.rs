//! Runs.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use bellwether_api::{Page, Problem, Role, Run, RunAnswer, RunEvent};
use bellwether_core::id::RunId;
use bellwether_core::read::{self, RunCursor, RunFilter, StoredRun};
use bellwether_core::record::RunStatus;
use bellwether_core::time::Time;
use bellwether_core::turn::{Input, namespace_name};
use serde::Deserialize;
use utoipa::IntoParams;

use super::answer::{Answer, Refusal, blocking};
use super::extract::{Params, bad_cursor, lengths, limit};
use super::listed::Listed;
use super::{present_run, shown};
use crate::access::Caller;
use crate::node::Node;

fn no_run(name: &str) -> Refusal {
    let name: String = name.chars().take(80).collect();
    Problem::new(404, "run_not_found", format!("there is no run '{name}'")).into()
}

/// The run that a path means, if the caller may see it.
pub fn find(node: &Node, caller: &Caller, name: &str) -> Answer<StoredRun> {
    let id: RunId = name.parse().map_err(|_| no_run(name))?;
    shown::looked_for(node, |view| read::run(view, id))?
        .filter(|run| caller.sees(namespace_name(&run.definition)))
        .ok_or_else(|| no_run(name))
}

/// Which runs to list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// Only with this status; several with commas. `failed` and `lost` are the dead letters.
    #[param(max_length = 128, example = "failed,lost")]
    status: Option<String>,
    /// Only of this queue.
    #[param(max_length = 128)]
    queue: Option<String>,
    /// Only of this namespace.
    #[param(max_length = 128)]
    namespace: Option<String>,
    /// Only of this group.
    #[param(max_length = 128)]
    group: Option<String>,
    /// Where to go on.
    #[param(max_length = 256)]
    cursor: Option<String>,
    /// How many at most; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Lists runs over all jobs: the open ones, then the ended ones, newest first.
#[utoipa::path(get, path = "/v1/runs", tag = "runs", operation_id = "listRuns",
    params(ListParams),
    responses(
        (status = 200, description = "Some of them", body = Page<Run>,
            headers(("Bellwether-Staleness-Ms" = u64, description = "How many milliseconds the list may be behind, at most"))),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn list(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Params(params): Params<ListParams>,
) -> Answer<Listed<Page<Run>>> {
    caller.need(Role::Viewer)?;
    let limit = limit(params.limit)?;
    lengths([
        ("status", params.status.as_deref(), 128),
        ("queue", params.queue.as_deref(), 128),
        ("namespace", params.namespace.as_deref(), 128),
        ("group", params.group.as_deref(), 128),
        ("cursor", params.cursor.as_deref(), 256),
    ])?;
    let filter = RunFilter {
        statuses: statuses(params.status.as_deref())?,
        queue: params.queue,
        namespace: caller.narrowed(params.namespace)?,
        group: params.group,
    };
    let cursor = params.cursor.as_deref().map(read_cursor).transpose()?;
    blocking(move || {
        let shards = node.shard_numbers();
        let listing = node.listing(&shards)?;
        let found = read::runs(listing.view(), &shards, &filter, cursor, limit)?;
        let items = found.items.iter().map(present_run::run).collect();
        let next_cursor = found.cursor.map(write_cursor);
        Ok(Listed::of(Page { items, next_cursor }, &listing))
    })
    .await
}

/// Statuses as a list with commas.
pub fn statuses(list: Option<&str>) -> Answer<Vec<RunStatus>> {
    let each = list.into_iter().flat_map(|list| list.split(',')).map(|name| {
        present_run::run_status_of(name.trim()).ok_or_else(|| {
            let name: String = name.chars().take(40).collect();
            let detail = format!(
                "'{name}' is no status of a run; it is one of queued, claimed, running, retrying, \
                 succeeded, failed, canceled, lost, skipped"
            );
            Problem::new(400, "invalid_parameter", detail).at("status").into()
        })
    });
    each.collect()
}

fn write_cursor(cursor: RunCursor) -> String {
    match cursor {
        RunCursor::Open(run) => format!("open.{run}"),
        RunCursor::Ended(time, run) => format!("ended.{}.{run}", time.0),
    }
}

fn read_cursor(text: &str) -> Answer<RunCursor> {
    let mut parts = text.split('.');
    let cursor = match (parts.next(), parts.next(), parts.next()) {
        (Some("open"), Some(run), None) => run.parse().ok().map(RunCursor::Open),
        (Some("ended"), Some(time), Some(run)) => match (time.parse(), run.parse()) {
            (Ok(time), Ok(run)) => Some(RunCursor::Ended(Time(time), run)),
            _ => None,
        },
        _ => None,
    };
    cursor.ok_or_else(bad_cursor)
}

/// Returns a run with its attempts.
#[utoipa::path(get, path = "/v1/runs/{run}", tag = "runs", operation_id = "getRun",
    params(("run" = String, Path, description = "Id of the run")),
    responses(
        (status = 200, description = "The run", body = Run),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn get(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Answer<Json<Run>> {
    caller.need(Role::Viewer)?;
    Ok(Json(present_run::run(&find(&node, &caller, &name)?)))
}

/// What happened to a run, oldest first.
#[utoipa::path(get, path = "/v1/runs/{run}/events", tag = "runs", operation_id = "listRunEvents",
    params(("run" = String, Path, description = "Id of the run")),
    responses(
        (status = 200, description = "All events", body = Page<RunEvent>,
            headers(("Bellwether-Staleness-Ms" = u64, description = "How many milliseconds the list may be behind, at most"))),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn events(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Answer<Listed<Page<RunEvent>>> {
    caller.need(Role::Viewer)?;
    let found = find(&node, &caller, &name)?;
    let items = found.run.events.iter().map(present_run::event).collect();
    Ok(Listed::now(Page { items, next_cursor: None }))
}

/// Cancels a run. One that is under way is stopped with its whole process tree.
#[utoipa::path(post, path = "/v1/runs/{run}/cancel", tag = "runs", operation_id = "cancelRun",
    params(("run" = String, Path, description = "Id of the run")),
    responses(
        (status = 202, description = "It is canceled, or is being stopped", body = RunAnswer),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn cancel(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Answer<(StatusCode, Json<RunAnswer>)> {
    caller.need(Role::Operator)?;
    let run = find(&node, &caller, &name)?.id;
    node.ask(run.job, Input::Cancel { actor: caller.name.clone(), run }).await?;
    Ok((StatusCode::ACCEPTED, Json(RunAnswer::of(run))))
}

/// Gives a run that has ended badly another go, under the same idempotency key.
#[utoipa::path(post, path = "/v1/runs/{run}/retry", tag = "runs", operation_id = "retryRun",
    params(("run" = String, Path, description = "Id of the run")),
    responses(
        (status = 202, description = "It is queued again", body = RunAnswer),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn retry(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Answer<(StatusCode, Json<RunAnswer>)> {
    caller.need(Role::Operator)?;
    let run = find(&node, &caller, &name)?.id;
    node.ask(run.job, Input::Retry { actor: caller.name.clone(), run }).await?;
    Ok((StatusCode::ACCEPTED, Json(RunAnswer::of(run))))
}
