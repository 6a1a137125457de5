//! Queues: what waits in them, what they have under way, and their bounds.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use bellwether_api::{Gathered, Problem, Queue, QueueSpec, Role};
use bellwether_core::read;
use bellwether_core::record::QueueRow;
use bellwether_core::turn::{Input, QueueChange};
use bellwether_core::waist::View;

use super::answer::Answer;
use super::extract::JsonBody;
use super::jobs_control::note;
use super::listed::Listed;
use super::present;
use crate::access::Caller;
use crate::node::Node;

/// The most runs that a queue may have under way or launch in a second, if it has a bound.
const MOST: f64 = 1_000_000.0;

/// Lists queues that have bounds, or runs that wait or are under way on any node.
#[utoipa::path(get, path = "/v1/queues", tag = "workers", operation_id = "listQueues",
    responses(
        (status = 200, description = "The queues", body = Gathered<Queue>,
            headers(("Bellwether-Staleness-Ms" = u64, description = "How many milliseconds the list may be behind, at most"))),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn list(
    State(node): State<Arc<Node>>,
    caller: Caller,
) -> Answer<Listed<Gathered<Queue>>> {
    caller.need(Role::Viewer)?;
    let listing = node.listing(&[0])?;
    let heard = node.cluster.heard_ago();
    let items = all(&node, listing.view())?.into_values().collect();
    let silent = node.cluster.book.all().into_iter().filter(|known| !known.is_up());
    let missing_nodes = silent.map(|known| known.row.name).collect();
    let list = Gathered { items, next_cursor: None, missing_nodes };
    Ok(Listed::of(list, &listing).with_heard(heard))
}

fn all(node: &Node, view: &dyn View) -> Answer<BTreeMap<String, Queue>> {
    let mut queues: BTreeMap<String, Queue> = BTreeMap::new();
    let named = |name: &str| Queue { name: name.to_owned(), ..Queue::default() };
    for (name, row) in read::queues(view, 0)? {
        queues.insert(name.clone(), bounded(named(&name), &row));
    }
    for (name, (running, waiting)) in node.cluster.queues() {
        let queue = queues.entry(name.clone()).or_insert_with(|| named(&name));
        (queue.running, queue.waiting) = (running, waiting);
    }
    Ok(queues)
}

fn bounded(queue: Queue, row: &QueueRow) -> Queue {
    Queue {
        concurrency: (row.concurrency > 0).then_some(row.concurrency),
        rate_per_second: (row.rate_milli > 0).then(|| row.rate_milli as f64 / 1_000.0),
        paused: row.paused.as_ref().map(present::mark),
        ..queue
    }
}

/// Sets bounds of a queue. What is absent stays as it is; 0 takes a bound away.
#[utoipa::path(put, path = "/v1/queues/{queue}", tag = "workers", operation_id = "putQueue",
    params(("queue" = String, Path, description = "The queue")),
    request_body = QueueSpec,
    responses(
        (status = 200, description = "The queue as it is now", body = Queue),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn put(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(name): Path<String>,
    JsonBody(spec): JsonBody<QueueSpec>,
) -> Answer<Json<Queue>> {
    caller.need(Role::Operator)?;
    if caller.namespace.is_some() {
        let detail = "queues belong to all namespaces, and this token to one";
        return Err(Problem::new(403, "other_namespace", detail).into());
    }
    if name.is_empty() || name.len() > 128 {
        let detail = "the name of a queue has 1 to 128 characters";
        return Err(Problem::new(422, "invalid_name", detail).at("queue").into());
    }
    let rate = spec.rate_per_second;
    if rate.is_some_and(|rate| !(rate == 0.0 || (0.001..=MOST).contains(&rate))) {
        let detail = "rate_per_second is 0, or from 0.001 to 1000000";
        return Err(Problem::new(422, "out_of_range", detail).at("rate_per_second").into());
    }
    if spec.concurrency.is_some_and(|most| f64::from(most) > MOST) {
        let detail = "concurrency is at most 1000000";
        return Err(Problem::new(422, "out_of_range", detail).at("concurrency").into());
    }
    let change = QueueChange {
        concurrency: spec.concurrency,
        rate_milli: rate.map(|rate| (rate * 1_000.0).round() as u64),
        paused: spec.paused,
        note: note(spec.note)?,
    };
    let input = Input::PutQueue { actor: caller.name.clone(), name: name.clone(), change };
    node.shards[0].ask(input).await?;
    node.load_queues()?;
    let queue = all(&node, &*node.view())?.remove(&name);
    Ok(Json(queue.unwrap_or_else(|| Queue { name, ..Queue::default() })))
}
