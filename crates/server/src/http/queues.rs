//! Work by plain HTTP: any language is a worker with three requests.
//!
//! `lease` waits for work and hands it out, `heartbeat` keeps it, `complete` says how it ended. The
//! rules are those of workers that dial in: the same names, leases and fencing tokens. A worker is
//! known from its first `lease`; it gets as much as it asks for and no more. One whose token is good
//! for one namespace gets and keeps runs of that namespace alone.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use bellwether_api::{
    CompleteAnswer, CompleteRequest, CompleteResult, HeartbeatAnswer, HeartbeatRequest,
    LeaseAnswer, LeaseRequest, LeasedOutput, Problem, Role, Span,
};
use bellwether_core::id::RunId;
use bellwether_core::read;
use bellwether_core::run as life;
use bellwether_core::turn::{Input, Reply, Report};
use futures::future::join_all;

use super::BATCH_BODY_MAX;
use super::answer::Answer;
use super::extract::JsonBody;
use super::present_lease;
use super::runs;
use super::seats::out_of_reach;
use crate::access::Caller;
use crate::node::Node;
use crate::shard::Failure;
use crate::work::{NotLetIn, PIECES_MAX, Piece, Polling, check_worker_name};

/// The longest a request waits for work.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// How long it waits if it does not say.
const WAIT: Duration = Duration::from_secs(20);
/// The most runs that one request leases.
const LEASED_MAX: u32 = 1_000;
/// The most runs that one request is about.
const RUNS_MAX: usize = 10_000;

/// Whoever runs work sees the secrets of the jobs, so it takes more than a look; and whoever is
/// bound to a namespace does not speak for the workers of others.
fn may_speak(node: &Node, caller: &Caller, worker: &str) -> Answer<()> {
    caller.need(Role::Operator)?;
    named(worker)?;
    if node.remotes.may_speak_for(worker, caller.namespace.as_deref()) {
        return Ok(());
    }
    let detail = format!("the worker '{worker}' is not one of the token's namespace");
    Err(Problem::new(403, "other_namespace", detail).at("worker").into())
}

fn refused(refusal: NotLetIn) -> Problem {
    match refusal {
        NotLetIn::Invalid(detail) => Problem::new(422, "invalid_worker", detail).at("worker"),
        NotLetIn::NameTaken(name) => {
            let detail = format!("another worker is called '{name}'; choose another name");
            Problem::new(409, "worker_exists", detail).at("worker")
        }
    }
}

