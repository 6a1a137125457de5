//! Creating jobs, one at a time.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use bellwether_api::{Job, JobSpec, Problem, Role};
use bellwether_core::id::JobId;
use bellwether_core::read;
use bellwether_core::turn::{Created, Input, NewJob, Reply, namespace_name};

use super::answer::{Answer, Refusal, rejected};
use super::extract::{Body, Params};
use super::jobs::{self, InNamespace};
use super::shown;
use crate::access::Caller;
use crate::convert::{self, Checked};
use crate::node::Node;
use crate::{clock, shard};

/// For how long a reserved key is good for creating its job.
const RESERVED_MS: u64 = 10_000;

/// Creates a job.
#[utoipa::path(post, path = "/v1/jobs", tag = "jobs", operation_id = "createJob",
    request_body = JobSpec,
    responses(
        (status = 201, description = "The new job", body = Job),
        (status = 200, description = "The job, which was there already with the same key and body", body = Job),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn create(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Body(body): Body,
) -> Answer<(StatusCode, Json<Job>)> {
    caller.need(Role::Editor)?;
    let spec: JobSpec = convert::from_json(&body)?;
    // Boxed, so that what carries it through the layers is small.
    Box::pin(create_and_show(&node, &caller, spec)).await
}

async fn create_and_show(
    node: &Arc<Node>,
    caller: &Caller,
    spec: JobSpec,
) -> Answer<(StatusCode, Json<Job>)> {
    let mut checked = convert::definition(caller.at_home(spec), clock::now())?;
    caller.need_namespace(namespace_name(&checked.definition))?;
    let warnings = std::mem::take(&mut checked.warnings);
    let created = create_one(node, caller, checked).await?;
    let job = shown::changed(node, created.job, |_| true, warnings).await?;
    let status = if created.new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(job)))
}

/// Creates a job, or finds that it is there.
pub async fn create_one(node: &Arc<Node>, caller: &Caller, checked: Checked) -> Answer<Created> {
    let _under_way = node.spread.begin();
    match place(node, &checked) {
        Place::In(shard) => {
            let new = NewJob { definition: checked.definition, hash: checked.hash, reserved: None };
            create_in(shard, caller, new).await
        }
        Place::Apart { key_shard, job_shard } => {
            create_apart(node, caller, checked, key_shard, job_shard).await
        }
    }
}

/// Where a new job goes.
pub enum Place<'a> {
    /// Into this shard, with its key if it has one.
    In(&'a shard::ShardHandle),
    /// Its key is at home in one shard, its ordering key in another.
    Apart {
        /// The shard of the key.
        key_shard: &'a shard::ShardHandle,
        /// The shard of the ordering key, and so of the job.
        job_shard: &'a shard::ShardHandle,
    },
}

/// Where a new job goes: to the shard of its ordering key, else of its key, else to any.
pub fn place<'a>(node: &'a Node, checked: &Checked) -> Place<'a> {
    let definition = &checked.definition;
    let namespace = namespace_name(definition);
    let home = |name: &str| node.shard_of_name(namespace, name);
    match (definition.ordering_key.as_str(), definition.key.as_str()) {
        ("", "") => Place::In(node.any_shard()),
        ("", key) => Place::In(home(key)),
        (ordering_key, "") => Place::In(home(ordering_key)),
        (ordering_key, key) => {
            let (job_shard, key_shard) = (home(ordering_key), home(key));
            if job_shard.shard == key_shard.shard {
                Place::In(job_shard)
            } else {
                Place::Apart { key_shard, job_shard }
            }
        }
    }
}

async fn create_in(shard: &shard::ShardHandle, caller: &Caller, new: NewJob) -> Answer<Created> {
    let input = Input::Create { actor: caller.name.clone(), jobs: vec![new] };
    match shard.ask(input).await? {
        Reply::Created(mut results) => match results.pop() {
            Some(Ok(created)) => Ok(created),
            Some(Err(rejection)) => Err(rejected(&rejection).into()),
            None => Err(unexpected()),
        },
        _ => Err(unexpected()),
    }
}

fn unexpected() -> Refusal {
    Problem::new(500, "bug", "a shard gave an answer that does not fit the question").into()
}

