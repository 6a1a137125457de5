//! Batches: how they stand, and canceling them. Creating one is in `batches_create`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use bellwether_api::{Batch, CancelRequest, Page, Problem, Role, Run};
use bellwether_core::id::{BatchId, JobId};
use bellwether_core::read::{self, StoredBatch};
use bellwether_core::turn::{BatchInput, Input};
use serde::Deserialize;
use utoipa::IntoParams;

use super::answer::{Answer, Refusal, blocking};
use super::extract::{OptionalBody, Params, bad_cursor, lengths, limit};
use super::jobs::InNamespace;
use super::jobs_control::note;
use super::listed::Listed;
use super::runs::statuses;
use super::{present_batch, present_run};
use crate::access::Caller;
use crate::node::Node;
use crate::shard::Failure;

fn no_batch(name: &str) -> Refusal {
    let name: String = name.chars().take(80).collect();
    Problem::new(404, "batch_not_found", format!("there is no batch '{name}'")).into()
}

/// The batch that a path means, if the caller may see it.
fn find(node: &Node, caller: &Caller, name: &str, namespace: Option<&str>) -> Answer<StoredBatch> {
    lengths([("namespace", namespace, 128)])?;
    let namespace = namespace.or(caller.namespace.as_deref()).unwrap_or("default");
    let view = node.view();
    let id = match name.parse::<BatchId>() {
        Ok(id) => id,
        Err(_) => {
            let shard = node.shard_of_name(namespace, name).shard;
            read::batch_of_key(&*view, shard, namespace, name)?.ok_or_else(|| no_batch(name))?
        }
    };
    read::batch(&*view, &node.shard_numbers(), id)?
        .filter(|batch| batch.row.is_accepted())
        .filter(|batch| caller.sees(batch.row.namespace_name()))
        .ok_or_else(|| no_batch(name))
}

/// Which batches to list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// Only of this namespace.
    #[param(max_length = 128)]
    namespace: Option<String>,
    /// Where to go on.
    #[param(max_length = 64)]
    cursor: Option<String>,
    /// How many at most; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Lists batches, newest first.
#[utoipa::path(get, path = "/v1/batches", tag = "batches", operation_id = "listBatches",
    params(ListParams),
    responses(
        (status = 200, description = "Some of them", body = Page<Batch>,
            headers(("Bellwether-Staleness-Ms" = u64, description = "How many milliseconds the list may be behind, at most"))),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn list(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Params(params): Params<ListParams>,
) -> Answer<Listed<Page<Batch>>> {
    caller.need(Role::Viewer)?;
    let limit = limit(params.limit)?;
    lengths([
        ("namespace", params.namespace.as_deref(), 128),
        ("cursor", params.cursor.as_deref(), 64),
    ])?;
    let namespace = caller.narrowed(params.namespace)?;
    let before: Option<BatchId> =
        params.cursor.map(|text| text.parse().map_err(|_| bad_cursor())).transpose()?;
    blocking(move || {
        let shards = node.shard_numbers();
        let listing = node.listing(&shards)?;
        let view = listing.view();
        let found = read::batches(view, &shards, namespace.as_deref(), before, limit)?;
        let items = found.items.iter().map(present_batch::batch).collect::<Result<_, _>>()?;
        let next_cursor = found.cursor.map(|id| id.to_string());
        Ok(Listed::of(Page { items, next_cursor }, &listing))
    })
    .await
}

/// Returns a batch and how far it is.
#[utoipa::path(get, path = "/v1/batches/{batch}", tag = "batches", operation_id = "getBatch",
    params(("batch" = String, Path, description = "Id or key"), InNamespace),
    responses(
        (status = 200, description = "The batch", body = Batch),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn get(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(name): Path<String>,
    Params(params): Params<InNamespace>,
) -> Answer<Json<Batch>> {
    caller.need(Role::Viewer)?;
    let batch = find(&node, &caller, &name, params.namespace.as_deref())?;
    Ok(Json(present_batch::batch(&batch)?))
}

/// Cancels a batch: what has not begun never does, what is with workers is stopped.
#[utoipa::path(post, path = "/v1/batches/{batch}/cancel", tag = "batches", operation_id = "cancelBatch",
    params(("batch" = String, Path, description = "Id or key"), InNamespace),
    request_body(content = Option<CancelRequest>),
    responses(
        (status = 200, description = "The batch as it is now", body = Batch),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn cancel(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(name): Path<String>,
    Params(params): Params<InNamespace>,
    OptionalBody(request): OptionalBody<CancelRequest>,
) -> Answer<Json<Batch>> {
    caller.need(Role::Operator)?;
    let note = note(request.note)?;
    let batch = find(&node, &caller, &name, params.namespace.as_deref())?;
    let input = BatchInput::Cancel { actor: caller.name.clone(), note };
    let input = Input::Batch { batch: batch.id, input: Box::new(input) };
    // A batch is at home in a shard just as a job is.
    let home = JobId(batch.id.0);
    node.ask(home, input).await?;
    // It is canceled by now: whoever cannot show it must not say that nothing has happened.
    let shown = find(&node, &caller, &batch.id.to_string(), None);
    let batch = shown.map_err(|_| Failure::Unknown(home.shard()))?;
    Ok(Json(present_batch::batch(&batch)?))
}

/// Which runs of a batch to list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RunParams {
    /// The namespace of the key; `default` if absent. Not needed with an id.
    #[param(max_length = 128)]
    namespace: Option<String>,
    /// Only with this status; several with commas.
    #[param(max_length = 128, example = "failed,lost")]
    status: Option<String>,
    /// Where to go on.
    #[param(max_length = 64)]
    cursor: Option<String>,
    /// How many at most; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Lists the runs of a batch, newest first. Items that have yet to be begun have none.
#[utoipa::path(get, path = "/v1/batches/{batch}/runs", tag = "batches", operation_id = "batchRuns",
    params(("batch" = String, Path, description = "Id or key"), RunParams),
    responses(
        (status = 200, description = "Some of them", body = Page<Run>,
            headers(("Bellwether-Staleness-Ms" = u64, description = "How many milliseconds the list may be behind, at most"))),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn runs(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(name): Path<String>,
    Params(params): Params<RunParams>,
) -> Answer<Listed<Page<Run>>> {
    caller.need(Role::Viewer)?;
    let limit = limit(params.limit)?;
    lengths([("status", params.status.as_deref(), 128), ("cursor", params.cursor.as_deref(), 64)])?;
    let statuses = statuses(params.status.as_deref())?;
    let before: Option<JobId> =
        params.cursor.map(|text| text.parse().map_err(|_| bad_cursor())).transpose()?;
    let batch = find(&node, &caller, &name, params.namespace.as_deref())?;
    blocking(move || {
        let (view, shards) = (node.view(), node.shard_numbers());
        let found = read::batch_runs(&*view, &shards, batch.id, &statuses, before, limit)?;
        let items = found.items.iter().map(present_run::run).collect();
        let next_cursor = found.cursor.map(|id| id.to_string());
        Ok(Listed::now(Page { items, next_cursor }))
    })
    .await
}
