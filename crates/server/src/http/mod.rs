//! The HTTP API: routes, and how they are served.
//!
//! A file for each group of endpoints. Handlers check who asks, turn JSON into inputs for a shard
//! or questions about a view, and answers back into JSON. They decide nothing.

mod access;
mod answer;
mod backups;
mod batches;
mod batches_create;
mod before;
mod cluster;
mod cluster_nodes;
mod docs;
mod events;
mod extract;
mod fresh;
mod groups;
mod jobs;
mod jobs_batch;
mod jobs_control;
mod jobs_create;
mod jobs_history;
mod listed;
mod manual;
mod ops;
mod output;
mod output_relay;
mod present;
mod present_batch;
mod present_cluster;
mod present_lease;
mod present_run;
mod queue_bounds;
mod queues;
mod runs;
mod schedules;
mod seats;
mod serve;
mod shown;

use std::sync::Arc;

use axum::Router;
use axum::middleware;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::node::Node;
use crate::work::service;

pub use jobs_batch::{Item, JOBS_MAX, check, create_all};
pub use serve::{Port, serve, serve_all, tls_config};

/// Largest body of a request about one thing.
const BODY_MAX: usize = 1024 * 1024;
/// Largest body of a batch.
pub const BATCH_BODY_MAX: usize = 64 * 1024 * 1024;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Bellwether",
        description = "A distributed cron and job scheduler. Errors are RFC 9457 problem documents \
                       with a stable `code`; lists are `{items, next_cursor}`; durations are texts \
                       such as `90s`, times RFC 3339 in UTC."
    ),
    tags(
        (name = "jobs", description = "Definitions: schedule, target and policy"),
        (name = "runs", description = "Executions and what they printed"),
        (name = "batches", description = "A million runs from one request"),
        (name = "groups", description = "Many jobs at once"),
        (name = "schedules", description = "Schedules in plain words"),
        (name = "workers", description = "Queues, and running work by plain HTTP"),
        (name = "access", description = "Tokens and the audit log"),
        (name = "operations", description = "Health, metrics, events, workers"),
    )
)]
struct Document;

fn api() -> OpenApiRouter<Arc<Node>> {
    OpenApiRouter::new()
        .routes(routes!(jobs_create::create, jobs::list))
        .routes(routes!(jobs::get, jobs_create::put, jobs::patch, jobs::delete))
        .routes(routes!(jobs_control::pause))
        .routes(routes!(jobs_control::resume))
        .routes(routes!(jobs_control::trigger))
        .routes(routes!(jobs_control::maintenance))
        .routes(routes!(jobs_history::next))
        .routes(routes!(jobs_history::runs))
        .routes(routes!(jobs_history::ticks))
        .routes(routes!(jobs_history::why))
        .routes(routes!(batches_create::create, batches::list))
        .routes(routes!(batches::get))
        .routes(routes!(batches::cancel))
        .routes(routes!(batches::runs))
        .routes(routes!(runs::list))
        .routes(routes!(runs::get))
        .routes(routes!(runs::events))
        .routes(routes!(output::output))
        .routes(routes!(runs::cancel))
        .routes(routes!(runs::retry))
        .routes(routes!(groups::list))
        .routes(routes!(groups::pause))
        .routes(routes!(groups::resume))
        .routes(routes!(groups::maintenance))
        .routes(routes!(schedules::preview))
        .routes(routes!(access::create_token, access::list_tokens))
        .routes(routes!(access::revoke_token))
        .routes(routes!(access::audit))
        .routes(routes!(cluster::workers))
        .routes(routes!(cluster::drain))
        .routes(routes!(cluster::cluster))
        .routes(routes!(cluster_nodes::remove))
        .routes(routes!(backups::create, backups::list))
        .routes(routes!(backups::get))
        .routes(routes!(events::events))
        .routes(routes!(queues::lease))
        .routes(routes!(queue_bounds::list))
        .routes(routes!(queue_bounds::put))
        .routes(routes!(jobs_batch::batch))
        .routes(routes!(queues::complete))
        .routes(routes!(queues::heartbeat))
}

fn open_to_all() -> OpenApiRouter<Arc<Node>> {
    OpenApiRouter::new()
        .routes(routes!(ops::healthz))
        .routes(routes!(ops::readyz))
        .routes(routes!(ops::metrics))
}

fn document_and_router() -> (Router<Arc<Node>>, utoipa::openapi::OpenApi) {
    OpenApiRouter::with_openapi(Document::openapi())
        .merge(api())
        .merge(open_to_all())
        .split_for_parts()
}

/// The OpenAPI document, as JSON.
#[must_use]
pub fn openapi() -> String {
    let (_, document) = document_and_router();
    let mut text = document.to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// The API of a node as it answers for others: who asks is known, and nothing is passed on.
pub fn by_itself(node: Arc<Node>) -> Router {
    let (router, _) = document_and_router();
    router
        .with_state(node.clone())
        .fallback(answer::no_such_path)
        .method_not_allowed_fallback(answer::no_such_method)
        .layer(middleware::from_fn_with_state(node, before::of_node))
}

/// The API of a node.
pub fn router(node: Arc<Node>) -> Router {
    let (router, _) = document_and_router();
    router
        .merge(docs::routes())
        .with_state(node.clone())
        .merge(service(node.remotes.clone()))
        .fallback(answer::no_such_path)
        .method_not_allowed_fallback(answer::no_such_method)
        .layer(middleware::from_fn_with_state(node, before::of_anybody))
}
