//! Health and metrics. Open to all: they tell nothing about jobs.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use bellwether_api::{Problem, ShardState};
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
///
/// It does as long as most shards have a leader that the node can reach: one shard without, as for a
/// moment when a node was lost, or for longer when two were, is no reason to ask nobody at all.
#[utoipa::path(get, path = "/readyz", tag = "operations", operation_id = "readyz",
    responses(
        (status = 200, description = "It does; says which shards have no leader, if any", body = String, content_type = "text/plain"),
        (status = "default", description = "It does not", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn readyz(State(node): State<Arc<Node>>) -> Answer<String> {
    if let Some(why) = node.engine.stats().failure {
        return Err(Problem::new(503, "store_failed", why).into());
    }
    if node.cluster.removed.is_cancelled() {
        let detail = "this node was removed from its cluster";
        return Err(Problem::new(503, "node_removed", detail).into());
    }
    let shards = present_cluster::cluster(&node.cluster, Vec::new()).shards;
    let without: Vec<Shard> = without_leader(&shards).collect();
    let said = led_by_nobody(&without);
    if 2 * without.len() >= shards.len() {
        let detail = said.unwrap_or_else(|| "there is no shard".to_owned());
        return Err(Problem::new(503, "no_leader", detail).into());
    }
    Ok(said.map_or_else(|| "ready\n".to_owned(), |said| format!("ready, but {said}\n")))
}

/// Which shards nobody leads who could do something about them.
fn without_leader(shards: &[ShardState]) -> impl Iterator<Item = Shard> {
    shards.iter().filter(|shard| shard.leader.is_none()).map(|shard| shard.shard)
}

/// The same in a sentence.
fn led_by_nobody(without: &[Shard]) -> Option<String> {
    match without {
        [] => None,
        [shard] => Some(format!("shard {shard} has no leader; are enough nodes up?")),
        shards => {
            let shards: Vec<String> = shards.iter().map(Shard::to_string).collect();
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
        leaderless: without_leader(&known.shards).count(),
        lag: lags.max().copied().unwrap_or(0),
        clock_off_ms: known
            .nodes
            .iter()
            .map(|node| node.clock_ahead_ms.unsigned_abs())
            .max()
            .unwrap_or(0),
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
