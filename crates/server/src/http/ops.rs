//! Health and metrics. Open to all: they tell nothing about jobs.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use bellwether_api::Problem;
use bellwether_core::waist::Shard;
use bellwether_store::Engine;

use super::answer::Answer;
use super::present_cluster;
use crate::clock;
use crate::metrics::ClusterFigures;
use crate::node::Node;

/// Whether the process lives.
#[utoipa::path(get, path = "/healthz", tag = "operations", operation_id = "healthz",
    responses((status = 200, description = "It does", body = String, content_type = "text/plain")))]
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether it takes requests and launches runs.
#[utoipa::path(get, path = "/readyz", tag = "operations", operation_id = "readyz",
    responses(
        (status = 200, description = "It does", body = String, content_type = "text/plain"),
        (status = "default", description = "It does not", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn readyz(State(node): State<Arc<Node>>) -> Answer<&'static str> {
    if let Some(why) = node.engine.stats().failure {
        return Err(Problem::new(503, "store_failed", why).into());
    }
    if node.cluster.removed.is_cancelled() {
        let detail = "this node was removed from its cluster";
        return Err(Problem::new(503, "node_removed", detail).into());
    }
    match led_by_nobody(&node) {
        Some(detail) => Err(Problem::new(503, "no_leader", detail).into()),
        None => Ok("ready\n"),
    }
}

/// Which shards nobody leads.
fn without_leader(node: &Node) -> impl Iterator<Item = Shard> {
    node.shard_numbers().into_iter().filter(|shard| !node.cluster.is_led(*shard))
}

/// The same in a sentence.
fn led_by_nobody(node: &Node) -> Option<String> {
    let without: Vec<String> = without_leader(node).map(|shard| shard.to_string()).collect();
    match without.as_slice() {
        [] => None,
        [shard] => Some(format!("shard {shard} has no leader; are enough nodes up?")),
        shards => {
            Some(format!("shards {} have no leader; are enough nodes up?", shards.join(", ")))
        }
    }
}

fn cluster_figures(node: &Node) -> ClusterFigures {
    let known = present_cluster::cluster(&node.cluster, Vec::new());
    let own = node.cluster.row().name;
    let lags = known.shards.iter().filter_map(|shard| shard.lag.get(&own));
    ClusterFigures {
        nodes: known.nodes.len(),
        down: known.nodes.iter().filter(|node| node.state == "down").count(),
        leaderless: without_leader(node).count(),
        lag: lags.max().copied().unwrap_or(0),
    }
}

/// Figures in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "operations", operation_id = "metrics",
    responses((status = 200, description = "The figures", body = String, content_type = "application/openmetrics-text")))]
pub async fn metrics(State(node): State<Arc<Node>>) -> impl IntoResponse {
    let cluster = cluster_figures(&node);
    let text = node.metrics.text(&node.shards, &node.engine.stats(), &cluster, clock::now());
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], text)
}
