//! Workers that ask by plain HTTP, and another node each time.

use std::time::{Duration, Instant};

use bellwether_api::{RunStatus, Worker};
use serde_json::{Value, json};

use crate::nodes::Trio;

const LEASE: Duration = Duration::from_secs(4);
/// As long as it takes until a worker that nobody hears is given up, wherever that is noticed.
const LONG: Duration = Duration::from_secs(12);

async fn trio() -> Trio {
    Trio::start_with(|config| {
        config.worker = false;
        config.worker_heartbeat = Duration::from_millis(500);
        config.worker_lease = LEASE;
    })
    .await
}

/// Leases so many runs, each at another node, of jobs that are made for it.
async fn lease(trio: &Trio, count: usize) -> Vec<Value> {
    for node in trio.nodes.iter().cycle().take(count) {
        let spec =
            json!({"schedule": {"delay": "0s"}, "job_type": "x", "delivery": "at_least_once"});
        node.create(spec).await;
    }
    let mut runs: Vec<Value> = Vec::new();
    let mut nodes = trio.nodes.iter().cycle();
    while runs.len() < count {
        let ask = json!({"worker": "p", "job_types": ["x"], "wait": "20s"});
        let answer = nodes.next().unwrap().ask("lease", &ask).await;
        runs.extend(answer["runs"].as_array().unwrap().iter().cloned());
        // What it has is kept while it waits for more.
        let kept = nodes.next().unwrap().ask("heartbeat", &beat(&runs)).await;
        assert_eq!(kept["lost"], json!([]), "{kept}");
    }
    runs
}

fn beat(runs: &[Value]) -> Value {
    let of = |run: &Value| json!({"run_id": run["run_id"], "fencing_token": run["fencing_token"]});
    json!({"worker": "p", "runs": runs.iter().map(of).collect::<Vec<_>>()})
}

/// Sends heartbeats to all nodes in turn for so long. Nothing may be lost.
async fn keep(trio: &Trio, runs: &[Value], time: Duration) {
    let begun = Instant::now();
    let mut interval = tokio::time::interval(Duration::from_millis(300));
    for node in trio.nodes.iter().cycle() {
        let kept = node.ask("heartbeat", &beat(runs)).await;
        assert_eq!(kept["lost"], json!([]), "after {:?}: {kept}", begun.elapsed());
        if begun.elapsed() > time {
            return;
        }
        interval.tick().await;
    }
}

/// The workers that a node lists, once all nodes have told it theirs in time. Until then the worker keeps what it has.
async fn workers(trio: &Trio, at: usize, runs: &[Value]) -> Vec<Worker> {
    let (node, mut workers) = (&trio.nodes[at], None);
    trio.until("all nodes tell their workers in time", async || {
        node.ask("heartbeat", &beat(runs)).await;
        workers = node.workers(&[]).await;
        workers.is_some()
    })
    .await;
    workers.unwrap()
}

/// Says that runs have succeeded, each to another node.
async fn complete(trio: &Trio, runs: &[Value]) {
    for (run, node) in runs.iter().zip(trio.nodes.iter().cycle()) {
        let id = run["run_id"].as_str().unwrap();
        let ended =
            json!({"run_id": id, "fencing_token": run["fencing_token"], "outcome": "succeeded"});
        let body = json!({"worker": "p", "results": [ended]});
        let answer = node.ask("complete", &body).await;
        assert_eq!(answer["results"][0]["accepted"], true, "{answer}");
        for node in &trio.nodes {
            let run = node.client.run(id).await.unwrap();
            assert_eq!((run.status, run.attempts.len()), (RunStatus::Succeeded, 1));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r21_a_worker_that_polls_may_ask_another_node_each_time() {
    let trio = trio().await;
    let runs = lease(&trio, 6).await;
    keep(&trio, &runs, 2 * LEASE).await;
    let workers = workers(&trio, 0, &runs).await;
    assert_eq!((workers.len(), workers[0].running), (1, 6), "{workers:?}");
    // One that is canceled is told, wherever the worker asks.
    let canceled = runs[0]["run_id"].as_str().unwrap();
    trio.nodes[1].client.cancel_run(canceled).await.unwrap();
    for node in &trio.nodes {
        trio.until("it is to be stopped", async || {
            node.ask("heartbeat", &beat(&runs)).await["stop"] == json!([canceled])
        })
        .await;
    }
    complete(&trio, &runs[1..]).await;
    // What it does not name any more it does not have.
    let last = json!({"worker": "p", "runs": []});
    trio.until("given up", async || {
        trio.nodes[2].ask("heartbeat", &last).await;
        trio.nodes[0].client.run(canceled).await.unwrap().status == RunStatus::Canceled
    })
    .await;
    trio.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r21_what_a_worker_that_polls_has_outlives_the_node_of_its_seat() {
    let mut trio = trio().await;
    let runs = lease(&trio, 6).await;
    let name = workers(&trio, 2, &runs).await.remove(0).node;
    let at = trio.nodes.iter().position(|node| node.server.names().0 == name).unwrap();
    let _gone = trio.take_down(at).await;
    keep(&trio, &runs, LONG).await;
    complete(&trio, &runs).await;
    trio.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r103_a_worker_that_polls_and_falls_silent_is_given_up_by_the_leaders() {
    let trio = trio().await;
    let runs = lease(&trio, 4).await;
    for run in &runs {
        let id = run["run_id"].as_str().unwrap();
        trio.until("another attempt waits", async || {
            trio.nodes[1].client.run(id).await.unwrap().status == RunStatus::Queued
        })
        .await;
    }
    // What it says now is too late.
    let late = trio.nodes[0].ask("heartbeat", &beat(&runs)).await;
    assert_eq!(late["lost"].as_array().unwrap().len(), runs.len(), "{late}");
    trio.stop().await;
}
