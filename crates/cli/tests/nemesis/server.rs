//! The nodes under test: real processes, each in its own network namespace, on its own disk and with
//! its own clock.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use bellwether_client::Client;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parking_lot::Mutex;

use crate::clock::{self, Clock};
use crate::disk::Disk;
use crate::history::History;
use crate::net::Net;
use crate::worker::{self, Worker};

/// How long anything may take, on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// How long an answer may take before another node is asked.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Shards of a cluster under test.
const SHARDS: &str = "6";
/// Replicas of a shard.
const REPLICAS: usize = 3;
/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_bellwether");
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// The directory of the cluster's certificates.
const CERTIFICATES: &str = "certs";

/// A node.
pub struct Node {
    /// Its name.
    pub name: &'static str,
    at: usize,
    zone: String,
    /// Whether nodes know one another by certificates, or by a secret.
    certificates: bool,
    /// What it is started from.
    program: PathBuf,
    dir: PathBuf,
    process: Option<Child>,
    /// Where its data is.
    pub disk: Disk,
    /// Its clock, if that can be wrong.
    pub clock: Option<Clock>,
    /// Whether it is to run: if it ends, it is started again.
    wanted: bool,
    /// Whether its disk has been full since it was last started.
    was_full: bool,
}

/// A cluster. Fields are dropped in this order: processes, then what they run on.
pub struct Cluster {
    nodes: Vec<Mutex<Node>>,
    /// A worker on a machine of its own, which comes after those of the nodes.
    worker: Option<Mutex<Worker>>,
    /// How to talk to each node.
    pub clients: Vec<Client>,
    /// What connects them.
    pub net: Net,
    /// What happened to it.
    pub history: History,
    /// The numbers of its nodes.
    numbers: Vec<u64>,
}

/// What a cluster is like.
#[derive(Default)]
pub struct Shape {
    /// The zones of all nodes.
    pub zones: Vec<&'static str>,
    /// Whether the clocks of some can be wrong.
    pub clocks: bool,
    /// Whether nodes know one another by certificates, or by a secret.
    pub certificates: bool,
    /// Whether there is a worker on a machine of its own.
    pub worker: bool,
}

impl Shape {
    /// Nodes in zones, and nothing else that is special.
    pub fn of(zones: &[&'static str]) -> Shape {
        Shape { zones: zones.to_vec(), ..Shape::default() }
    }
}

impl Node {
    fn spawn(&mut self, net: &Net) {
        let log = std::fs::File::options().create(true).append(true).open(self.log_path());
        let (address, first) = (net.address(self.at), net.address(0));
        let mut command = net.command(self.at, &self.program);
        command
            .args(["server", "--insecure", "--name", self.name, "--zone", &self.zone])
            .args(["--listen", &format!("{address}:2355")])
            .args(["--peer-listen", &format!("{address}:2356")])
            .args(["--worker-slots", "16", "--worker-heartbeat", "500ms", "--worker-lease", "3s"])
            .args(["--shutdown-grace", "5s", "--data-dir"])
            .arg(self.data_dir());
        if self.certificates {
            let file = |name: &str| self.dir.join(CERTIFICATES).join(name);
            command.arg("--peer-ca").arg(file("ca.crt"));
            command.arg("--peer-cert").arg(file(&format!("{}.crt", self.name)));
            command.arg("--peer-key").arg(file(&format!("{}.key", self.name)));
        } else {
            command.arg("--cluster-secret-file").arg(self.dir.join("secret"));
        }
        match self.at {
            0 => command.args(["--shards", SHARDS]),
            _ => command.args(["--join", &format!("{first}:2356")]),
        };
        if let Some(clock) = &self.clock {
            clock.give_to(&mut command);
        }
        let command = command.env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::null());
        self.process = Some(command.stderr(log.unwrap()).spawn().unwrap());
        self.wanted = true;
        self.was_full = false;
    }

    fn log_path(&self) -> PathBuf {
        self.dir.join(format!("{}.log", self.name))
    }

    /// Where its data is.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.join(self.name).join("data")
    }

    /// What it has said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn signal(&self, signal: Signal) {
        if let Some(process) = &self.process {
            // It may have ended by itself.
            let _ = kill(Pid::from_raw(process.id().cast_signed()), signal);
        }
    }

    /// How it ended, if it has.
    fn ended(&mut self) -> Option<ExitStatus> {
        let ended = self.process.as_mut()?.try_wait().unwrap()?;
        if let Some(process) = self.process.take() {
            clock::forget(process.id());
        }
        Some(ended)
    }

    fn reap(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.wait();
            clock::forget(process.id());
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        self.reap();
    }
}

