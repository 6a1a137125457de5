//! `make cluster`: three nodes and a worker that anybody can try things with.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use bellwether_api::JobSpec;
use bellwether_client::Client;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::address::own_address;
use crate::insist::insist;
use crate::server::until;

/// The script. It stops everything it has started when it is told to end.
struct Script(Child);

impl Script {
    /// As Ctrl-C does, but by the signal that nobody ignores: whoever is started in the background of a script
    /// ignores the other.
    fn end(&self) {
        let _ = kill(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGTERM);
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.end();
        let _ = self.0.wait();
    }
}

/// Each node takes the next port as well.
const PORTS: [u16; 3] = [2355, 2365, 2375];

fn pid_of(dir: &Path, name: &str) -> Pid {
    let text = std::fs::read_to_string(dir.join(format!("{name}.pid"))).unwrap();
    Pid::from_raw(text.trim().parse().unwrap())
}

/// R134, R123: nothing but the program is needed for three nodes; one is killed, the others go on, and the line that the
/// script has left brings it back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r123_r134_make_cluster_starts_three_nodes_and_one_may_be_killed() {
    let dir = tempfile::tempdir().unwrap();
    let address = own_address();
    let host = address.split(':').next().unwrap();
    let mut command =
        Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/cluster.sh"));
    command
        .env("PROGRAM", env!("CARGO_BIN_EXE_bellwether"))
        .env("DATA_DIR", dir.path())
        .env("ADDRESS", host)
        .env("PORTS", PORTS.map(|port| port.to_string()).join(" "))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut script = Script(command.spawn().unwrap());
    let mut lines = BufReader::new(script.0.stdout.take().unwrap()).lines();
    let said: Vec<String> = tokio::task::block_in_place(|| {
        let lines = lines.by_ref().map_while(Result::ok);
        lines.take_while(|line| !line.starts_with("Ctrl-C")).collect()
    });
    assert!(said.iter().any(|line| line == "three nodes are up:"), "{said:?}");

    let clients = PORTS.map(|port| Client::new(&format!("{host}:{port}")).unwrap());
    let mut workers = Vec::new();
    until("all nodes tell their workers in time", async || {
        let Ok(told) = clients[1].workers().await else { return false };
        workers = told.items;
        told.missing_nodes.is_empty()
    })
    .await;
    assert!(workers.iter().any(|worker| worker.name == "worker"), "{workers:?}");
    let tick = json!({"key": "tick", "schedule": "every 1s", "command": "date"});
    let tick: JobSpec = serde_json::from_value(tick).unwrap();
    insist(async || clients[2].create_job(tick.clone()).await).await;
    let nodes = clients[0].cluster().await.unwrap().nodes;
    let victim = nodes.iter().max_by_key(|node| node.leads).unwrap().name.clone();
    let left = &clients[if victim == "a" { 1 } else { 0 }];
    kill(pid_of(dir.path(), &victim), Signal::SIGKILL).unwrap();
    until("others lead what it led, and the job goes on", async || {
        let Ok(cluster) = left.cluster().await else { return false };
        let down: Vec<_> = cluster.nodes.iter().filter(|node| node.state == "down").collect();
        let ticked = left.job("tick").await.is_ok_and(|job| job.info.runs > 3);
        down.len() == 1 && down[0].name == victim && down[0].leads == 0 && ticked
    })
    .await;
    let again = Command::new(dir.path().join(format!("{victim}.sh"))).status().unwrap();
    assert!(again.success());
    until("it is back", async || {
        let nodes = left.cluster().await.map(|cluster| cluster.nodes);
        nodes.is_ok_and(|nodes| nodes.iter().all(|node| node.state == "up"))
    })
    .await;

    let pids = ["a", "b", "c", "worker"].map(|name| pid_of(dir.path(), name));
    script.end();
    let ended = tokio::task::block_in_place(|| script.0.wait()).unwrap();
    assert!(ended.success(), "{ended}");
    assert!(pids.iter().all(|pid| kill(*pid, None).is_err()), "all of them have been stopped");
}
