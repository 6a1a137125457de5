//! Bounds of queues hold for all nodes together.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use bellwether_api::{QueueSpec, Run, RunStatus};
use bellwether_client::{Client, RunFilter};
use serde_json::{Value, json};

use crate::nodes::Trio;

/// Bounds are known on all nodes before jobs with this delay are due.
const LATER: &str = "3s";

async fn runs(client: &Client, queue: &str) -> Vec<Run> {
    let filter = RunFilter {
        status: Some(RunStatus::Succeeded),
        queue: Some(queue.to_owned()),
        limit: Some(200),
        ..RunFilter::default()
    };
    client.runs(&filter).await.map(|page| page.items).unwrap_or_default()
}

/// Adds jobs, by way of all nodes in turn.
async fn add(trio: &Trio, queue: &str, count: usize, target: &Value) {
    for n in 0..count {
        let mut spec = json!({"queue": queue, "schedule": {"delay": LATER}});
        spec.as_object_mut().unwrap().extend(target.as_object().unwrap().clone());
        trio.nodes[n % 3].create(spec).await;
    }
}

async fn leader_of_shard_0(trio: &Trio) -> usize {
    let cluster = trio.nodes[0].client.cluster().await.unwrap();
    let leader = cluster.shards[0].leader.clone().unwrap();
    let number = cluster.nodes.iter().find(|node| node.name == leader).unwrap().node;
    trio.nodes.iter().position(|node| node.server.node_number() == number).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_nodes_together_have_no_more_of_a_queue_under_way_than_it_may() {
    const JOBS: usize = 48;
    let named = AtomicUsize::new(0);
    let mut trio = Trio::start_with(move |config| {
        config.worker_name = Some(format!("w{}", named.fetch_add(1, Ordering::Relaxed)));
    })
    .await;
    let bound = QueueSpec { concurrency: Some(2), ..QueueSpec::default() };
    trio.nodes[1].client.put_queue("narrow", &bound).await.unwrap();
    // Each says how many of them there are while it runs.
    let (here, said) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (here, log) = (here.path().display().to_string(), said.path().join("log"));
    let line = format!(
        "touch {here}/$$ && ls {here} | wc -l >> {} && sleep 0.1 && rm {here}/$$",
        log.display()
    );
    add(&trio, "narrow", JOBS, &json!({"command": line})).await;
    let client = trio.nodes[0].client.clone();
    trio.until("some have run", async || runs(&client, "narrow").await.len() >= JOBS / 4).await;
    // Whoever divides the bound goes away in the middle of it.
    let keeper = leader_of_shard_0(&trio).await;
    let _left = trio.take_down(keeper).await;
    let client = trio.nodes[0].client.clone();
    trio.until("all have run", async || runs(&client, "narrow").await.len() == JOBS).await;
    let said = std::fs::read_to_string(&log).unwrap();
    let said: Vec<usize> = said.lines().map(|line| line.trim().parse().unwrap()).collect();
    assert!(said.len() >= JOBS && said.iter().all(|count| *count <= 2), "{said:?}");
    let runs = runs(&client, "narrow").await;
    let workers: BTreeSet<&str> = runs.iter().map(|run| run.attempts[0].worker.as_str()).collect();
    assert_eq!(workers.len(), 3, "{workers:?}");
    trio.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_nodes_together_launch_no_more_of_a_queue_than_its_rate_allows() {
    const JOBS: usize = 30;
    const RATE: usize = 6;
    let trio = Trio::start().await;
    let bound = QueueSpec { rate_per_second: Some(RATE as f64), ..QueueSpec::default() };
    trio.nodes[2].client.put_queue("slow", &bound).await.unwrap();
    add(&trio, "slow", JOBS, &json!({"job_type": "bellwether.noop"})).await;
    let client = trio.nodes[0].client.clone();
    trio.until("all have run", async || runs(&client, "slow").await.len() == JOBS).await;
    let runs = runs(&client, "slow").await;
    let mut times: Vec<i64> = runs.iter().map(|run| run.attempts[0].claimed_at.0.0).collect();
    times.sort_unstable();
    let took_ms = times[JOBS - 1] - times[0];
    // A second's worth may go at once, and the first may be late by a second if the machine is busy.
    let least_ms = ((JOBS - 1 - RATE) * 1_000 / RATE) as i64 - 1_000;
    assert!(took_ms >= least_ms, "{took_ms} < {least_ms}: {times:?}");
    trio.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r38_a_queue_that_is_paused_at_one_node_launches_nothing_at_any() {
    let trio = Trio::start().await;
    let paused = QueueSpec { paused: Some(true), ..QueueSpec::default() };
    trio.nodes[0].client.put_queue("held", &paused).await.unwrap();
    let noop = json!({"job_type": "bellwether.noop"});
    add(&trio, "held", 12, &noop).await;
    add(&trio, "other", 12, &noop).await;
    let client = trio.nodes[1].client.clone();
    trio.until("the others have run", async || runs(&client, "other").await.len() == 12).await;
    for node in &trio.nodes {
        trio.until("every node shows what waits in all", async || {
            let queues = node.client.queues().await.unwrap().items;
            queues.iter().any(|q| q.name == "held" && (q.running, q.waiting) == (0, 12))
        })
        .await;
    }
    assert!(runs(&client, "held").await.is_empty());
    let on = QueueSpec { paused: Some(false), ..QueueSpec::default() };
    trio.nodes[2].client.put_queue("held", &on).await.unwrap();
    trio.until("they run when they may", async || runs(&client, "held").await.len() == 12).await;
    trio.stop().await;
}
