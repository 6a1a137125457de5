//! Workers, supervisors and servers that die, stop or fall silent.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::process::{SHORT_LEASES, Worker, add, contents, lives, run_with, server, workers_of};
use crate::support::{Server, eventually};
use crate::wire::Wire;

const LEASE: Duration = Duration::from_secs(3);

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

#[test]
fn r54_a_worker_that_is_killed_and_restarted_goes_on_with_its_commands() {
    let server = server();
    let mut worker = Worker::start(&server, "w1");
    let witness = Witness::new(server.directory.path());
    let id = add(&server, &witness.script(), &[]);
    run_with(&server, &id, "running");
    contents(&witness.pid);
    worker.kill();
    let again = Worker::start(&server, "w1");
    witness.release();
    let run = run_with(&server, &id, "succeeded");
    assert_eq!(workers_of(&run), ["w1"]);
    assert_eq!(server.cli(&["run", "logs", &id]).ok(), "begun\nended\n");
    assert_eq!(witness.log(), "start\n");
    eventually("an empty state directory", || again.attempts().is_empty().then_some(()));
}

#[test]
fn r54_what_ends_while_no_worker_is_there_is_reported_by_the_next() {
    let server = server();
    let mut worker = Worker::start(&server, "w1");
    let witness = Witness::new(server.directory.path());
    let id = add(&server, &witness.script(), &[]);
    run_with(&server, &id, "running");
    contents(&witness.pid);
    worker.kill();
    witness.release();
    let attempt = worker.attempts().remove(0);
    eventually("a result on disk", || attempt.join("result").exists().then_some(()));
    let _again = Worker::start(&server, "w1");
    run_with(&server, &id, "succeeded");
    assert_eq!(server.cli(&["run", "logs", &id]).ok(), "begun\nended\n");
    assert_eq!(witness.log(), "start\n");
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
    let witness = Witness::new(server.directory.path());
    let id = add(&server, &witness.script(), &["--delivery", "at_most_once"]);
    run_with(&server, &id, "running");
    let command = contents(&witness.pid);
    kill_supervisor(&command);
    let run = run_with(&server, &id, "lost");
    assert_eq!(run["attempts"][0]["reason"], "supervisor_died", "{run:#}");
    assert!(!lives(&command), "it must not go on when it counts as lost");
    assert_eq!(witness.log(), "start\n");
}

