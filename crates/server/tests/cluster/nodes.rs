//! Nodes for a test: three, or as many as it wants.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bellwether_api::{Job, JobSpec, Worker};
use bellwether_client::Client;
use bellwether_protocol::node::v1::nodes_client::NodesClient;
use bellwether_protocol::v1 as wire;
use bellwether_protocol::v1::from_worker::Message as Said;
use bellwether_protocol::v1::to_worker::Message as Told;
use bellwether_protocol::v1::workers_client::WorkersClient;
use bellwether_raft::net::{Dialing, Way};
use bellwether_server::{Config, RunningServer};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::address::own_address;
use crate::insist::insist;

/// How long a condition may take to come true, on a machine that is busy.
pub const PATIENCE: Duration = Duration::from_secs(150);
const SHARDS: u16 = 4;

/// A node.
pub struct Node {
    pub server: RunningServer,
    pub client: Client,
    pub dir: TempDir,
}

/// A worker that does whatever it gets at once.
pub struct Obedient {
    ran: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Obedient {
    /// How many attempts it has run.
    pub fn ran(&self) -> usize {
        self.ran.load(Ordering::Relaxed)
    }

    pub async fn stop(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

impl Node {
    /// Sends a request as it stands: status and body.
    pub async fn send(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let url = format!("http://{}{path}", self.server.local_addr());
        let request = http_client().request(method.parse().unwrap(), url);
        let answer = request.body(body.to_string()).send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// Sends a request of a worker that polls until it is answered: it may be refused for a moment
    /// while leaders or nodes change.
    pub async fn ask(&self, what: &str, body: &Value) -> Value {
        let begun = Instant::now();
        let mut interval = tokio::time::interval(Duration::from_millis(50));
        loop {
            let path = format!("/v1/queues/default/{what}");
            let (status, answer) = self.send("POST", &path, body.clone()).await;
            if status == 200 {
                return answer;
            }
            assert_eq!(status, 503, "{answer}");
            assert!(begun.elapsed() < PATIENCE, "{what} is not answered: {answer}");
            interval.tick().await;
        }
    }

    /// Creates a job. One without a key gets one, so that this can be repeated.
    pub async fn create(&self, mut spec: Value) -> Job {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        if spec["key"].is_null() {
            spec["key"] = format!("made-{}", MADE.fetch_add(1, Ordering::Relaxed)).into();
        }
        let spec = spec_of(spec);
        insist(async || self.client.create_job(spec.clone()).await).await.job
    }

    /// The workers of all nodes but those that are to be missing; `None` if others have not answered in time.
    pub async fn workers(&self, missing: &[&str]) -> Option<Vec<Worker>> {
        let listed = self.client.workers().await.ok()?;
        (listed.missing_nodes == missing).then_some(listed.items)
    }

    /// The way to it for other nodes of its cluster.
    pub async fn way(&self) -> NodesClient<Way> {
        let cluster = self.client.cluster().await.unwrap().id;
        let (address, node) = (self.server.peer_address().unwrap(), self.server.node_number());
        NodesClient::new(Dialing::default().way_to(&address, &cluster, node).unwrap())
    }

    /// Connects a worker to the node that has the handler `echo`.
    pub async fn dial(&self, name: &str) -> Obedient {
        let address = format!("http://{}", self.server.local_addr());
        let channel = tonic::transport::Endpoint::from_shared(address).unwrap();
        let mut client = WorkersClient::new(channel.connect().await.unwrap());
        let (say, said) = mpsc::channel(16);
        let hello = wire::Hello {
            name: name.into(),
            instance: format!("{name}-1"),
            job_types: vec!["echo".into()],
            capacity: Some(wire::Capacity { mode: Some(wire::capacity::Mode::Slots(4)) }),
            ..Default::default()
        };
        let message = |message| wire::FromWorker { message: Some(message) };
        say.send(message(Said::Hello(hello))).await.unwrap();
        let mut hear = client.work(ReceiverStream::new(said)).await.unwrap().into_inner();
        let ran = Arc::new(AtomicUsize::new(0));
        let counted = ran.clone();
        let task = tokio::spawn(async move {
            let mut number = 0;
            while let Ok(Some(told)) = hear.message().await {
                let Some(Told::Assignments(given)) = told.message else { continue };
                let reports = given.assignments.into_iter().map(|given| {
                    counted.fetch_add(1, Ordering::Relaxed);
                    let finished = wire::Finished {
                        ending: wire::Ending::Succeeded.into(),
                        finished_ms: 1,
                        ..Default::default()
                    };
                    let what = Some(wire::report::What::Finished(finished));
                    wire::Report { run: given.run, token: given.token, what }
                });
                number += 1;
                let reports = wire::Reports { number, reports: reports.collect() };
                if say.send(message(Said::Reports(reports))).await.is_err() {
                    return;
                }
            }
        });
        Obedient { ran, task }
    }
}

/// What is left of a node that has stopped.
pub struct Left {
    dir: TempDir,
    peer: String,
}

/// The settings of a node.
pub fn config(dir: &TempDir, peer: &str, join: Vec<String>) -> Config {
    Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        peer_listen: Some(peer.parse().unwrap()),
        join: join.iter().map(|address| address.parse().unwrap()).collect(),
        data_dir: dir.path().join("data"),
        shards: Some(SHARDS),
        shutdown_grace: Duration::from_secs(5),
        ..Config::default()
    }
}

async fn start(dir: TempDir, peer: &str, join: Vec<String>, change: &dyn Fn(&mut Config)) -> Node {
    let mut config = config(&dir, peer, join);
    change(&mut config);
    start_with(dir, config).await
}

/// Starts a node in a directory. With `RUST_LOG` it says what it does.
pub async fn start_with(dir: TempDir, config: Config) -> Node {
    let _ = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_test_writer()
        .try_init();
    let server = bellwether_server::start(config).await.unwrap();
    let client = Client::new(&server.local_addr().to_string()).unwrap();
    Node { server, client, dir }
}

async fn start_again(left: Left, change: &dyn Fn(&mut Config)) -> Node {
    start(left.dir, &left.peer, Vec::new(), change).await
}

/// Three nodes that are one cluster.
pub struct Trio {
    pub nodes: Vec<Node>,
    change: Box<dyn Fn(&mut Config)>,
}

impl Left {
    /// Lets it be reached somewhere else from now on.
    pub fn moved(self) -> Left {
        Left { peer: own_address(), ..self }
    }
}

impl Trio {
    /// Starts three nodes, and waits until every shard has a replica on each.
    pub async fn start() -> Trio {
        Trio::start_with(|_| {}).await
    }

    /// The same with other settings.
    pub async fn start_with(change: impl Fn(&mut Config) + 'static) -> Trio {
        let trio = Trio::start_many(3, change).await;
        trio.settled().await;
        trio
    }

    /// As many as wanted, which have yet to settle.
    pub async fn start_many(count: usize, change: impl Fn(&mut Config) + 'static) -> Trio {
        let dir = tempfile::tempdir().unwrap();
        let first = start(dir, &own_address(), Vec::new(), &change).await;
        let join = vec![first.server.peer_address().unwrap()];
        let mut nodes = vec![first];
        while nodes.len() < count {
            let dir = tempfile::tempdir().unwrap();
            nodes.push(start(dir, &own_address(), join.clone(), &change).await);
        }
        Trio { nodes, change: Box::new(change) }
    }

    /// Nodes that were started by themselves.
    pub fn of(nodes: Vec<Node>, change: impl Fn(&mut Config) + 'static) -> Trio {
        Trio { nodes, change: Box::new(change) }
    }

    /// Waits until every shard has three voters, and every node leads some.
    pub async fn settled(&self) {
        self.until("replicas are everywhere and leaders are spread", async || {
            let Ok(cluster) = self.nodes[0].client.cluster().await else { return false };
            cluster.nodes.len() == self.nodes.len()
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

    /// Starts one more, which has yet to settle.
    pub async fn grow(&mut self) {
        let join = vec![self.nodes[0].server.peer_address().unwrap()];
        let dir = tempfile::tempdir().unwrap();
        self.nodes.push(start(dir, &own_address(), join, &*self.change).await);
    }

    /// Starts a node again where it was.
    pub async fn bring_back(&mut self, at: usize, left: Left) {
        let node = start_again(left, &*self.change).await;
        self.nodes.insert(at, node);
        self.settled().await;
    }

    /// Starts a node again where it was, however the others are.
    pub async fn start_again(&mut self, left: Left) {
        let node = start_again(left, &*self.change).await;
        self.nodes.push(node);
    }

    /// Starts nodes again at the same time, after the others have been stopped.
    pub async fn start_all_again(&mut self, left: Vec<Left>) {
        let starting = left.into_iter().map(|left| start_again(left, &*self.change));
        self.nodes.extend(futures::future::join_all(starting).await);
        self.settled().await;
    }

    /// Tries to start a node on a directory.
    pub async fn try_start(dir: &TempDir) -> anyhow::Result<RunningServer> {
        bellwether_server::start(config(dir, &own_address(), Vec::new())).await
    }

    /// Tries to start a new node that joins.
    pub async fn try_join(
        dir: &TempDir,
        join: &str,
        change: &dyn Fn(&mut Config),
    ) -> anyhow::Result<RunningServer> {
        let mut config = config(dir, &own_address(), vec![join.to_owned()]);
        change(&mut config);
        bellwether_server::start(config).await
    }

    /// Waits until something holds.
    pub async fn until(&self, what: &str, holds: impl AsyncFnMut() -> bool) {
        until(what, holds).await;
    }

    /// Stops all nodes.
    pub async fn stop(self) {
        let stopping = self.nodes.into_iter().map(|node| node.server.shutdown());
        for stopped in futures::future::join_all(stopping).await {
            stopped.unwrap();
        }
    }
}

/// Waits until something holds.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    let mut interval = tokio::time::interval(Duration::from_millis(50));
    while !holds().await {
        assert!(begun.elapsed() < PATIENCE, "waited too long: {what}");
        interval.tick().await;
    }
}

/// A job from JSON.
pub fn spec_of(spec: Value) -> JobSpec {
    serde_json::from_value(spec).unwrap()
}

/// A client for requests that the typed one would not make.
pub fn http_client() -> reqwest::Client {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy().build().unwrap()
}

/// Gives nodes, in the order in which they are started, the names a, b and c. The worker of each has
/// its name, and takes from the queue of that name.
pub fn named(also: impl Fn(&mut Config) + 'static) -> impl Fn(&mut Config) + 'static {
    let started = AtomicUsize::new(0);
    move |config| {
        let name = ["a", "b", "c"][started.fetch_add(1, Ordering::Relaxed) % 3];
        config.name = Some(name.to_owned());
        config.worker_name = Some(name.to_owned());
        config.worker_queues = vec![name.to_owned()];
        also(config);
    }
}
