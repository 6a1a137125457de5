//! Three nodes for a test.

use std::time::{Duration, Instant};

use bellwether_api::JobSpec;
use bellwether_client::Client;
use bellwether_server::{Config, RunningServer};
use serde_json::Value;
use tempfile::TempDir;

/// How long a condition may take to come true, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(90);
const SHARDS: u16 = 4;

/// A node.
pub struct Node {
    pub server: RunningServer,
    pub client: Client,
    pub dir: TempDir,
}

/// What is left of a node that has stopped.
pub struct Left {
    dir: TempDir,
    peer: String,
}

fn config(dir: &TempDir, peer: &str, join: Vec<String>) -> Config {
    Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        peer_listen: Some(peer.parse().unwrap()),
        join,
        data_dir: dir.path().join("data"),
        shards: Some(SHARDS),
        shutdown_grace: Duration::from_secs(5),
        ..Config::default()
    }
}

async fn start(dir: TempDir, peer: &str, join: Vec<String>) -> Node {
    let server = bellwether_server::start(config(&dir, peer, join)).await.unwrap();
    let client = Client::new(&server.local_addr().to_string()).unwrap();
    Node { server, client, dir }
}

async fn start_again(left: Left) -> Node {
    start(left.dir, &left.peer, Vec::new()).await
}

/// Three nodes that are one cluster.
pub struct Trio {
    pub nodes: Vec<Node>,
}

impl Trio {
    /// Starts three nodes, and waits until every shard has a replica on each.
    pub async fn start() -> Trio {
        let _ = tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_test_writer()
            .try_init();
        let any = "127.0.0.1:0";
        let first = start(tempfile::tempdir().unwrap(), any, Vec::new()).await;
        let join = vec![first.server.peer_address().unwrap()];
        let second = start(tempfile::tempdir().unwrap(), any, join.clone()).await;
        let third = start(tempfile::tempdir().unwrap(), any, join).await;
        let trio = Trio { nodes: vec![first, second, third] };
        trio.settled().await;
        trio
    }

    /// Waits until every shard has three voters, and every node leads some.
    pub async fn settled(&self) {
        self.until("replicas are everywhere and leaders are spread", async || {
            let Ok(cluster) = self.nodes[0].client.cluster().await else { return false };
            cluster.nodes.len() == 3
                && cluster.shards.len() == usize::from(SHARDS)
                && cluster.shards.iter().all(|shard| shard.voters.len() == 3)
                && self.nodes.iter().all(|node| node.server.acting_shards() > 0)
        })
        .await;
    }

    /// Stops a node in order.
    pub async fn take_down(&mut self, at: usize) -> Left {
        let node = self.nodes.remove(at);
        let peer = node.server.peer_address().unwrap();
        node.server.shutdown().await.unwrap();
        Left { dir: node.dir, peer }
    }

    /// Starts a node again where it was.
    pub async fn bring_back(&mut self, at: usize, left: Left) {
        let node = start_again(left).await;
        self.nodes.insert(at, node);
        self.settled().await;
    }

    /// Starts a node again where it was, however the others are.
    pub async fn start_again(&mut self, left: Left) {
        self.nodes.push(start_again(left).await);
    }

    /// Tries to start a node on a directory.
    pub async fn try_start(dir: &TempDir) -> anyhow::Result<RunningServer> {
        bellwether_server::start(config(dir, "127.0.0.1:0", Vec::new())).await
    }

    /// Waits until something holds.
    pub async fn until(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let begun = Instant::now();
        let mut interval = tokio::time::interval(Duration::from_millis(50));
        while !holds().await {
            assert!(begun.elapsed() < PATIENCE, "waited too long: {what}");
            interval.tick().await;
        }
    }

    /// Stops all nodes.
    pub async fn stop(self) {
        for node in self.nodes {
            node.server.shutdown().await.unwrap();
        }
    }
}

/// A job from JSON.
pub fn spec_of(spec: Value) -> JobSpec {
    serde_json::from_value(spec).unwrap()
}
