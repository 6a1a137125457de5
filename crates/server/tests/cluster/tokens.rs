//! The first way in to a cluster that begins to want tokens, and what a node is refused for that does not fit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bellwether_client::Client;

use crate::nodes::Trio;

#[tokio::test(flavor = "multi_thread")]
async fn r42_a_cluster_that_is_restarted_node_by_node_to_want_tokens_shows_one() {
    let wanted = Arc::new(AtomicBool::new(false));
    let want = wanted.clone();
    let mut trio =
        Trio::start_with(move |config| config.require_token = want.load(Ordering::Relaxed)).await;
    wanted.store(true, Ordering::Relaxed);
    let mut shown = Vec::new();
    for _ in 0..3 {
        let left = trio.take_down(0).await;
        trio.start_again(left).await;
        let last = trio.nodes.last().unwrap();
        shown.extend(last.server.admin_token().map(str::to_owned));
        assert_eq!(shown.len(), 1, "the first node that wants one shows it, and no other");
    }
    for node in &trio.nodes {
        let address = node.server.local_addr().to_string();
        let client = Client::builder().server(address).token(&shown[0]).build().unwrap();
        trio.until("it is good at every node", async || client.tokens().await.is_ok()).await;
        assert_eq!(node.client.cluster().await.unwrap_err().status(), Some(401));
    }
    trio.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r126_a_node_with_another_number_of_shards_is_refused_before_it_is_let_in() {
    let trio = Trio::start_many(1, |_| {}).await;
    let peer = trio.nodes[0].server.peer_address().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let other = Trio::try_join(&dir, &peer, &|config| config.shards = Some(9)).await;
    let Err(error) = other else { panic!("it was let in") };
    assert!(error.to_string().contains("it has 4 shards"), "{error:#}");
    assert_eq!(trio.nodes[0].client.cluster().await.unwrap().nodes.len(), 1, "none is left behind");
    let any = Trio::try_join(&dir, &peer, &|config| config.shards = None).await.unwrap();
    assert_eq!(any.shards(), 4);
    any.shutdown().await.unwrap();
    trio.stop().await;
}
