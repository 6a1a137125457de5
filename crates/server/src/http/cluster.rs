//! Workers and the node itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bellwether_api::{
    Cluster, Cpus, Gathered, Instant, Problem, Resources, Restored, Role, Size, Worker,
};

use bellwether_core::read;
use bellwether_core::record::RestoreRow;
use bellwether_core::time::Time;
use bytes::Bytes;
use futures::future::join_all;

use super::answer::{Answer, OUTCOME_UNKNOWN, Refusal};
use super::listed::Listed;
use super::present_cluster;
use crate::access::Caller;
use crate::clock;
use crate::cluster::ANSWER_WITHIN;
use crate::live::{Relay, Relayed};
use crate::node::Node;
use crate::work::{Capacity, LocalWorker, Offered, WorkerState};

/// Lists the workers of all nodes.
#[utoipa::path(get, path = "/v1/workers", tag = "operations", operation_id = "listWorkers",
    responses(
        (status = 200, description = "The workers", body = Gathered<Worker>,
            headers(("Bellwether-Staleness-Ms" = u64, description = "How many milliseconds the list may be behind, at most"))),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn workers(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Relayed(relayed): Relayed,
) -> Answer<Listed<Gathered<Worker>>> {
    caller.need(Role::Viewer)?;
    let namespace = caller.namespace.as_deref();
    let name = node.cluster.row().name;
    let own = node.worker.iter().filter(|worker| worker.has_started());
    let own = own.map(|worker| built_in(worker, namespace));
    let here = own.chain(node.remotes.list(namespace).into_iter().map(remote));
    let here = here.map(|worker| Worker { node: name.clone(), ..worker });
    let mut items: Vec<Worker> = here.collect();
    let mut missing_nodes = Vec::new();
    if !relayed {
        let others = node.gather::<Gathered<Worker>>(&caller, "/v1/workers").await;
        items.extend(others.answers.into_iter().flat_map(|(_, answer)| answer.items));
        missing_nodes = others.missing;
    }
    Ok(Listed::now(Gathered { items: once_each(items), next_cursor: None, missing_nodes }))
}

/// Leaves out where workers were, if they have gone to another node.
fn once_each(mut workers: Vec<Worker>) -> Vec<Worker> {
    let there: BTreeSet<String> = workers
        .iter()
        .filter(|worker| worker.state != "away")
        .map(|worker| worker.name.clone())
        .collect();
    let mut away = BTreeSet::new();
    workers.retain(|worker| {
        worker.state != "away"
            || (!there.contains(&worker.name) && away.insert(worker.name.clone()))
    });
    workers
}

/// Makes a worker take nothing more, whichever node it is connected to. What it has it finishes, then
/// it ends.
#[utoipa::path(post, path = "/v1/workers/{worker}/drain", tag = "operations", operation_id = "drainWorker",
    params(("worker" = String, Path, description = "Name of the worker")),
    responses(
        (status = 202, description = "It takes nothing more"),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn drain(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Relayed(relayed): Relayed,
    Path(name): Path<String>,
    uri: Uri,
) -> Answer<Response> {
    caller.need(Role::Operator)?;
    if !relayed && !node.remotes.has_seat(&name) && !is_built_in(&node, &name) {
        let uri = uri.path_and_query().map_or("", |uri| uri.as_str());
        if let Some(response) = drain_elsewhere(&node, &caller, &name, uri).await? {
            return Ok(response);
        }
    }
    if is_built_in(&node, &name) {
        let detail = "this worker is part of the server; stop the server instead";
        return Err(Problem::new(409, "worker_built_in", detail).into());
    }
    if !node.remotes.may_speak_for(&name, caller.namespace.as_deref()) {
        let detail = "the worker is not one of the token's namespace";
        return Err(Problem::new(403, "other_namespace", detail).into());
    }
    if !node.remotes.drain(&name) {
        let name: String = name.chars().take(128).collect();
        let detail = format!("no worker called '{name}' is connected");
        return Err(Problem::new(404, "worker_not_found", detail).into());
    }
    Ok(StatusCode::ACCEPTED.into_response())
}

fn is_built_in(node: &Node, name: &str) -> bool {
    node.worker.as_ref().is_some_and(|worker| worker.name() == name)
}

/// Has a worker drained by the node that it is connected to; `None` if all
/// nodes that are up say that it is not.
async fn drain_elsewhere(
    node: &Node,
    caller: &Caller,
    name: &str,
    uri: &str,
) -> Result<Option<Response>, Problem> {
    let (up, _) = node.cluster.others();
    let asked = up.iter().map(|other| node.cluster.has_at(other.node, name));
    let found = join_all(asked).await;
    let silent = found.contains(&None);
    let Some((other, _)) = up.iter().zip(found).find(|(_, has)| *has == Some(true)) else {
        let detail = "no node that answers has this worker, and one that does not answer may";
        return if silent { Err(Problem::new(503, "node_silent", detail)) } else { Ok(None) };
    };
    let post = (&Method::POST, uri);
    let relayed = node.relay(other.node, caller, post, Bytes::new(), ANSWER_WITHIN).await;
    Ok(Some(relayed.map_or_else(
        || {
            let detail = format!("the node '{}' does not answer; try again", other.name);
            Refusal::from(Problem::new(503, OUTCOME_UNKNOWN, detail)).into_response()
        },
        Relay::into_response,
    )))
}

/// Runs that are listed of a worker.
const RUNS_MAX: usize = 100;

fn built_in(worker: &LocalWorker, namespace: Option<&str>) -> Worker {
    let options = worker.options();
    let running = worker.running();
    Worker {
        node: String::new(),
        name: worker.name().to_owned(),
        state: "active".to_owned(),
        queues: options.queues.iter().cloned().collect(),
        labels: BTreeMap::new(),
        running: running.count() as u64,
        runs: running.runs_of(namespace).iter().take(RUNS_MAX).map(ToString::to_string).collect(),
        slots: BTreeMap::from([
            ("command".to_owned(), options.command_slots as u64),
            ("http".to_owned(), options.http_slots as u64),
        ]),
        resources: None,
        job_types: Vec::new(),
        namespace: None,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        connected_at: None,
        heard_at: None,
    }
}

fn remote(worker: WorkerState) -> Worker {
    let state = match (worker.connected, worker.draining) {
        (false, _) => "away",
        (true, true) => "draining",
        (true, false) => "active",
    };
    let silent_ms = i64::try_from(worker.silent.as_millis()).unwrap_or(i64::MAX);
    Worker {
        node: String::new(),
        name: worker.name,
        state: state.to_owned(),
        queues: worker.offer.queues.into_iter().collect(),
        labels: worker.offer.labels,
        running: worker.running as u64,
        runs: worker.runs.iter().take(RUNS_MAX).map(ToString::to_string).collect(),
        slots: match worker.capacity {
            Some(Capacity::Slots(slots)) => BTreeMap::from([("all".to_owned(), u64::from(slots))]),
            _ => BTreeMap::new(),
        },
        resources: match worker.capacity {
            Some(Capacity::Resources(offered)) => Some(resources(offered)),
            _ => None,
        },
        job_types: worker.offer.job_types.into_iter().collect(),
        namespace: worker.offer.namespace,
        version: worker.version,
        connected_at: worker.since.map(Instant),
        heard_at: Some(Instant(Time(clock::now().0.saturating_sub(silent_ms)))),
    }
}

fn resources(offered: Offered) -> Resources {
    let cpu = offered.cpu_milli.map(|milli| Cpus(u32::try_from(milli).unwrap_or(u32::MAX)));
    Resources { cpu, memory: offered.memory_bytes.map(Size) }
}

/// The nodes and the shards, as the node that is asked knows them.
#[utoipa::path(get, path = "/v1/cluster", tag = "operations", operation_id = "getCluster",
    responses(
        (status = 200, description = "The cluster", body = Cluster),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn cluster(State(node): State<Arc<Node>>, caller: Caller) -> Answer<Json<Cluster>> {
    caller.need(Role::Viewer)?;
    let restored = read::restores(&*node.view())?.iter().map(restored).collect();
    Ok(Json(present_cluster::cluster(&node.cluster, restored)))
}

fn restored(row: &RestoreRow) -> Restored {
    Restored {
        backup: row.backup.clone(),
        from_cluster: row.from_id.clone(),
        taken_at: Instant(Time(row.taken_ms)),
        restored_at: Instant(Time(row.restored_ms)),
        held_jobs: row.held_jobs,
        lost_runs: row.lost_runs,
        repeated_runs: row.repeated_runs,
        held_batches: row.held_batches,
    }
}
