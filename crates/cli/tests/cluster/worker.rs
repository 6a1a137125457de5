//! A `bellwether worker` process while the nodes go that it is connected to.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bellwether_api::{JobSpec, RunStatus};
use bellwether_client::{Client, PageFilter};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::insist::insist;
use crate::record::{Effect, Record};
use crate::server::{Extra, Trio, until};

/// The lease, by which a worker has to be welcome at another node: longer than it takes on a busy machine until
/// others lead what the node led that is gone.
const LEASE: &str = "16s";
/// What a command takes: longer than it takes until what a silent worker had is given to another.
const TAKES: Duration = Duration::from_secs(22);
/// Jobs that are under way when a node goes, half of each delivery.
const JOBS: usize = 8;

/// A worker that knows all nodes.
struct Worker(Child);

impl Worker {
    fn start(trio: &Trio, dir: &Path) -> Worker {
        let nodes: Vec<&str> = trio.nodes.iter().map(|node| node.listen()).collect();
        let log = std::fs::File::create(dir.join("worker.log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_bellwether"));
        command.args(["worker", "--name", "far", "--label", "site=far", "--slots", "16"]);
        command.args(["--server", &nodes.join(",")]).arg("--state-dir").arg(dir.join("state"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Worker(command.spawn().unwrap())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The node that the worker is connected to, as another one knows, if it is to any.
async fn node_of_worker(client: &Client) -> Option<String> {
    let workers = client.workers().await.ok()?.items;
    let worker = workers.into_iter().find(|worker| worker.name == "far")?;
    (worker.state == "active").then_some(worker.node)
}

/// Waits until the worker is connected to a node other than one. Which it is.
async fn seat(trio: &Trio, without: Option<usize>) -> usize {
    let mut found = None;
    until("the worker is connected", async || {
        for at in (0..trio.nodes.len()).filter(|at| Some(*at) != without) {
            let name = node_of_worker(&trio.nodes[at].client).await;
            found = trio.nodes.iter().position(|node| Some(node.name()) == name.as_deref());
            if found.is_some() && found != without {
                return true;
            }
        }
        false
    })
    .await;
    found.unwrap()
}

/// Creates jobs that only this worker can run, and waits until all have begun. Their keys.
async fn begin(trio: &Trio, record: &Record, round: &str) -> Vec<String> {
    let mut keys = Vec::new();
    for n in 0..JOBS {
        let key = format!("{round}-{n}");
        let delivery = if n % 2 == 0 { "at_least_once" } else { "at_most_once" };
        let spec = json!({
            "key": key, "schedule": {"delay": "0s"}, "command": record.long_command(TAKES, false),
            "delivery": delivery, "requires": {"site": "far"},
        });
        let client = &trio.nodes[n % trio.nodes.len()].client;
        let spec: JobSpec = serde_json::from_value(spec).unwrap();
        insist(async || client.create_job(spec.clone()).await).await;
        keys.push(key);
    }
    until("all have begun", async || begun(record, &keys).len() == JOBS).await;
    keys
}

fn begun(record: &Record, keys: &[String]) -> Vec<Effect> {
    let all = record.read().into_iter();
    all.filter(|effect| effect.begins() && keys.contains(&effect.key)).collect()
}

/// Every job has run once, to its end, and that is known.
async fn ended_well(trio: &Trio, at: usize, record: &Record, keys: &[String]) {
    let client = &trio.nodes[at].client;
    for key in keys {
        let mut run = None;
        until(&format!("{key} ends"), async || {
            let Ok(page) = client.job_runs(key, &PageFilter::default()).await else { return false };
            run = page.items.into_iter().next();
            run.as_ref().is_some_and(|run| run.status != RunStatus::Running)
        })
        .await;
        let run = run.unwrap();
        assert_eq!(run.status, RunStatus::Succeeded, "{run:#?}");
        assert_eq!(run.attempts.len(), 1, "no other attempt was made: {run:#?}");
    }
    let begun = begun(record, keys);
    assert_eq!(begun.len(), JOBS, "each began once: {begun:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r52_r120_commands_of_a_worker_do_not_notice_that_its_node_is_killed_or_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let extra = Extra { lease: Some(LEASE), ..Extra::default() };
    let mut trio = Trio::start_with(dir.path(), extra).await;
    let record = Record::begin(dir.path(), "127.0.0.1").await;
    let worker = Worker::start(&trio, dir.path());

    let first = seat(&trio, None).await;
    let keys = begin(&trio, &record, "killed").await;
    trio.nodes[first].kill();
    let second = seat(&trio, Some(first)).await;
    ended_well(&trio, second, &record, &keys).await;
    trio.nodes[first].start_again().await;
    trio.settled().await;

    let keys = begin(&trio, &record, "stopped").await;
    trio.nodes[second].stop().await;
    let third = seat(&trio, Some(second)).await;
    ended_well(&trio, third, &record, &keys).await;

    kill(Pid::from_raw(worker.0.id().cast_signed()), Signal::SIGTERM).unwrap();
    until("it has gone", async || node_of_worker(&trio.nodes[third].client).await.is_none()).await;
}
