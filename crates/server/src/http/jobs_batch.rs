//! Creating thousands of jobs with one request.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use bellwether_api::{BatchAnswer, BatchRequest, BatchResult, JobSpec, Problem, Role};
use bellwether_core::time::Time;
use bellwether_core::turn::{Created, Input, NewJob, Reply, namespace_name};
use bellwether_core::waist::Shard;
use bytes::Bytes;
use futures::future::join_all;
use futures::{StreamExt, stream};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::BATCH_BODY_MAX;
use super::answer::{Answer, Refusal, blocking, rejected};
use super::extract::Body;
use super::jobs_create::{Place, create_one, place};
use crate::access::Caller;
use crate::convert::{self, Checked};
use crate::node::Node;
use crate::{clock, shard};

/// Jobs in one request.
pub const JOBS_MAX: usize = 10_000;
/// Jobs that concern two shards and are created at the same time.
const APART_AT_ONCE: usize = 256;

/// Creates many jobs: NDJSON, a job a line, or `{"jobs": […]}`. Each is accepted or refused on its
/// own; one that is there already with the same key and body is a success.
#[utoipa::path(post, path = "/v1/jobs:batch", tag = "jobs", operation_id = "createJobs",
    request_body(
        content(
            (BatchRequest = "application/json"),
            (String = "application/x-ndjson"),
        ),
        description = "Up to 10,000 jobs",
    ),
    responses(
        (status = 200, description = "A result for each job, in order", body = BatchAnswer),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn batch(
    State(node): State<Arc<Node>>,
    caller: Caller,
    headers: HeaderMap,
    Body(body): Body<BATCH_BODY_MAX>,
) -> Answer<Json<BatchAnswer>> {
    caller.need(Role::Editor)?;
    let kind = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    let ndjson = kind.contains("ndjson") || kind.contains("jsonl");
    let by = caller.clone();
    let checked = blocking(move || {
        let now = clock::now();
        if ndjson { check_lines(&body, &by, now) } else { check_json(&body, &by, now) }
    });
    Ok(Json(create_all(&node, &caller, checked.await?).await))
}

/// A job that passed, or what is wrong with it.
pub type Item = Result<Checked, Problem>;

fn check_lines(body: &Bytes, caller: &Caller, now: Time) -> Answer<Vec<Item>> {
    let lines =
        body.split(|byte| *byte == b'\n').filter(|line| !line.iter().all(u8::is_ascii_whitespace));
    let mut items = Vec::new();
    for line in lines {
        items.push(convert::from_json(line).and_then(|spec| check(spec, caller, now)));
        enough(items.len())?;
    }
    Ok(items)
}

fn check_json(body: &Bytes, caller: &Caller, now: Time) -> Answer<Vec<Item>> {
    let request: Jobs<'_> = convert::from_json(body)?;
    enough(request.jobs.len())?;
    let jobs = request.jobs.into_iter();
    Ok(jobs
        .map(|job| {
            let spec = convert::from_json(job.get().as_bytes());
            spec.and_then(|spec| check(spec, caller, now))
        })
        .collect())
}

/// A [`BatchRequest`] whose jobs are read one by one, so that a bad one spoils no other.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Jobs<'a> {
    #[serde(borrow)]
    jobs: Vec<&'a RawValue>,
}

fn enough(count: usize) -> Answer<()> {
    if count <= JOBS_MAX {
        return Ok(());
    }
    let detail = format!("a batch has at most {JOBS_MAX} jobs; send several");
    Err(Problem::new(413, "batch_too_large", detail).at("jobs").into())
}

/// Checks a job of somebody who may create it, except for what only its shard knows.
pub fn check(spec: JobSpec, caller: &Caller, now: Time) -> Item {
    let checked = convert::definition(caller.at_home(spec), now)?;
    caller.need_namespace(namespace_name(&checked.definition))?;
    Ok(checked)
}

/// Jobs for one shard, with their places in the request.
type Share<'a> = (&'a shard::ShardHandle, Vec<usize>, Vec<NewJob>);

/// Creates all that passed. When it returns, what was created is durable.
pub async fn create_all(node: &Arc<Node>, caller: &Caller, items: Vec<Item>) -> BatchAnswer {
    let mut results: Vec<Option<BatchResult>> = items.iter().map(|_| None).collect();
    let mut shares: BTreeMap<Shard, Share<'_>> = BTreeMap::new();
    let mut singles = Vec::new();
    // Jobs that may go anywhere go together, so that a small batch is one commit of one shard.
    let free = node.any_shard();
    let spread = items.len() > 64;
    for (at, item) in items.into_iter().enumerate() {
        let checked = match item {
            Ok(checked) => checked,
            Err(problem) => {
                results[at] = Some(failure(problem));
                continue;
            }
        };
        let definition = &checked.definition;
        let anywhere = definition.key.is_empty() && definition.ordering_key.is_empty();
        let shard = match place(node, &checked) {
            Place::Apart { .. } => {
                singles.push((at, checked));
                continue;
            }
            Place::In(_) if anywhere && !spread => free,
            Place::In(shard) => shard,
        };
        let share = shares.entry(shard.shard).or_insert_with(|| (shard, Vec::new(), Vec::new()));
        share.1.push(at);
        share.2.push(NewJob { definition: checked.definition, hash: checked.hash, reserved: None });
    }
    let asked = shares.into_values().map(|(shard, places, jobs)| async move {
        let input = Input::Create { actor: caller.name.clone(), jobs };
        (places, shard.ask(input).await)
    });
    for (places, reply) in join_all(asked).await {
        fill(&mut results, &places, reply);
    }
    let mut apart = stream::iter(singles)
        .map(|(at, checked)| async move { (at, create_one(node, caller, checked).await) })
        .buffer_unordered(APART_AT_ONCE);
    while let Some((at, result)) = apart.next().await {
        results[at] = Some(match result {
            Ok(created) => success(created),
            Err(refusal) => failure(*refusal.0),
        });
    }
    drop(apart);
    summary(results)
}

fn fill(
    results: &mut [Option<BatchResult>],
    places: &[usize],
    reply: Result<Reply, shard::Failure>,
) {
    match reply {
        Ok(Reply::Created(each)) => {
            for (at, result) in places.iter().zip(each) {
                results[*at] = Some(match result {
                    Ok(created) => success(created),
                    Err(rejection) => failure(rejected(&rejection)),
                });
            }
        }
        Ok(_) => {}
        Err(error) => {
            let problem = *Refusal::from(error).0;
            for at in places {
                results[*at] = Some(failure(problem.clone()));
            }
        }
    }
}

fn success(created: Created) -> BatchResult {
    let status = if created.new { 201 } else { 200 };
    BatchResult { status, id: Some(created.job.to_string()), error: None }
}

fn failure(problem: Problem) -> BatchResult {
    BatchResult { status: problem.status, id: None, error: Some(problem) }
}

fn summary(results: Vec<Option<BatchResult>>) -> BatchAnswer {
    let mut answer = BatchAnswer::default();
    for result in results {
        let result = result.unwrap_or_else(|| failure(Problem::new(500, "bug", "no answer came")));
        match result.status {
            201 => answer.created += 1,
            200 => answer.existing += 1,
            _ => answer.failed += 1,
        }
        answer.results.push(result);
    }
    answer
}