fn span(duration: Duration) -> Span {
    Span(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// Waits for work in a queue and leases it. The answer may be empty: ask again.
#[utoipa::path(post, path = "/v1/queues/{queue}/lease", tag = "workers", operation_id = "leaseRuns",
    params(("queue" = String, Path, description = "The queue")),
    request_body = LeaseRequest,
    responses(
        (status = 200, description = "What is to be run", body = LeaseAnswer),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn lease(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(queue): Path<String>,
    JsonBody(request): JsonBody<LeaseRequest>,
) -> Answer<Json<LeaseAnswer>> {
    caller.need(Role::Operator)?;
    let max = request.max.unwrap_or(1);
    if max == 0 || max > LEASED_MAX {
        let detail = format!("max must be from 1 to {LEASED_MAX}");
        return Err(Problem::new(422, "out_of_range", detail).at("max").into());
    }
    if request.job_types.is_empty() && !request.commands {
        let detail = "say what the worker can run: job_types, commands, or both";
        return Err(Problem::new(422, "invalid_worker", detail).at("job_types").into());
    }
    if queue.is_empty() || queue.len() > 128 || request.job_types.len() > 1_024 {
        let detail = "a queue has 1 to 128 characters, and a worker at most 1024 job types";
        return Err(Problem::new(422, "invalid_worker", detail).at("job_types").into());
    }
    let wait = request.wait.map_or(WAIT, |span| Duration::from_millis(span.0));
    if wait > WAIT_MAX {
        let detail = "wait must be at most 60s";
        return Err(Problem::new(422, "out_of_range", detail).at("wait").into());
    }
    let polling = Polling {
        worker: request.worker,
        namespace: caller.namespace,
        queue,
        commands: request.commands,
        job_types: request.job_types.into_iter().collect(),
        labels: request.labels,
        max: max as usize,
        wait,
    };
    let worker = polling.worker.clone();
    let runs = node.remotes.poll(polling).await.map_err(refused)?;
    if !node.remotes.in_touch_soon(&worker).await {
        node.remotes.withdraw(&worker, &runs);
        return Err(out_of_reach());
    }
    let settings = node.remotes.settings();
    Ok(Json(LeaseAnswer {
        runs: runs.iter().map(present_lease::run).collect(),
        stop: node.remotes.to_stop(&worker).iter().map(ToString::to_string).collect(),
        draining: node.remotes.is_draining(&worker),
        lease: span(settings.lease),
        heartbeat: span(settings.heartbeat),
        sole: node.remotes.is_sole(),
    }))
}

/// Keeps what a worker holds, and stores what that has printed. The answer names what is its own no
/// more, and what it is to stop.
#[utoipa::path(post, path = "/v1/queues/{queue}/heartbeat", tag = "workers", operation_id = "heartbeat",
    params(("queue" = String, Path, description = "The queue")),
    request_body = HeartbeatRequest,
    responses(
        (status = 200, description = "It is kept", body = HeartbeatAnswer),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn heartbeat(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(_queue): Path<String>,
    JsonBody(request): JsonBody<HeartbeatRequest, BATCH_BODY_MAX>,
) -> Answer<Json<HeartbeatAnswer>> {
    may_speak(&node, &caller, &request.worker)?;
    enough(request.runs.len(), "runs")?;
    let (mut at, mut pieces) = (Vec::new(), Vec::new());
    for held in request.runs {
        short("runs.run_id", &held.run_id, 64)?;
        let token = token("runs.fencing_token", held.fencing_token)?;
        if let Some(LeasedOutput { sequence, text }) = &held.output {
            small("runs.output.text", text, present_lease::PIECE_MAX)?;
            if *sequence > PIECES_MAX {
                let detail = format!("it is at most {PIECES_MAX}");
                let problem = Problem::new(422, "out_of_range", detail);
                return Err(problem.at("runs.output.sequence").into());
            }
        }
        let Ok(run) = held.run_id.parse::<RunId>() else { continue };
        at.push((run, token));
        if let Some(LeasedOutput { sequence, text }) = held.output {
            pieces.push(Piece { run, token, sequence, text });
        }
    }
    if !node.remotes.take_up_named(&request.worker, &at).await {
        return Err(out_of_reach());
    }
    // A worker that nobody knows holds nothing.
    let (lost, stop) = node
        .remotes
        .beat(&request.worker, &at)
        .unwrap_or_else(|| (at.iter().map(|(run, _)| *run).collect(), Vec::new()));
    let full = print(&node, &request.worker, pieces).await?;
    // A leader that does not know that the worker is here gives it up.
    if !node.remotes.in_touch_soon(&request.worker).await {
        return Err(out_of_reach());
    }
    let names = |runs: Vec<RunId>| runs.iter().map(ToString::to_string).collect();
    let lease = span(node.remotes.settings().lease);
    let draining = node.remotes.is_draining(&request.worker);
    let (lost, stop, full) = (names(lost), names(stop), names(full));
    let sole = node.remotes.is_sole();
    Ok(Json(HeartbeatAnswer { lost, stop, draining, full, lease, sole }))
}

/// Stores output; of which runs no more is taken.
async fn print(node: &Node, worker: &str, pieces: Vec<Piece>) -> Answer<Vec<RunId>> {
    match node.remotes.print(worker, pieces).await {
        Ok(full) => Ok(full),
        Err(None) => Err(Failure::Stopped.into()),
        Err(Some(Piece { run, sequence, .. })) => {
            let detail = format!(
                "piece {sequence} of the output of {run} came before an earlier one; \
                 count them from 0, and send each until it is answered"
            );
            Err(Problem::new(422, "output_gap", detail).at("runs.output.sequence").into())
        }
    }
}

/// Stores how runs ended. Whether each was still the worker's is in the answer; one whose end had
/// been stored before is `accepted` and `repeated`, so this can be sent again.
#[utoipa::path(post, path = "/v1/queues/{queue}/complete", tag = "workers", operation_id = "completeRuns",
    params(("queue" = String, Path, description = "The queue")),
    request_body = CompleteRequest,
    responses(
        (status = 200, description = "It is stored", body = CompleteAnswer),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn complete(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(_queue): Path<String>,
    JsonBody(request): JsonBody<CompleteRequest, BATCH_BODY_MAX>,
) -> Answer<Json<CompleteAnswer>> {
    may_speak(&node, &caller, &request.worker)?;
    enough(request.results.len(), "results")?;
    let mut results = Vec::new();
    let mut reports = Vec::new();
    for (at, ended) in request.results.into_iter().enumerate() {
        short("results.run_id", &ended.run_id, 64)?;
        let _ = token("results.fencing_token", ended.fencing_token)?;
        short("results.reason", &ended.reason, 64)?;
        short("results.detail", &ended.detail, 1_000)?;
        present_lease::check_bytes(ended.output_bytes)?;
        let run_id = ended.run_id.clone();
        results.push(CompleteResult { run_id, accepted: false, repeated: false });
        let report = present_lease::report(ended)?;
        if let Some(report) = report
            && is_within_reach(&node, &caller, report.run).await?
        {
            reports.push((at, report));
        }
    }
    let asked = reports.into_iter().map(|(at, report)| {
        let node = node.clone();
        let asked = Input::Report(report.clone());
        async move { (at, node.ask(report.run.job, asked).await, report) }
    });
    let replies = join_all(asked).await;
    // Only now, and only those that have been decided: until then the worker counts as holding them.
    // What this node did not know to be with it would be given back to the queue, and start again.
    let is_decided = |reply: &_| matches!(reply, Ok(_) | Err(Failure::Rejected(_)));
    let decided = replies.iter().filter(|(_, reply, _)| is_decided(reply));
    let decided: Vec<_> = decided.map(|(_, _, report)| report.clone()).collect();
    node.remotes.reported(&request.worker, &decided);
    for (at, reply, Report { run, token, .. }) in replies {
        match reply {
            Ok(Reply::Stale) => {
                let known = read::run(&*node.view_of(run.job.shard()).await?, run)?;
                let repeated = known.is_some_and(|known| life::was_reported(&known.run, token));
                results[at].accepted = repeated;
                results[at].repeated = repeated;
            }
            Ok(_) => results[at].accepted = true,
            Err(Failure::Rejected(_)) => {}
            Err(failure) => return Err(failure.into()),
        }
    }
    Ok(Json(CompleteAnswer { results }))
}

/// Whether a caller may say anything about a run.
async fn is_within_reach(node: &Node, caller: &Caller, run: RunId) -> Answer<bool> {
    if caller.namespace.is_none() {
        return Ok(true);
    }
    if node.shard_of(run.job).is_some() {
        // The run may be newer than what this node's replica shows.
        node.view_of(run.job.shard()).await?;
    }
    Ok(runs::find(node, caller, &run.to_string()).is_ok())
}

fn token(field: &str, token: u64) -> Answer<u64> {
    if i64::try_from(token).is_ok() {
        return Ok(token);
    }
    let detail = "there is no such token; send the one that came with the run";
    Err(Problem::new(422, "out_of_range", detail).at(field).into())
}

fn short(field: &str, text: &str, max: usize) -> Answer<()> {
    if text.chars().count() <= max {
        return Ok(());
    }
    let detail = format!("it has at most {max} characters");
    Err(Problem::new(422, "too_long", detail).at(field).into())
}

fn small(field: &str, text: &str, max: usize) -> Answer<()> {
    if text.len() <= max {
        return Ok(());
    }
    let detail = format!("it has at most {max} bytes");
    Err(Problem::new(422, "too_long", detail).at(field).into())
}

fn named(worker: &str) -> Answer<()> {
    check_worker_name(worker).map_err(|why| refused(NotLetIn::Invalid(why)).into())
}

fn enough(count: usize, field: &str) -> Answer<()> {
    if count <= RUNS_MAX {
        return Ok(());
    }
    let detail = format!("at most {RUNS_MAX} in one request");
    Err(Problem::new(422, "too_many", detail).at(field).into())
}
