//! Workers and the node itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::State;
use bellwether_api::{Cluster, Instant, Node as ApiNode, Page, Problem, Role, ShardState, Worker};

use super::answer::Answer;
use crate::access::Caller;
use crate::node::Node;

/// Lists workers.
#[utoipa::path(get, path = "/v1/workers", tag = "operations", operation_id = "listWorkers",
    responses(
        (status = 200, description = "The workers", body = Page<Worker>),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn workers(State(node): State<Arc<Node>>, caller: Caller) -> Answer<Json<Page<Worker>>> {
    caller.need(Role::Viewer)?;
    let items = node.worker.iter().map(|worker| {
        let options = worker.options();
        Worker {
            name: worker.name().to_owned(),
            state: "active".to_owned(),
            queues: options.queues.iter().cloned().collect(),
            labels: BTreeMap::new(),
            running: worker.running().count() as u64,
            slots: BTreeMap::from([
                ("command".to_owned(), options.slots.command as u64),
                ("http".to_owned(), options.slots.http as u64),
            ]),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    });
    Ok(Json(Page { items: items.collect(), next_cursor: None }))
}

/// The node and its shards.
#[utoipa::path(get, path = "/v1/cluster", tag = "operations", operation_id = "getCluster",
    responses(
        (status = 200, description = "The cluster", body = Cluster),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn cluster(State(node): State<Arc<Node>>, caller: Caller) -> Answer<Json<Cluster>> {
    caller.need(Role::Viewer)?;
    let name = node.worker.as_ref().map_or("local", |worker| worker.name()).to_owned();
    let shards = node.shards.iter().map(|shard| ShardState {
        shard: shard.shard,
        leader: name.clone(),
        term: shard.status.term.load(Ordering::Relaxed),
        open_runs: shard.status.open_runs.load(Ordering::Relaxed),
        ready_runs: shard.status.ready.lock().iter().map(|(_, count)| count).sum(),
        wheel_entries: shard.status.wheel_entries.load(Ordering::Relaxed),
    });
    Ok(Json(Cluster {
        id: node.store_id.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        nodes: vec![ApiNode {
            name: name.clone(),
            listen: node.address.to_string(),
            started_at: Instant(node.started),
            disk_bytes: node.engine.stats().disk_bytes,
        }],
        shards: shards.collect(),
    }))
}