#[test]
fn r54_a_command_that_died_with_its_worker_is_ended_and_told_truthfully() {
    for rebooted in [false, true] {
        let server = server();
        let mut worker = Worker::start(&server, "w1");
        let witness = Witness::new(server.directory.path());
        let id = add(&server, &witness.script(), &["--delivery", "at_most_once"]);
        run_with(&server, &id, "running");
        let command = contents(&witness.pid);
        worker.kill();
        kill_supervisor(&command);
        let words = if rebooted {
            let meta = worker.attempts().remove(0).join("meta");
            let text = fs::read_to_string(&meta).unwrap();
            fs::write(&meta, text.replace("\"boot\":\"", "\"boot\":\"another")).unwrap();
            "machine"
        } else {
            "worker was restarted"
        };
        let _again = Worker::start(&server, "w1");
        let run = run_with(&server, &id, "lost");
        assert_eq!(run["attempts"][0]["reason"], "worker_restarted", "{run:#}");
        assert!(run["detail"].as_str().unwrap().contains(words), "{run:#}");
        assert!(!lives(&command), "it must not go on when it counts as lost");
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
    let address = server.address.clone();
    server.signal(Signal::SIGKILL);
    let (_, _, kept) = server.end();
    worker.wait_for("no connection");
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";
    request.write_all(answer.as_bytes()).unwrap();
    let result = eventually("a result on disk", || {
        worker.attempts().first().map(|dir| dir.join("result")).filter(|file| file.exists())
    });
    worker.kill();
    assert!(result.exists());
    let server = Server::start_at(&address, kept, &SHORT_LEASES);
    let _again = Worker::start(&server, "w1");
    run_with(&server, &id, "succeeded");
    assert_eq!(server.cli(&["run", "logs", &id]).ok(), "hello");
}

#[test]
fn a_worker_that_is_stopped_longer_than_its_lease_does_not_overlap_with_its_successor() {
    let server = server();
    let workers = [Worker::start(&server, "w1"), Worker::start(&server, "w2")];
    let witness = Witness::new(server.directory.path());
    let id = add(&server, &witness.script(), &["--delivery", "at_least_once"]);
    run_with(&server, &id, "running");
    let first = contents(&witness.pid);
    let holder = workers.iter().position(|worker| !worker.attempts().is_empty()).unwrap();
    workers[holder].signal(Signal::SIGSTOP);
    let run = run_with(&server, &id, "succeeded");
    let expected = if holder == 0 { ["w1", "w2"] } else { ["w2", "w1"] };
    assert_eq!(workers_of(&run), expected);
    assert_eq!(witness.log(), "start\nstart\n", "no attempt may overlap with the one before");
    assert!(!lives(&first));
    // What it has to say when it is continued changes nothing.
    workers[holder].signal(Signal::SIGCONT);
    eventually("an empty state directory", || workers[holder].attempts().is_empty().then_some(()));
    assert_eq!(workers_of(&run_with(&server, &id, "succeeded")), expected);
}

#[test]
fn r51_r52_a_server_that_is_killed_and_restarted_does_not_disturb_work() {
    let server = server();
    let worker = Worker::start(&server, "w1");
    let directory = server.directory.path().to_owned();
    let (ends_before, ends_after) = (Witness::new(&directory), Witness::new(&directory.join("b")));
    fs::create_dir(directory.join("b")).unwrap();
    let before = add(&server, &ends_before.script(), &[]);
    let after = add(&server, &ends_after.script(), &[]);
    for (id, witness) in [(&before, &ends_before), (&after, &ends_after)] {
        run_with(&server, id, "running");
        contents(&witness.pid);
    }
    let address = server.address.clone();
    let lease_ms = u64::try_from(LEASE.as_millis()).unwrap();
    let last_lease = worker.lease_until_ms();
    server.signal(Signal::SIGKILL);
    let (_, _, kept) = server.end();
    // One ends while there is no server, the other after it is back; both outlive two leases.
    ends_before.release();
    eventually("two leases without a server", || {
        (worker.lease_until_ms() > last_lease + 2 * lease_ms).then_some(())
    });
    assert!(lives(&contents(&ends_after.pid)));
    let server = Server::start_at(&address, kept, &SHORT_LEASES);
    assert_eq!(workers_of(&run_with(&server, &before, "succeeded")), ["w1"]);
    ends_after.release();
    assert_eq!(workers_of(&run_with(&server, &after, "succeeded")), ["w1"]);
    for (id, witness) in [(&before, &ends_before), (&after, &ends_after)] {
        assert_eq!(server.cli(&["run", "logs", id]).ok(), "begun\nended\n");
        assert_eq!(witness.log(), "start\n");
    }
}

#[test]
fn a_network_that_is_cut_makes_no_attempt_overlap_with_its_successor() {
    let mut server = server();
    let direct = server.address.clone();
    let wire = Wire::to(&direct);
    server.address = wire.address.to_string();
    let far = Worker::start(&server, "far");
    server.address = direct;
    let witness = Witness::new(server.directory.path());
    let id = add(&server, &witness.script(), &["--delivery", "at_least_once"]);
    run_with(&server, &id, "running");
    let command = contents(&witness.pid);
    let _near = Worker::start(&server, "near");
    wire.cut();
    let cut = Instant::now();
    eventually("the end of the command", || (!lives(&command)).then_some(()));
    assert!(cut.elapsed() < LEASE, "{:?}", cut.elapsed());
    let run = run_with(&server, &id, "succeeded");
    assert_eq!(workers_of(&run), ["far", "near"]);
    assert_eq!(witness.log(), "start\nstart\n", "no attempt may overlap with the one before");
    // Once it is healed, the worker hears that nobody waits for its report, and works again.
    wire.heal();
    eventually("an empty state directory", || far.attempts().is_empty().then_some(()));
    eventually("two workers", || {
        let list = server.cli(&["worker", "list", "--json"]).json_lines();
        (list.iter().filter(|worker| worker["state"] == "active").count() == 2).then_some(())
    });
    assert_eq!(workers_of(&run_with(&server, &id, "succeeded")), ["far", "near"]);
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
    let address = server.address.clone();
    server.signal(Signal::SIGKILL);
    let (_, _, kept) = server.end();
    fs::write(&flag, "").unwrap();
    eventually("a hundred results on disk", || {
        let ended = worker.attempts().iter().filter(|dir| dir.join("result").exists()).count();
        (ended == RUNS).then_some(())
    });
    let server = Server::start_at(&address, kept, &SHORT_LEASES);
    eventually("a hundred successes", || {
        let list = server.cli(&["run", "list", "--status", "succeeded", "--json"]).json_lines();
        (list.len() == RUNS).then_some(())
    });
    eventually("an empty state directory", || worker.attempts().is_empty().then_some(()));
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
    let witness = Witness::new(server.directory.path());
    let id = add(&server, &witness.script(), &["--delivery", "at_least_once"]);
    run_with(&server, &id, "running");
    let command = contents(&witness.pid);
    let silent = Instant::now();
    server.signal(Signal::SIGSTOP);
    eventually("the end of the command", || (!lives(&command)).then_some(()));
    assert!(silent.elapsed() < LEASE, "{:?}", silent.elapsed());
    server.signal(Signal::SIGCONT);
    // How far it got is unknown, so it is tried again.
    assert_eq!(workers_of(&run_with(&server, &id, "succeeded")), ["w1", "w1"]);
    assert_eq!(witness.log(), "start\nstart\n");
}
