//! The first way in to a cluster that begins to want tokens, and what a node is refused for that does not fit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bellwether_api::{Role, RunStatus, TokenSpec};
use bellwether_client::Client;
use serde_json::json;

use crate::nodes::{Node, Trio, named, spec_of};

/// A client of a node that has a token, which is checked though none is wanted.
async fn known_at(made_at: &Node) -> impl Fn(&Node) -> Client + use<> {
    let (name, role) = ("known".to_owned(), Role::Admin);
    let spec = TokenSpec { name, role, namespace: None, expires_after: None };
    let secret = made_at.client.create_token(&spec).await.unwrap().secret;
    move |node| {
        let address = node.server.local_addr().to_string();
        Client::builder().server(address).token(&secret).build().unwrap()
    }
}

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

/// It has no replica of the shard that has them.
#[tokio::test(flavor = "multi_thread")]
async fn r42_a_node_that_joins_knows_all_tokens_from_its_first_answer_on() {
    let mut trio = Trio::start_many(1, |_| {}).await;
    let client_of = known_at(&trio.nodes[0]).await;
    // So that it takes a while to copy the first shard.
    let payload = "x".repeat(50_000);
    for n in 0..100 {
        let key = n.to_string();
        let spec =
            json!({"key": key, "schedule": {"delay": "1h"}, "job_type": "t", "payload": payload});
        trio.nodes[0].create(spec).await;
    }
    for _ in 0..2 {
        trio.grow().await;
        let client = client_of(trio.nodes.last().unwrap());
        client.tokens().await.unwrap();
        trio.until("it has a replica of every shard", async || {
            if let Err(error) = client.job("none").await {
                assert!(matches!(error.status(), Some(404 | 503)), "{error}");
            }
            let cluster = trio.nodes[0].client.cluster().await.unwrap();
            cluster.shards.iter().all(|shard| shard.voters.len() == trio.nodes.len())
        })
        .await;
    }
    trio.stop().await;
}

/// Nor has it then.
#[tokio::test(flavor = "multi_thread")]
async fn r42_a_node_that_leaves_knows_tokens_until_its_worker_is_done() {
    let mut trio = Trio::start_with(named(|_| {})).await;
    let client_of = known_at(&trio.nodes[0]).await;
    let leaving = trio.nodes.remove(2);
    let gate = leaving.dir.path().join("gate");
    let wait = format!("until test -e {}; do sleep 0.05; done", gate.display());
    let spec = json!({"key": "long", "schedule": {"delay": "1h"}, "command": wait, "queue": "c"});
    let (client, at_leaving) = (client_of(&trio.nodes[0]), client_of(&leaving));
    client.create_job(spec_of(spec)).await.unwrap();
    let run = client.trigger_job("long").await.unwrap();
    trio.until("it runs", async || client.run(&run).await.unwrap().status == RunStatus::Running)
        .await;
    let others = trio.nodes[0].server.names().1;
    assert!(others.contains(&"c".to_owned()), "{others:?}");
    client.remove_node("c").await.unwrap();
    trio.until("it has nothing any more", async || {
        let shards = client.cluster().await.unwrap().shards;
        let name = "c".to_owned();
        shards.iter().all(|shard| !shard.voters.contains(&name) && !shard.learners.contains(&name))
    })
    .await;
    // It looks for changes twice a second, and has no tables for long by the end of this.
    let mut looks = 0;
    trio.until("it has been asked for a while", async || {
        if let Err(error) = at_leaving.run(&run).await {
            assert_eq!(error.status(), Some(503), "{error}");
        }
        looks += 1;
        looks == 60
    })
    .await;
    std::fs::write(&gate, "").unwrap();
    leaving.server.removal().await.unwrap();
    leaving.server.shutdown().await.unwrap();
    trio.stop().await;
}
