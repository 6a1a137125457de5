//! Nodes that are started anew at another address.

use serde_json::json;

use crate::nodes::{Trio, spec_of};

async fn until_all_work(trio: &Trio, key: &str) {
    for (n, node) in trio.nodes.iter().enumerate() {
        for job in 0..4 {
            let key = format!("{key}-{n}-{job}");
            let spec = json!({"key": key, "schedule": {"delay": "1h"}, "command": "true"});
            trio.until("it takes jobs", async || {
                node.client.create_job(spec_of(spec.clone())).await.is_ok()
            })
            .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r126_a_node_that_has_moved_is_reached_where_it_is_now() {
    let mut trio = Trio::start().await;
    let left = trio.take_down(2).await;
    trio.bring_back(2, left.moved()).await;
    let address = trio.nodes[2].server.peer_address().unwrap();
    let number = trio.nodes[2].server.node_number();
    for node in &trio.nodes {
        trio.until("every node knows where it is", async || {
            let cluster = node.client.cluster().await.unwrap();
            cluster.nodes.iter().any(|known| known.node == number && known.peer == address)
        })
        .await;
    }
    // Now it is needed for a majority, and its groups have to reach it.
    let _gone = trio.take_down(1).await;
    until_all_work(&trio, "moved").await;
    trio.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r126_most_nodes_may_move_while_all_are_down() {
    let mut trio = Trio::start().await;
    until_all_work(&trio, "before").await;
    let mut left = Vec::new();
    while !trio.nodes.is_empty() {
        left.push(trio.take_down(0).await);
    }
    let last = left.pop().unwrap();
    let mut left: Vec<_> = left.into_iter().map(crate::nodes::Left::moved).collect();
    left.push(last);
    trio.start_all_again(left).await;
    until_all_work(&trio, "after").await;
    for node in &trio.nodes {
        node.client.job("before-0-0").await.unwrap();
    }
    trio.stop().await;
}