impl Cluster {
    /// Starts a cluster of a program in a directory and waits until replicas and leaders are spread.
    pub async fn start(dir: &Path, shape: Shape, program: &Path, history: History) -> Cluster {
        let size = shape.zones.len();
        let net = Net::new(size + usize::from(shape.worker));
        std::fs::write(dir.join("secret"), "known-to-these-nodes-alone\n").unwrap();
        if shape.certificates {
            NAMES.iter().take(size).enumerate().for_each(|(at, name)| certify(dir, name, &net, at));
        }
        let mut nodes = Vec::new();
        let mut clients = Vec::new();
        for (at, zone) in shape.zones.into_iter().enumerate() {
            let name = NAMES[at];
            // One node at least has a clock that is always right.
            let clock = (shape.clocks && at % 2 == 0)
                .then(|| Clock::new(dir.join(format!("{name}.clock"))));
            let disk = Disk::new(dir.join(name));
            let (zone, dir, program) = (zone.to_owned(), dir.to_owned(), program.to_owned());
            let (certificates, process) = (shape.certificates, None);
            let (wanted, was_full) = (false, false);
            nodes.push(Mutex::new(Node {
                name,
                at,
                zone,
                certificates,
                program,
                dir,
                process,
                disk,
                clock,
                wanted,
                was_full,
            }));
            let server = format!("{}:2355", net.address(at));
            clients.push(Client::builder().server(server).timeout(ANSWER_WITHIN).build().unwrap());
        }
        let numbers = Vec::new();
        let servers: Vec<_> = (0..size).map(|at| format!("{}:2355", net.address(at))).collect();
        let worker = shape.worker.then(|| Mutex::new(Worker::new(dir, &servers)));
        let mut cluster = Cluster { nodes, worker, clients, net, history, numbers };
        cluster.start_node(0);
        cluster.until_ready(0).await;
        (1..cluster.len()).for_each(|at| cluster.start_node(at));
        cluster.settled().await;
        let known = cluster.anywhere("who is there", async |client| client.cluster().await).await;
        let number =
            |name: &&str| known.nodes.iter().find(|node| node.name == **name).unwrap().node;
        cluster.numbers = NAMES[..cluster.len()].iter().map(number).collect();
        if cluster.has_worker() {
            cluster.start_worker();
            cluster.until_worker_is_there().await;
        }
        cluster
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// A node.
    pub fn node(&self, at: usize) -> parking_lot::MutexGuard<'_, Node> {
        self.nodes[at].lock()
    }

