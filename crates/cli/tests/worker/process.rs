//! A worker process, and what its commands leave in files.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Instant;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::{LOOK_EVERY, PATIENCE, Server, bellwether, eventually};

/// How leases are kept in most of these tests: on a busy machine anybody may stand still for a second or two, and
/// that must not be what ends a command.
pub const LEASES: [&str; 5] =
    ["--no-worker", "--worker-lease", "15s", "--worker-heartbeat", "500ms"];
/// How they are kept where a test waits for more than one to end.
pub const SHORT_LEASES: [&str; 5] =
    ["--no-worker", "--worker-lease", "3s", "--worker-heartbeat", "500ms"];

/// A server without a worker of its own.
pub fn server() -> Server {
    Server::start_with(&LEASES)
}

/// A worker that runs until it is dropped.
pub struct Worker {
    pub child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
    pub state: PathBuf,
}

/// A command line for a worker of a server.
pub fn command(server: &Server, name: &str, flags: &[&str]) -> Command {
    let mut command = bellwether(server.directory.path());
    let state = server.directory.path().join(format!("state-{name}"));
    command.args(["worker", "--server", &server.address, "--name", name, "--state-dir"]);
    command.arg(state).args(flags);
    command
}

impl Worker {
    /// Starts one and waits until it is connected.
    pub fn start(server: &Server, name: &str) -> Worker {
        Worker::start_with(server, name, &["--slots", "4"])
    }

    pub fn start_with(server: &Server, name: &str, flags: &[&str]) -> Worker {
        let mut worker = Worker::spawn(command(server, name, flags));
        worker.state = server.directory.path().join(format!("state-{name}"));
        worker.wait_for("connected");
        worker
    }

    pub fn spawn(mut command: Command) -> Worker {
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Worker { child, lines, said: Vec::new(), state: PathBuf::new() }
    }

    /// Waits until it has said something.
    pub fn wait_for(&mut self, part: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.said.push(line.clone());
                    if line.contains(part) {
                        return;
                    }
                }
                Err(error) => panic!("no '{part}' ({error}) in {:#?}", self.said),
            }
        }
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    /// Pulls the plug of the worker alone.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end.
    pub fn ends(&mut self) -> ExitStatus {
        eventually("the worker's end", || self.child.try_wait().unwrap())
    }

    /// The directories of the attempts it has.
    pub fn attempts(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.state.join("runs")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    /// When its lease ends, in milliseconds since the machine was started.
    pub fn lease_until_ms(&self) -> u64 {
        let text = fs::read_to_string(self.state.join("lease")).unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Adds a job that is due now and runs a script; the id of its run.
pub fn add(server: &Server, script: &str, flags: &[&str]) -> String {
    let mut args = vec!["--delay", "0s"];
    args.extend(flags);
    args.extend(["--", script]);
    let job = server.add(&args);
    let job = job["id"].as_str().unwrap().to_owned();
    eventually("a run", || {
        let runs = server.cli(&["job", "runs", &job, "--json"]).json_lines();
        runs.first().map(|run| run["id"].as_str().unwrap().to_owned())
    })
}

/// A run, once it has come so far.
pub fn run_with(server: &Server, id: &str, status: &str) -> Value {
    let mut last = Value::Null;
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        last = server.cli(&["run", "show", id, "--json"]).json();
        if last["status"] == status {
            return last;
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
    panic!("{id} is not {status}: {last:#}");
}

/// What a file holds, once it holds something.
pub fn contents(path: &Path) -> String {
    eventually(&format!("{}", path.display()), || {
        fs::read_to_string(path).ok().filter(|text| text.ends_with('\n'))
    })
}

/// Whether a process lives.
pub fn lives(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    status.is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").trim().starts_with('Z'))
}

/// The workers that a run was with, attempt by attempt.
pub fn workers_of(run: &Value) -> Vec<&str> {
    let attempts = run["attempts"].as_array().unwrap();
    attempts.iter().map(|attempt| attempt["worker"].as_str().unwrap()).collect()
}
