//! Workers, supervisors and servers that die, stop or fall silent.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::process::{
    LEASES, SHORT_LEASES, Worker, add, contents, lives, run_with, server, workers_of,
};
use crate::support::{Server, eventually};
use crate::wire::Wire;

/// How long one lasts of [`LEASES`].
const LEASE: Duration = Duration::from_secs(15);
/// How long one lasts of [`SHORT_LEASES`].
const SHORT_LEASE: Duration = Duration::from_secs(3);

/// A script that writes down every start, and whether an earlier one was still alive; the first
/// attempt runs until a file is there.
struct Witness {
    log: PathBuf,
    pid: PathBuf,
    flag: PathBuf,
}

impl Witness {
    fn new(dir: &Path) -> Witness {
        Witness { log: dir.join("log"), pid: dir.join("pid"), flag: dir.join("flag") }
    }

    fn script(&self) -> String {
        let (log, pid, flag) = (self.log.display(), self.pid.display(), self.flag.display());
        format!(
            "test -e {pid} && kill -0 $(cat {pid}) && echo overlap >> {log}; \
             echo start >> {log}; echo $$ > {pid}; echo begun; \
             test $BELLWETHER_ATTEMPT -gt 1 || until test -e {flag}; do sleep 0.02; done; \
             echo ended"
        )
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn release(&self) {
        fs::write(&self.flag, "").unwrap();
    }
}

/// A run whose command is under way.
struct Begun {
    id: String,
    witness: Witness,
    /// The number of its process.
    command: String,
}

impl Begun {
    /// Adds a job that is due now, and waits until a worker runs it.
    fn with(server: &Server, flags: &[&str]) -> Begun {
        Begun::in_dir(server, server.directory.path(), flags)
    }

    fn in_dir(server: &Server, dir: &Path, flags: &[&str]) -> Begun {
        let witness = Witness::new(dir);
        let id = add(server, &witness.script(), flags);
        run_with(server, &id, "running");
        let command = contents(&witness.pid);
        Begun { id, witness, command }
    }

    /// The run, once it has come so far.
    fn with_status(&self, server: &Server, status: &str) -> Value {
        run_with(server, &self.id, status)
    }

    /// Once it has ended well: it was started once and printed all.
    fn ended_well(&self, server: &Server) -> Value {
        let run = self.with_status(server, "succeeded");
        assert_eq!(server.cli(&["run", "logs", &self.id]).ok(), "begun\nended\n");
        assert_eq!(self.witness.log(), "start\n");
        run
    }

