//! Jobs: finding, reading, listing, changing and deleting them.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use bellwether_api::{Job, JobSpec, Page, Problem, Role};
use bellwether_core::id::JobId;
use bellwether_core::read::{self, JobFilter, StoredJob};
use bellwether_core::turn::{Input, namespace_name};
use serde::Deserialize;
use utoipa::IntoParams;

use super::answer::{Answer, Refusal, blocking};
use super::extract::{JsonBody, Params, bad_cursor, lengths, limit};
use super::listed::Listed;
use super::{present, shown};
use crate::access::Caller;
use crate::node::Node;
use crate::{clock, convert};

/// Which namespace a key is looked up in.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct InNamespace {
    /// The namespace of the key; `default` if absent. Not needed with an id.
    #[param(max_length = 128)]
    pub namespace: Option<String>,
}

/// There is no such job.
pub fn no_job(name: &str) -> Refusal {
    let name: String = name.chars().take(80).collect();
    Problem::new(404, "job_not_found", format!("there is no job '{name}'")).into()
}

/// The id that a path means: an id, or a caller's key.
pub fn job_id(node: &Node, name: &str, namespace: Option<&str>) -> Answer<JobId> {
    if let Ok(id) = name.parse::<JobId>() {
        return Ok(id);
    }
    lengths([("namespace", namespace, 128)])?;
    let namespace = namespace.unwrap_or("default");
    let shard = node.shard_of_name(namespace, name).shard;
    read::job_of_key(&*node.view(), shard, namespace, name)?.ok_or_else(|| no_job(name))
}

/// The job that a path means, if the caller may see it.
pub fn find(
    node: &Node,
    caller: &Caller,
    name: &str,
    namespace: Option<&str>,
) -> Answer<StoredJob> {
    lengths([("namespace", namespace, 128)])?;
    let namespace = namespace.or(caller.namespace.as_deref());
    let id = job_id(node, name, namespace)?;
    shown::looked_for(node, |view| read::job(view, id))?
        .filter(|job| caller.sees(namespace_name(&job.definition)))
        .ok_or_else(|| no_job(name))
}

