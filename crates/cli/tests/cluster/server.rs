//! The nodes under test: real processes.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bellwether_client::Client;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::address::own_address;

/// How long anything may take, on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A node that can be killed.
pub struct Server {
    name: String,
    dir: PathBuf,
    peer: String,
    listen: String,
    join: Option<String>,
    /// The directory with its certificate, if it has one.
    certs: Option<PathBuf>,
    lease: Option<&'static str>,
    process: Child,
    /// How to talk to it.
    pub client: Client,
}

/// What some tests want of all nodes.
#[derive(Clone, Copy, Default)]
pub struct Extra<'a> {
    /// Certificates of the authority of this directory.
    pub certs: Option<&'a Path>,
    /// Another lease for workers.
    pub lease: Option<&'static str>,
}

impl<'a> Extra<'a> {
    /// Certificates of the authority of a directory.
    pub fn certified(certs: &'a Path) -> Extra<'a> {
        Extra { certs: Some(certs), ..Extra::default() }
    }
}

/// How a node is started.
struct Start<'a> {
    name: &'a str,
    dir: &'a Path,
    listen: &'a str,
    peer: &'a str,
    join: Option<&'a str>,
    extra: Extra<'a>,
}

impl Start<'_> {
    fn spawn(&self) -> Child {
        let Start { name, dir, listen, peer, join, extra } = self;
        let log = dir.join(format!("{name}.log"));
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_bellwether"));
        command
            .args(["server", "--name", name, "--listen", listen, "--peer-listen", peer])
            .args(["--zone", &format!("zone-{name}")])
            .args(["--worker-slots", "16", "--worker-heartbeat", "500ms"])
            .args(["--worker-lease", extra.lease.unwrap_or("3s")])
            .arg("--data-dir")
            .arg(dir.join(name));
        match join {
            Some(join) => command.args(["--join", join]),
            None => command.args(["--shards", "6"]),
        };
        if let Some(certs) = extra.certs {
            command.arg("--peer-ca").arg(certs.join("ca.crt"));
            command.arg("--peer-cert").arg(certs.join(format!("{name}.crt")));
            command.arg("--peer-key").arg(certs.join(format!("{name}.key")));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap()
    }
}

/// Makes a certificate for a node at an address, of the authority of a directory, unless it has one there.
pub fn certify(certs: &Path, name: &str, address: &str) {
    if certs.join(format!("{name}.crt")).exists() {
        return;
    }
    let host = address.split(':').next().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bellwether"));
    command.args(["cluster", "certs", "--node", name, "--address", host]).arg("--dir").arg(certs);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

impl Server {
    /// Starts a new node and waits until it is ready.
    pub async fn start(dir: &Path, name: &str, join: Option<&str>) -> Server {
        Server::start_with(dir, name, join, Extra::default()).await
    }

    /// The same, with something more.
    pub async fn start_with(
        dir: &Path,
        name: &str,
        join: Option<&str>,
        extra: Extra<'_>,
    ) -> Server {
        let mut server = Server::spawn(dir, name, join, extra);
        server.until_ready().await;
        server
    }

    /// Starts a new node, which may never be ready.
    pub fn spawn(dir: &Path, name: &str, join: Option<&str>, extra: Extra<'_>) -> Server {
        let (listen, peer) = (own_address(), own_address());
        if let Some(certs) = extra.certs {
            certify(certs, name, &peer);
        }
        let start = Start { name, dir, listen: &listen, peer: &peer, join, extra };
        let process = start.spawn();
        let client = Client::new(&listen).unwrap();
        let (join, certs) = (join.map(str::to_owned), extra.certs.map(Path::to_owned));
        let lease = extra.lease;
        let (name, dir) = (name.to_owned(), dir.to_owned());
        Server { name, dir, peer, listen, join, certs, lease, process, client }
    }

    /// Starts it again where it was.
    pub async fn start_again(&mut self) {
        let Server { name, dir, listen, peer, .. } = &*self;
        let join = self.join.as_deref();
        let extra = Extra { certs: self.certs.as_deref(), lease: self.lease };
        self.process = Start { name, dir, listen, peer, join, extra }.spawn();
        self.until_ready().await;
    }

    async fn until_ready(&mut self) {
        let begun = Instant::now();
        let mut look = tokio::time::interval(Duration::from_millis(20));
        while !self.client.health().await.is_ok_and(|health| health.detail == "ready") {
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none(), "{} ended ({ended:?}): {}", self.name, self.log());
            assert!(begun.elapsed() < PATIENCE, "{} is not ready: {}", self.name, self.log());
            look.tick().await;
        }
    }

    /// What it has said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join(format!("{}.log", self.name))).unwrap_or_default()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where other nodes reach it.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Where its API is.
    pub fn listen(&self) -> &str {
        &self.listen
    }

    /// Pulls the plug.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Stops it in order, and waits until it has ended.
    pub async fn stop(&mut self) {
        self.signal(Signal::SIGTERM);
        assert!(self.until_ended().await, "it ends in order: {}", self.log());
    }

    /// Lets it stand still.
    pub fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.id().cast_signed()), signal).unwrap();
    }

    /// Waits until it has ended by itself; whether that was in order.
    pub async fn until_ended(&mut self) -> bool {
        let begun = Instant::now();
        let mut look = tokio::time::interval(Duration::from_millis(20));
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status.success();
            }
            assert!(begun.elapsed() < PATIENCE, "{} does not end: {}", self.name, self.log());
            look.tick().await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Three nodes that are one cluster.
pub struct Trio {
    pub nodes: Vec<Server>,
}

impl Trio {
    /// Starts them in a directory, and waits until replicas and leaders are spread.
    pub async fn start(dir: &Path) -> Trio {
        Trio::start_with(dir, Extra::default()).await
    }

    /// The same, with something more.
    pub async fn start_with(dir: &Path, extra: Extra<'_>) -> Trio {
        let first = Server::start_with(dir, "a", None, extra).await;
        let join = first.peer().to_owned();
        let (second, third) = tokio::join!(
            Server::start_with(dir, "b", Some(&join), extra),
            Server::start_with(dir, "c", Some(&join), extra)
        );
        let trio = Trio { nodes: vec![first, second, third] };
        trio.settled().await;
        trio
    }

    /// Waits until every node is up and leads something and every shard has its replicas, as all of
    /// them see it.
    pub async fn settled(&self) {
        for node in &self.nodes {
            until("replicas and leaders are spread", async || {
                let Ok(cluster) = node.client.cluster().await else { return false };
                let all = self.nodes.len();
                cluster.nodes.len() == all
                    && cluster.nodes.iter().all(|node| node.state == "up" && node.leads > 0)
                    && cluster.shards.iter().all(|shard| shard.voters.len() >= all.min(3))
            })
            .await;
        }
    }

    /// The nodes by how many shards they lead.
    pub async fn most_leading_first(&self) -> Vec<usize> {
        let cluster = self.nodes[0].client.cluster().await.unwrap();
        let leads = |at: &usize| {
            let name = self.nodes[*at].name();
            cluster.nodes.iter().find(|node| node.name == name).map_or(0, |node| node.leads)
        };
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(leads(at)));
        order
    }
}

/// Waits until something holds.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    let mut look = tokio::time::interval(Duration::from_millis(50));
    while !holds().await {
        assert!(begun.elapsed() < PATIENCE, "waited too long: {what}");
        look.tick().await;
    }
}