/// Creates a job whose key is at home in another shard: the key is reserved first, under an id of
/// the job's shard, then the job is created. If something fails in between, the reservation names
/// a job that does not exist, and after half a minute it can be taken over.
async fn create_apart(
    node: &Arc<Node>,
    caller: &Caller,
    checked: Checked,
    key_shard: &shard::ShardHandle,
    job_shard: &shard::ShardHandle,
) -> Answer<Created> {
    let namespace = namespace_name(&checked.definition).to_owned();
    let key = checked.definition.key.clone();
    // A replica that is behind would take a job that is there for one that was never created.
    let keys = node.view_of(key_shard.shard).await?;
    let known = read::job_of_key(&*keys, key_shard.shard, &namespace, &key)?;
    if let Some(existing) = known
        && let Some(job) = read::job(&*node.view_of(existing.shard()).await?, existing)?
    {
        return same_or_conflict(&job, &checked);
    }
    let job = match job_shard.ask(Input::NewId).await? {
        Reply::Created(mut ids) => match ids.pop() {
            Some(Ok(Created { job, .. })) => job,
            _ => return Err(unexpected()),
        },
        _ => return Err(unexpected()),
    };
    let until = clock::now().plus_ms(RESERVED_MS);
    let reserve = Input::ReserveKey { namespace, key, job, replace: known };
    let holder = match key_shard.ask(reserve).await? {
        Reply::Created(mut results) => match results.pop() {
            Some(Ok(Created { job, .. })) => job,
            _ => return Err(unexpected()),
        },
        _ => return Err(unexpected()),
    };
    if holder != job {
        return match read::job(&*node.view_of(holder.shard()).await?, holder)? {
            Some(existing) => same_or_conflict(&existing, &checked),
            None => {
                let detail =
                    "another request is creating a job with this key; try again in a moment";
                Err(Problem::new(503, "try_again", detail).into())
            }
        };
    }
    let reserved = Some((job, until));
    let new = NewJob { definition: checked.definition, hash: checked.hash, reserved };
    create_in(job_shard, caller, new).await
}

fn same_or_conflict(job: &read::StoredJob, checked: &Checked) -> Answer<Created> {
    if job.hash == checked.hash {
        return Ok(Created { job: job.id, new: false });
    }
    let detail = format!(
        "the key '{}' belongs to {}, which was created with another body; use PUT to replace it or \
         choose another key",
        checked.definition.key, job.id
    );
    Err(Problem::new(409, "key_exists", detail).at("key").into())
}

/// Creates a job under a key, or replaces the one that has it.
#[utoipa::path(put, path = "/v1/jobs/{job}", tag = "jobs", operation_id = "putJob",
    params(("job" = String, Path, description = "Key, or the id of a job that is there"), InNamespace),
    request_body = JobSpec,
    responses(
        (status = 200, description = "The job as it is now", body = Job),
        (status = 201, description = "The new job", body = Job),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn put(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(name): Path<String>,
    Params(params): Params<InNamespace>,
    Body(body): Body,
) -> Answer<(StatusCode, Json<Job>)> {
    caller.need(Role::Editor)?;
    let mut spec: JobSpec = convert::from_json(&body)?;
    let namespace = namespace_of(&params, &spec)?;
    if let Some(namespace) = &namespace {
        caller.need_namespace(namespace)?;
        spec.namespace = Some(namespace.clone());
    }
    let by_id = name.parse::<JobId>().is_ok();
    match jobs::find(&node, &caller, &name, namespace.as_deref()) {
        Ok(job) => {
            if !by_id {
                fill_key(&mut spec, &name)?;
            } else if spec.key.is_none() && !job.definition.key.is_empty() {
                spec.key = Some(job.definition.key.clone());
            }
            if spec.namespace.is_none() {
                spec.namespace = Some(namespace_name(&job.definition).to_owned());
            }
            let says_enabled = spec.enabled.is_some();
            let job = jobs::replace(&node, &caller, &job, spec, says_enabled, None).await?;
            Ok((StatusCode::OK, job))
        }
        Err(refusal) if !by_id && refusal.0.status == 404 => {
            fill_key(&mut spec, &name)?;
            create_and_show(&node, &caller, spec).await
        }
        Err(refusal) => Err(refusal),
    }
}

/// The namespace of a PUT: of the query or of the body, which must agree.
fn namespace_of(params: &InNamespace, spec: &JobSpec) -> Answer<Option<String>> {
    match (&params.namespace, &spec.namespace) {
        (Some(query), Some(body)) if query != body => {
            let detail = "the namespace in the path's query and the one in the body differ";
            Err(Problem::new(422, "namespace_differs", detail).at("namespace").into())
        }
        (Some(given), _) | (None, Some(given)) => Ok(Some(given.clone())),
        (None, None) => Ok(None),
    }
}

fn fill_key(spec: &mut JobSpec, name: &str) -> Answer<()> {
    match &spec.key {
        Some(key) if key != name => {
            let detail = "the key in the path and the one in the body differ";
            Err(Problem::new(422, "key_differs", detail).at("key").into())
        }
        _ => {
            spec.key = Some(name.to_owned());
            Ok(())
        }
    }
}
