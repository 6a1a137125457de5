//! What the figures of nodes say while shards move.

use serde_json::json;

use crate::nodes::{Node, Trio};

/// A figure of a node.
async fn figure(node: &Node, name: &str) -> u64 {
    let text = node.client.metrics().await.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("{name} is not in {text}")).parse().unwrap()
}

/// Runs jobs, and waits until the nodes have counted them besides what they had.
async fn run_jobs(trio: &Trio, count: u64) {
    let succeeded = async || {
        let mut sum = 0;
        for node in &trio.nodes {
            sum += figure(node, "bellwether_runs_succeeded_total").await;
        }
        sum
    };
    let before = succeeded().await;
    for _ in 0..count {
        let spec = json!({"schedule": {"delay": "0s"}, "job_type": "bellwether.noop"});
        trio.nodes[0].create(spec).await;
    }
    trio.until("all have run", async || succeeded().await == before + count).await;
}

/// R130: what is counted never becomes less as long as a node runs. Whoever reads counters would take
/// that for a restart, and all that is left for new.
#[tokio::test(flavor = "multi_thread")]
async fn r130_counters_of_a_node_never_become_less_when_shards_move_away_and_back() {
    let mut trio = Trio::start().await;
    let shards = trio.nodes[0].client.cluster().await.unwrap().shards.len() as u64;
    let mut before = [0, 0];
    for turn in 0..2 {
        run_jobs(&trio, 24).await;
        let gone = trio.take_down(2).await;
        trio.until("all shards act on the two that are left", async || {
            let of = async |at: usize| figure(&trio.nodes[at], "bellwether_shards").await;
            of(0).await + of(1).await == shards
        })
        .await;
        run_jobs(&trio, 24).await;
        for (at, least) in before.iter_mut().enumerate() {
            let now = figure(&trio.nodes[at], "bellwether_launches_total").await;
            assert!(now > *least, "node {at}, turn {turn}: {now} after {least}");
            *least = now;
        }
        trio.until("it is known that one is down, and nothing else is amiss", async || {
            let node = &trio.nodes[0];
            figure(node, "bellwether_nodes").await == 3
                && figure(node, "bellwether_nodes_down").await == 1
                && figure(node, "bellwether_shards_without_leader").await == 0
                && figure(node, "bellwether_replica_lag_entries").await == 0
        })
        .await;
        trio.bring_back(2, gone).await;
    }
    trio.stop().await;
}