    /// The name of a node.
    pub fn name(&self, at: usize) -> &'static str {
        NAMES[at]
    }

    /// The node that has a number.
    pub fn at(&self, number: u64) -> usize {
        self.numbers.iter().position(|known| *known == number).unwrap()
    }

    /// Starts a node, or starts it again.
    pub fn start_node(&self, at: usize) {
        self.node(at).spawn(&self.net);
    }

    /// Has a node be another program from its next start on.
    pub fn install(&self, at: usize, program: &Path) {
        program.clone_into(&mut self.node(at).program);
    }

    /// Kills a node; with all that it has started if its machine is to go down.
    pub fn kill(&self, at: usize, machine: bool) {
        let mut node = self.node(at);
        node.wanted = false;
        node.signal(Signal::SIGKILL);
        if machine {
            self.net.kill_all(at);
        }
        node.reap();
    }

    /// Whether there is a worker on a machine of its own.
    pub fn has_worker(&self) -> bool {
        self.worker.is_some()
    }

    fn worker(&self) -> parking_lot::MutexGuard<'_, Worker> {
        self.worker.as_ref().unwrap().lock()
    }

    /// Starts the worker, or starts it again.
    pub fn start_worker(&self) {
        self.worker().start(self.net.command(self.len(), PROGRAM));
    }

    async fn until_worker_is_there(&self) {
        until("the worker is there", async || {
            let known = self.clients[0].workers().await;
            known.is_ok_and(|known| known.items.iter().any(|worker| worker.name == worker::NAME))
        })
        .await;
    }

    /// Kills the worker; what it has started goes on.
    pub fn kill_worker(&self) {
        self.worker().kill();
    }

    /// Lets the worker stand still, but not what it has started; or lets it go on.
    pub fn signal_worker(&self, signal: Signal) {
        self.worker().signal(signal);
    }

    /// Lets a node stand still.
    pub fn pause(&self, at: usize) {
        self.node(at).signal(Signal::SIGSTOP);
    }

    /// Lets it go on.
    pub fn resume(&self, at: usize) {
        self.node(at).signal(Signal::SIGCONT);
    }

    /// Fills the disk of a node: from now on it may end by itself.
    pub fn fill_disk(&self, at: usize) {
        let mut node = self.node(at);
        node.was_full = true;
        node.disk.fill();
    }

    /// Tells a node to end in order.
    pub fn tell_to_stop(&self, at: usize) {
        let mut node = self.node(at);
        node.wanted = false;
        node.signal(Signal::SIGTERM);
    }

    /// Stops a node in order and waits until it has ended.
    pub async fn stop(&self, at: usize) {
        self.tell_to_stop(at);
        self.until_stopped(at).await;
    }

    /// Waits until a node that was told to end has done so in order, unless it ended before that because its
    /// disk was full.
    pub async fn until_stopped(&self, at: usize) {
        let ended = self.until_ended(at).await;
        let was_full = self.node(at).was_full;
        assert!(ended.success() || was_full, "{} did not end in order: {ended}", self.name(at));
    }

    /// Waits until a node has ended by itself.
    pub async fn until_ended(&self, at: usize) -> ExitStatus {
        self.node(at).wanted = false;
        let mut ended = None;
        until("a node ends", async || {
            ended = self.node(at).ended();
            ended.is_some()
        })
        .await;
        ended.unwrap()
    }

    /// Starts nodes again that have ended, as a service manager does, for ever. One may end by itself
    /// only if its disk was full.
    pub async fn supervise(&self) {
        let mut look = tokio::time::interval(Duration::from_millis(500));
        loop {
            look.tick().await;
            for at in 0..self.len() {
                let mut node = self.node(at);
                if !node.wanted {
                    continue;
                }
                if let Some(status) = node.ended() {
                    let said = node.log();
                    let last = said.lines().next_back().unwrap_or_default();
                    self.history.note(format!("{} has ended ({status}): {last}", node.name));
                    assert!(node.was_full, "{} has ended by itself: {status}: {last}", node.name);
                    assert!(!status.success(), "it must be started again");
                    node.spawn(&self.net);
                    node.was_full = node.disk.is_full();
                }
            }
            let ended = self.worker.as_ref().and_then(|worker| worker.lock().ended());
            assert!(ended.is_none(), "the worker has ended by itself: {ended:?}");
        }
    }

    fn must_run(&self, at: usize) {
        let mut node = self.node(at);
        let ended = node.ended();
        assert!(ended.is_none(), "{} has ended ({ended:?}): {}", node.name, node.log());
    }

    /// Waits until a node takes requests.
    pub async fn until_ready(&self, at: usize) {
        until(&format!("{} is ready", self.name(at)), async || {
            self.must_run(at);
            self.clients[at].health().await.is_ok_and(|health| health.detail == "ready")
        })
        .await;
    }

    /// A client of a node whose clock is always right.
    pub fn client_of_right_clock(&self) -> &Client {
        let right = (0..self.len()).find(|at| self.node(*at).clock.is_none());
        &self.clients[right.unwrap()]
    }

    /// Waits until every node is up, leads something, and every shard has all its replicas, as all
    /// nodes see it.
    pub async fn settled(&self) {
        for client in &self.clients {
            until("replicas and leaders are spread", async || {
                let Ok(cluster) = client.cluster().await else { return false };
                let up = cluster.nodes.iter().filter(|node| node.state == "up" && node.leads > 0);
                let spread = |shard: &bellwether_api::ShardState| {
                    let replicas = if shard.shard == 0 { self.len() } else { REPLICAS };
                    let complete = shard.voters.len() == replicas && shard.learners.is_empty();
                    complete && shard.leader.is_some() && shard.term > 0
                };
                up.count() == self.len() && cluster.shards.iter().all(spread)
            })
            .await;
        }
    }

    /// The nodes by how many shards they lead, the most first.
    pub async fn most_leading_first(&self) -> Vec<usize> {
        let cluster = self.anywhere("who leads", async |client| client.cluster().await).await;
        let leads = |at: &usize| {
            let name = self.name(*at);
            cluster.nodes.iter().find(|node| node.name == name).map_or(0, |node| node.leads)
        };
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(leads(at)));
        order
    }

    /// Asks all nodes at once until one has the answer: those without a replica of what is asked for
    /// may take long to say so.
    pub async fn anywhere<T>(
        &self,
        what: &str,
        ask: impl AsyncFn(&Client) -> Result<T, bellwether_client::ClientError>,
    ) -> T {
        let begun = Instant::now();
        let mut look = tokio::time::interval(Duration::from_millis(50));
        loop {
            look.tick().await;
            let asking = self.clients.iter().map(|client| Box::pin(ask(client)));
            match futures::future::select_ok(asking).await {
                Ok((answer, _)) => return answer,
                Err(error) => {
                    assert!(begun.elapsed() < PATIENCE, "nobody answers: {what}: {error}");
                }
            }
        }
    }
}

/// Makes the certificate of a node.
fn certify(dir: &Path, name: &str, net: &Net, at: usize) {
    let mut command = Command::new(PROGRAM);
    command.args(["cluster", "certs", "--node", name, "--address", &net.address(at)]);
    let output = command.arg("--dir").arg(dir.join(CERTIFICATES)).output().unwrap();
    assert!(output.status.success(), "{output:?}");
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
