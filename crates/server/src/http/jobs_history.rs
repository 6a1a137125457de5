//! What became of a job, and what will: next times, runs, ledger, and why.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use bellwether_api::{Instant, NextTimes, Page, Problem, Role, Run, Tick, Why};
use bellwether_core::id::RunId;
use bellwether_core::read::{self, JobStatus, StoredJob};
use bellwether_core::record::{Hold, RunStatus};
use bellwether_core::time::Time;
use bellwether_core::turn::{Lane, namespace_name};
use bellwether_core::waist::View;
use serde::Deserialize;
use utoipa::IntoParams;

use super::answer::{Answer, blocking};
use super::extract::{Params, bad_cursor, lengths, limit};
use super::listed::Listed;
use super::{jobs, present, present_run};
use crate::access::Caller;
use crate::clock;
use crate::node::Node;

/// How many next times.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct NextParams {
    /// The namespace of the key.
    #[param(max_length = 128)]
    namespace: Option<String>,
    /// How many; 3 if absent.
    #[param(minimum = 1, maximum = 1000)]
    count: Option<u32>,
}

/// The next planned times of a job.
#[utoipa::path(get, path = "/v1/jobs/{job}/next", tag = "jobs", operation_id = "nextTimes",
    params(("job" = String, Path, description = "Id or key"), NextParams),
    responses(
        (status = 200, description = "The times", body = NextTimes),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn next(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(name): Path<String>,
    Params(params): Params<NextParams>,
) -> Answer<Json<NextTimes>> {
    caller.need(Role::Viewer)?;
    let job = jobs::find(&node, &caller, &name, params.namespace.as_deref())?;
    let mut count = params.count.unwrap_or(3);
    if count == 0 || count > 1_000 {
        let detail = "count must be from 1 to 1000";
        return Err(Problem::new(400, "invalid_parameter", detail).at("count").into());
    }
    let Ok(schedule) = job.schedule() else {
        // A stored schedule that this version cannot read: the text says why.
        let times = job.once().filter(|_| !job.state.ended).map(Instant);
        let description = job.schedule_text();
        return Ok(Json(NextTimes { description, times: times.into_iter().collect() }));
    };
    if let Some(max) = schedule.spec().max_runs {
        count = count.min(max.saturating_sub(job.state.scheduled_runs));
    }
    let planned = job.state.next_ms.map(Time).filter(|_| !job.state.ended);
    let times = match (planned, job.once()) {
        (None, _) => Vec::new(),
        (Some(at), Some(_)) => vec![at],
        (Some(_), None) if count == 0 => Vec::new(),
        (Some(first), None) if job.status() == JobStatus::Paused && first < clock::now() => {
            schedule.times(clock::now(), count as usize)
        }
        (Some(first), None) => {
            let mut times = vec![first];
            times.extend(schedule.times(first, count as usize - 1));
            times
        }
    };
    Ok(Json(NextTimes {
        description: schedule.describe(),
        times: times.into_iter().map(Instant).collect(),
    }))
}

/// Which part of a list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageParams {
    /// The namespace of the key.
    #[param(max_length = 128)]
    namespace: Option<String>,
    /// Where to go on.
    #[param(max_length = 256)]
    cursor: Option<String>,
    /// How many at most; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// The runs of a job, newest first.
#[utoipa::path(get, path = "/v1/jobs/{job}/runs", tag = "jobs", operation_id = "listRunsOfJob",
    params(("job" = String, Path, description = "Id or key"), PageParams),
    responses(
        (status = 200, description = "Some of them", body = Page<Run>,
            headers(("Bellwether-Staleness-Ms" = u64, description = "How many milliseconds the list may be behind, at most"))),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn runs(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(name): Path<String>,
    Params(params): Params<PageParams>,
) -> Answer<Listed<Page<Run>>> {
    caller.need(Role::Viewer)?;
    let limit = limit(params.limit)?;
    lengths([("cursor", params.cursor.as_deref(), 256)])?;
    let before =
        params.cursor.map(|text| text.parse::<u32>().map_err(|_| bad_cursor())).transpose()?;
    blocking(move || {
        let job = jobs::find(&node, &caller, &name, params.namespace.as_deref())?;
        let found = read::runs_of(&*node.view(), job.id, before, limit)?;
        let full = found.len() == limit;
        let next_cursor =
            found.last().filter(|last| full && last.id.n > 1).map(|last| last.id.n.to_string());
        let items = found.iter().map(present_run::run).collect();
        Ok(Listed::now(Page { items, next_cursor }))
    })
    .await
}

/// The ledger of a job: what became of each of its ticks, newest first.
#[utoipa::path(get, path = "/v1/jobs/{job}/ticks", tag = "jobs", operation_id = "listTicks",
    params(("job" = String, Path, description = "Id or key"), PageParams),
    responses(
        (status = 200, description = "Some of them", body = Page<Tick>,
            headers(("Bellwether-Staleness-Ms" = u64, description = "How many milliseconds the list may be behind, at most"))),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn ticks(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(name): Path<String>,
    Params(params): Params<PageParams>,
) -> Answer<Listed<Page<Tick>>> {
    caller.need(Role::Viewer)?;
    let limit = limit(params.limit)?;
    lengths([("cursor", params.cursor.as_deref(), 256)])?;
    let before = params.cursor.as_deref().map(tick_cursor).transpose()?;
    blocking(move || {
        let job = jobs::find(&node, &caller, &name, params.namespace.as_deref())?;
        let found = read::ticks_of(&*node.view(), job.id, before, limit)?;
        let next_cursor = found
            .last()
            .filter(|_| found.len() == limit)
            .map(|last| format!("{}.{}", last.cursor.0.0, last.cursor.1));
        let items = found.iter().map(|row| present::tick(job.id, row)).collect();
        Ok(Listed::now(Page { items, next_cursor }))
    })
    .await
}

fn tick_cursor(text: &str) -> Answer<(Time, u32)> {
    let (time, n) = text.split_once('.').ok_or_else(bad_cursor)?;
    let time = time.parse().map_err(|_| bad_cursor())?;
    Ok((Time(time), n.parse().map_err(|_| bad_cursor())?))
}

/// About which time.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WhyParams {
    /// The namespace of the key.
    #[param(max_length = 128)]
    namespace: Option<String>,
    /// The time in question; now if absent.
    #[param(value_type = Option<Instant>)]
    at: Option<String>,
}

/// Open runs that are looked at.
const OPEN_MAX: usize = 5;

/// What keeps the open runs of a job from workers, as far as no worker that is there could ever
/// take them.
fn obstacles(node: &Node, view: &dyn View, job: &StoredJob) -> Answer<Vec<String>> {
    let mut found = Vec::new();
    for n in job.state.open.iter().take(OPEN_MAX) {
        let Some(open) = read::run(view, RunId { job: job.id, n: *n })? else { continue };
        if open.run.status() == RunStatus::Queued && open.run.hold() == Hold::None {
            let lane = Lane::of(&open.definition, &open.run.pinned);
            let obstacle = node.dispatch.obstacle(&lane);
            found.extend(obstacle.filter(|obstacle| !found.contains(obstacle)));
        }
    }
    Ok(found)
}

/// Says in words why a job did or did not run at a time, from the ledger.
#[utoipa::path(get, path = "/v1/jobs/{job}/why", tag = "jobs", operation_id = "why",
    params(("job" = String, Path, description = "Id or key"), WhyParams),
    responses(
        (status = 200, description = "Why", body = Why),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn why(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(name): Path<String>,
    Params(params): Params<WhyParams>,
) -> Answer<Json<Why>> {
    caller.need(Role::Viewer)?;
    let at = params
        .at
        .map(|text| {
            Time::parse(&text).map_err(|e| Problem::new(400, "invalid_parameter", e).at("at"))
        })
        .transpose()?;
    blocking(move || {
        let job = jobs::find(&node, &caller, &name, params.namespace.as_deref())?;
        let view = node.view();
        let group = &job.definition.group;
        let group = if group.is_empty() {
            None
        } else {
            read::group(&*view, job.id.shard(), namespace_name(&job.definition), group)?
        };
        let mut told = read::why(&*view, &job, group.as_ref(), at, clock::now())?;
        if at.is_none() {
            told.details.extend(obstacles(&node, &*view, &job)?);
        }
        Ok(Json(Why {
            answer: told.answer,
            details: told.details,
            ticks: told.ticks.iter().map(|row| present::tick(job.id, row)).collect(),
            next: told.next.into_iter().map(Instant).collect(),
        }))
    })
    .await
}