    /// Waits until its command has ended.
    fn is_stopped(&self) {
        eventually("the end of the command", || (!lives(&self.command)).then_some(()));
    }
}

const AT_LEAST_ONCE: [&str; 2] = ["--delivery", "at_least_once"];
const AT_MOST_ONCE: [&str; 2] = ["--delivery", "at_most_once"];

/// Waits until a worker has nothing left to report.
fn has_told_all(worker: &Worker) {
    eventually("an empty state directory", || worker.attempts().is_empty().then_some(()));
}

/// Pulls the plug of a server: its address and what it leaves.
fn pull_the_plug(server: Server) -> (String, tempfile::TempDir) {
    let address = server.address.clone();
    server.signal(Signal::SIGKILL);
    let (_, _, kept) = server.end();
    (address, kept)
}

#[test]
fn r54_a_worker_that_is_killed_and_restarted_goes_on_with_its_commands() {
    let server = server();
    let mut worker = Worker::start(&server, "w1");
    let begun = Begun::with(&server, &[]);
    worker.kill();
    let again = Worker::start(&server, "w1");
    begun.witness.release();
    assert_eq!(workers_of(&begun.ended_well(&server)), ["w1"]);
    has_told_all(&again);
}

#[test]
fn r54_r120_what_ends_while_no_worker_is_there_is_reported_by_the_next() {
    let server = server();
    let mut worker = Worker::start(&server, "w1");
    let begun = Begun::with(&server, &[]);
    worker.kill();
    begun.witness.release();
    let attempt = worker.attempts().remove(0);
    eventually("a result on disk", || attempt.join("result").exists().then_some(()));
    let _again = Worker::start(&server, "w1");
    begun.ended_well(&server);
}

/// Kills the supervisor of a command, whose number is given.
fn kill_supervisor(command: &str) {
    let stat = fs::read_to_string(format!("/proc/{}/stat", command.trim())).unwrap();
    let parent = stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap();
    let name = fs::read_to_string(format!("/proc/{parent}/cmdline")).unwrap();
    assert!(name.contains("supervise"), "{name}");
    let parent = nix::unistd::Pid::from_raw(parent.parse().unwrap());
    nix::sys::signal::kill(parent, Signal::SIGKILL).unwrap();
}

#[test]
fn r54_a_command_whose_supervisor_died_is_ended_and_told_truthfully() {
    let server = server();
    let _worker = Worker::start(&server, "w1");
    let begun = Begun::with(&server, &AT_MOST_ONCE);
    kill_supervisor(&begun.command);
    let run = begun.with_status(&server, "lost");
    assert_eq!(run["attempts"][0]["reason"], "supervisor_died", "{run:#}");
    assert!(!lives(&begun.command), "it must not go on when it counts as lost");
    assert_eq!(begun.witness.log(), "start\n");
}

#[test]
fn r54_r129_a_command_that_died_with_its_worker_is_ended_and_told_truthfully() {
    for rebooted in [false, true] {
        let server = server();
        let mut worker = Worker::start(&server, "w1");
        let begun = Begun::with(&server, &AT_MOST_ONCE);
        worker.kill();
        kill_supervisor(&begun.command);
        let words = if rebooted {
            let meta = worker.attempts().remove(0).join("meta");
            let text = fs::read_to_string(&meta).unwrap();
            fs::write(&meta, text.replace("\"boot\":\"", "\"boot\":\"another")).unwrap();
            "machine"
        } else {
            "worker was restarted"
        };
        let _again = Worker::start(&server, "w1");
        let run = begun.with_status(&server, "lost");
        assert_eq!(run["attempts"][0]["reason"], "worker_restarted", "{run:#}");
        assert!(run["detail"].as_str().unwrap().contains(words), "{run:#}");
        assert!(!lives(&begun.command), "it must not go on when it counts as lost");
    }
}

#[test]
fn r52_the_answer_to_a_request_survives_server_and_worker() {
    let server = server();
    let mut worker = Worker::start(&server, "w1");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let job = server.add(&["--delay", "0s", "--http", &url]);
    let (mut request, _) = listener.accept().unwrap();
    let job = job["id"].as_str().unwrap();
    let runs = server.cli(&["job", "runs", job, "--json"]).json_lines();
    let id = runs[0]["id"].as_str().unwrap().to_owned();
    let (address, kept) = pull_the_plug(server);
    worker.wait_for("no connection");
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";
    request.write_all(answer.as_bytes()).unwrap();
    let result = eventually("a result on disk", || {
        worker.attempts().first().map(|dir| dir.join("result")).filter(|file| file.exists())
    });
    worker.kill();
    assert!(result.exists());
    let server = Server::start_at(&address, kept, &LEASES);
    let _again = Worker::start(&server, "w1");
    run_with(&server, &id, "succeeded");
    assert_eq!(server.cli(&["run", "logs", &id]).ok(), "hello");
}

/// Two workers and a run with one of them, which is stopped: the others, and it.
fn one_of_two_is_stopped(server: &Server, delivery: &[&str]) -> (Begun, Worker, Worker) {
    let [first, second] = ["w1", "w2"].map(|name| Worker::start(server, name));
    let begun = Begun::with(server, delivery);
    let (holder, other) =
        if first.attempts().is_empty() { (second, first) } else { (first, second) };
    holder.signal(Signal::SIGSTOP);
    (begun, holder, other)
}

#[test]
fn a_worker_that_is_stopped_longer_than_its_lease_does_not_overlap_with_its_successor() {
    let server = Server::start_with(&SHORT_LEASES);
    let (begun, holder, _other) = one_of_two_is_stopped(&server, &AT_LEAST_ONCE);
    let run = begun.with_status(&server, "succeeded");
    let expected = workers_of(&run);
    assert_eq!(BTreeSet::from_iter(&expected).len(), 2, "the other has it: {expected:?}");
    assert_eq!(begun.witness.log(), "start\nstart\n", "no overlap with the one before");
    assert!(!lives(&begun.command));
    // What it has to say when it is continued changes nothing.
    holder.signal(Signal::SIGCONT);
    has_told_all(&holder);
    assert_eq!(workers_of(&begun.with_status(&server, "succeeded")), expected);
}

#[test]
fn r65_a_worker_that_is_stopped_longer_than_its_lease_means_lost_at_most_once_and_nothing_ran_twice()
 {
    let server = Server::start_with(&SHORT_LEASES);
    let (begun, holder, other) = one_of_two_is_stopped(&server, &AT_MOST_ONCE);
    let run = begun.with_status(&server, "lost");
    assert_eq!(workers_of(&run).len(), 1, "{run:#}");
    assert!(!lives(&begun.command), "it must not go on when it counts as lost");
    // Continued, it hears that its run is not its own any more. Until both workers are drained they
    // could start it.
    holder.signal(Signal::SIGCONT);
    has_told_all(&holder);
    for mut worker in [holder, other] {
        worker.signal(Signal::SIGTERM);
        assert!(worker.ends().success());
    }
    assert_eq!(begun.with_status(&server, "lost")["attempts"], run["attempts"]);
    assert_eq!(begun.witness.log(), "start\n", "nothing ran twice");
}

#[test]
fn r51_r52_a_server_that_is_killed_and_restarted_does_not_disturb_work() {
    let server = Server::start_with(&SHORT_LEASES);
    let worker = Worker::start(&server, "w1");
    let directory = server.directory.path().join("b");
    fs::create_dir(&directory).unwrap();
    let before = Begun::with(&server, &[]);
    let after = Begun::in_dir(&server, &directory, &[]);
    let lease_ms = u64::try_from(SHORT_LEASE.as_millis()).unwrap();
    let last_lease = worker.lease_until_ms();
    let (address, kept) = pull_the_plug(server);
    // One ends while there is no server, the other after it is back; both outlive two leases.
    before.witness.release();
    eventually("two leases without a server", || {
        (worker.lease_until_ms() > last_lease + 2 * lease_ms).then_some(())
    });
    assert!(lives(&after.command));
    let server = Server::start_at(&address, kept, &SHORT_LEASES);
    assert_eq!(workers_of(&before.ended_well(&server)), ["w1"]);
    after.witness.release();
    assert_eq!(workers_of(&after.ended_well(&server)), ["w1"]);
}

#[test]
fn a_network_that_is_cut_makes_no_attempt_overlap_with_its_successor() {
    let mut server = server();
    let direct = server.address.clone();
    let wire = Wire::to(&direct);
    server.address = wire.address.to_string();
    let far = Worker::start(&server, "far");
    server.address = direct;
    let begun = Begun::with(&server, &AT_LEAST_ONCE);
    let _near = Worker::start(&server, "near");
    wire.cut();
    let cut = Instant::now();
    begun.is_stopped();
    assert!(cut.elapsed() < LEASE, "{:?}", cut.elapsed());
    let run = begun.with_status(&server, "succeeded");
    assert_eq!(workers_of(&run), ["far", "near"]);
    assert_eq!(begun.witness.log(), "start\nstart\n", "no overlap with the one before");
    // Once it is healed, the worker hears that nobody waits for its report, and works again.
    wire.heal();
    has_told_all(&far);
    eventually("two workers", || {
        let list = server.cli(&["worker", "list", "--json"]).json_lines();
        (list.iter().filter(|worker| worker["state"] == "active").count() == 2).then_some(())
    });
    assert_eq!(workers_of(&begun.with_status(&server, "succeeded")), ["far", "near"]);
}

#[test]
fn r52_a_hundred_results_wait_for_the_server_to_be_back() {
    const RUNS: usize = 100;
    let server = server();
    let worker = Worker::start_with(&server, "w1", &["--slots", "100"]);
    let directory = server.directory.path().to_owned();
    let (log, flag) = (directory.join("log"), directory.join("flag"));
    let script = format!(
        "echo $BELLWETHER_RUN_ID >> {}; until test -e {}; do sleep 0.1; done; echo ended",
        log.display(),
        flag.display()
    );
    for _ in 0..RUNS {
        server.add(&["--delay", "0s", "--", &script]);
    }
    let starts = || fs::read_to_string(&log).unwrap_or_default();
    eventually("a hundred starts", || (starts().lines().count() == RUNS).then_some(()));
    let (address, kept) = pull_the_plug(server);
    fs::write(&flag, "").unwrap();
    eventually("a hundred results on disk", || {
        let ended = worker.attempts().iter().filter(|dir| dir.join("result").exists()).count();
        (ended == RUNS).then_some(())
    });
    let server = Server::start_at(&address, kept, &LEASES);
    eventually("a hundred successes", || {
        let list = server.cli(&["run", "list", "--status", "succeeded", "--json"]).json_lines();
        (list.len() == RUNS).then_some(())
    });
    has_told_all(&worker);
    let mut started: Vec<String> = starts().lines().map(str::to_owned).collect();
    started.sort();
    started.dedup();
    assert_eq!(started.len(), RUNS, "every run was started once");
    assert_eq!(starts().lines().count(), RUNS);
}

#[test]
fn a_silent_server_means_that_work_is_stopped_before_the_lease_ends() {
    let server = server();
    let _worker = Worker::start(&server, "w1");
    let begun = Begun::with(&server, &AT_LEAST_ONCE);
    let silent = Instant::now();
    server.signal(Signal::SIGSTOP);
    begun.is_stopped();
    assert!(silent.elapsed() < LEASE, "{:?}", silent.elapsed());
    server.signal(Signal::SIGCONT);
    // How far it got is unknown, so it is tried again.
    assert_eq!(workers_of(&begun.with_status(&server, "succeeded")), ["w1", "w1"]);
    assert_eq!(begun.witness.log(), "start\nstart\n");
}