/// Returns a job.
#[utoipa::path(get, path = "/v1/jobs/{job}", tag = "jobs", operation_id = "getJob",
    params(("job" = String, Path, description = "Id or key"), InNamespace),
    responses(
        (status = 200, description = "The job", body = Job),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn get(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(name): Path<String>,
    Params(params): Params<InNamespace>,
) -> Answer<Json<Job>> {
    caller.need(Role::Viewer)?;
    let job = find(&node, &caller, &name, params.namespace.as_deref())?;
    Ok(Json(present::job(&*node.view(), &job, Vec::new())?))
}

/// Which jobs to list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// Only of this namespace. Needed with `group`, `owner`, `label` and `key_prefix`, where
    /// `default` is meant if it is absent.
    #[param(max_length = 128)]
    namespace: Option<String>,
    /// Only of this group.
    #[param(max_length = 128)]
    group: Option<String>,
    /// Only of this owner.
    #[param(max_length = 128)]
    owner: Option<String>,
    /// Only with this status. It is the job's own: jobs of a paused group are not `paused` by
    /// that, and show it in `group_paused`.
    #[param(value_type = Option<bellwether_api::JobStatus>)]
    status: Option<String>,
    /// Only with this label, written `name=value`.
    #[param(max_length = 512)]
    label: Option<String>,
    /// Only with a key that starts like this; in the order of their keys.
    #[param(max_length = 256)]
    key_prefix: Option<String>,
    /// Where to go on.
    #[param(max_length = 1024)]
    cursor: Option<String>,
    /// How many at most; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Lists jobs, newest first.
#[utoipa::path(get, path = "/v1/jobs", tag = "jobs", operation_id = "listJobs",
    params(ListParams),
    responses(
        (status = 200, description = "Some of them", body = Page<Job>,
            headers(("Bellwether-Staleness-Ms" = u64, description = "How many milliseconds the list may be behind, at most"))),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn list(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Params(params): Params<ListParams>,
) -> Answer<Listed<Page<Job>>> {
    caller.need(Role::Viewer)?;
    let limit = limit(params.limit)?;
    lengths([
        ("namespace", params.namespace.as_deref(), 128),
        ("group", params.group.as_deref(), 128),
        ("owner", params.owner.as_deref(), 128),
        ("label", params.label.as_deref(), 512),
        ("key_prefix", params.key_prefix.as_deref(), 256),
        ("cursor", params.cursor.as_deref(), 1024),
    ])?;
    let mut filter = JobFilter {
        namespace: params.namespace,
        group: params.group,
        owner: params.owner,
        label: params.label,
        status: None,
        key_prefix: params.key_prefix,
    };
    if let Some(name) = &params.status {
        filter.status = Some(present::status_of(name).ok_or_else(|| unknown_status(name))?);
    }
    if filter.label.as_ref().is_some_and(|label| !label.contains('=')) {
        let detail = "write a label as name=value";
        return Err(Problem::new(400, "invalid_parameter", detail).at("label").into());
    }
    if let Some(namespace) = &filter.namespace {
        caller.need_namespace(namespace)?;
    }
    let narrow = filter.group.is_some() || filter.owner.is_some() || filter.label.is_some();
    if filter.namespace.is_none()
        && (caller.namespace.is_some() || narrow || filter.key_prefix.is_some())
    {
        let own = caller.namespace.clone().unwrap_or_else(|| "default".to_owned());
        filter.namespace = Some(own);
    }
    blocking(move || page(&node, &filter, params.cursor.as_deref(), limit)).await
}

fn unknown_status(name: &str) -> Refusal {
    let name: String = name.chars().take(40).collect();
    let detail = format!(
        "'{name}' is no status of a job; it is one of scheduled, running, paused, completed, failed, canceled"
    );
    Problem::new(400, "invalid_parameter", detail).at("status").into()
}

fn page(
    node: &Node,
    filter: &JobFilter,
    cursor: Option<&str>,
    limit: usize,
) -> Answer<Listed<Page<Job>>> {
    let shards = node.shard_numbers();
    let listing = node.listing(&shards)?;
    let view = listing.view();
    let (jobs, next_cursor) = if filter.key_prefix.is_some() {
        let found = read::jobs_by_key(view, &shards, filter, cursor, limit)?;
        (found.items, found.cursor)
    } else {
        let before =
            cursor.map(|text| text.parse::<JobId>().map_err(|_| bad_cursor())).transpose()?;
        let found = read::jobs(view, &shards, filter, before, limit)?;
        (found.items, found.cursor.map(|id| id.to_string()))
    };
    let items = present::jobs(view, &jobs)?;
    Ok(Listed::of(Page { items, next_cursor }, &listing))
}

/// Changes parts of a job: a JSON merge patch (RFC 7396).
#[utoipa::path(patch, path = "/v1/jobs/{job}", tag = "jobs", operation_id = "patchJob",
    params(("job" = String, Path, description = "Id or key"), InNamespace),
    request_body(content = JobSpec, description = "The fields to change; null removes one"),
    responses(
        (status = 200, description = "The job as it is now", body = Job),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn patch(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(name): Path<String>,
    Params(params): Params<InNamespace>,
    JsonBody(patch): JsonBody<serde_json::Value>,
) -> Answer<Json<Job>> {
    caller.need(Role::Editor)?;
    let says_enabled = patch.get("enabled").is_some();
    let mut tries = 0;
    loop {
        let job = find(&node, &caller, &name, params.namespace.as_deref())?;
        let enabled = job.state.paused.is_none();
        let spec = convert::patched(&job.definition, enabled, patch.clone())?;
        let made_from = Some(job.revision);
        tries += 1;
        match replace(&node, &caller, &job, spec, says_enabled, made_from).await {
            // Somebody else was faster: what they changed stays changed.
            Err(refusal) if refusal.0.code == "changed_meanwhile" && tries < PATCH_TRIES => {}
            answer => return answer,
        }
    }
}

/// How often a patch is applied anew because the job was changed meanwhile.
const PATCH_TRIES: u32 = 5;

/// Gives a job a new definition.
pub async fn replace(
    node: &Arc<Node>,
    caller: &Caller,
    job: &StoredJob,
    mut spec: JobSpec,
    says_enabled: bool,
    expected_revision: Option<u32>,
) -> Answer<Json<Job>> {
    convert::unmask(&mut spec, &job.definition)?;
    let checked = convert::definition(spec, clock::now())?;
    let enabled = checked.enabled.filter(|_| says_enabled);
    let input = Input::Replace {
        actor: caller.name.clone(),
        job: job.id,
        definition: Box::new(checked.definition),
        hash: checked.hash,
        enabled,
        expected_revision,
    };
    node.ask(job.id, input).await?;
    let later = |now: &StoredJob| now.revision > job.revision;
    Ok(Json(shown::changed(node, job.id, later, checked.warnings).await?))
}

/// Deletes a job with its history. Open runs are canceled.
#[utoipa::path(delete, path = "/v1/jobs/{job}", tag = "jobs", operation_id = "deleteJob",
    params(("job" = String, Path, description = "Id or key"), InNamespace),
    responses(
        (status = 204, description = "It is gone"),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn delete(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(name): Path<String>,
    Params(params): Params<InNamespace>,
) -> Answer<StatusCode> {
    caller.need(Role::Editor)?;
    let job = find(&node, &caller, &name, params.namespace.as_deref())?;
    node.ask(job.id, Input::Delete { actor: caller.name.clone(), job: job.id }).await?;
    let key = &job.definition.key;
    if !key.is_empty() {
        let namespace = namespace_name(&job.definition).to_owned();
        let shard = node.shard_of_name(&namespace, key);
        if shard.shard != job.id.shard() {
            let free = Input::FreeKey { namespace, key: key.clone(), job: job.id };
            // The job is gone by then, whatever becomes of its key: who creates it anew finds that.
            shard.ask(free).await.map_err(|failure| failure.after_part(shard.shard))?;
        }
    }
    Ok(StatusCode::NO_CONTENT)
}
