//! Workers, supervisors and servers that die, stop or fall silent.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::process::{SHORT_LEASES, Worker, add, contents, lives, run_with, server};
use crate::support::{Server, eventually};

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
    assert_eq!(run["attempt"], 1, "{run:#}");
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

#[test]
fn r54_a_command_whose_supervisor_died_is_ended_and_told_truthfully() {
    let server = server();
    let worker = Worker::start(&server, "w1");
    let witness = Witness::new(server.directory.path());
    let id = add(&server, &witness.script(), &["--delivery", "at-most-once"]);
    run_with(&server, &id, "running");
    let command = contents(&witness.pid);
    let stat = fs::read_to_string(format!("/proc/{}/stat", command.trim())).unwrap();
    let supervisor = stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap();
    let supervisor: i32 = supervisor.parse().unwrap();
    assert_ne!(supervisor, i32::try_from(worker.child.id()).unwrap());
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(supervisor), Signal::SIGKILL).unwrap();
    run_with(&server, &id, "lost");
    assert!(!lives(&command), "it must not go on when it counts as lost");
    assert_eq!(witness.log(), "start\n");
}

#[test]
fn a_worker_that_is_stopped_longer_than_its_lease_does_not_overlap_with_its_successor() {
    let server = server();
    let workers = [Worker::start(&server, "w1"), Worker::start(&server, "w2")];
    let witness = Witness::new(server.directory.path());
    let id = add(&server, &witness.script(), &[]);
    run_with(&server, &id, "running");
    let first = contents(&witness.pid);
    let holder = workers.iter().position(|worker| !worker.attempts().is_empty()).unwrap();
    workers[holder].signal(Signal::SIGSTOP);
    let run = run_with(&server, &id, "succeeded");
    assert_eq!(run["attempt"], 2, "{run:#}");
    assert_eq!(witness.log(), "start\nstart\n", "no attempt may overlap with the one before");
    assert!(!lives(&first));
    // What it has to say when it is continued changes nothing.
    workers[holder].signal(Signal::SIGCONT);
    eventually("an empty state directory", || workers[holder].attempts().is_empty().then_some(()));
    assert_eq!(run_with(&server, &id, "succeeded")["attempt"], 2);
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
    assert_eq!(run_with(&server, &before, "succeeded")["attempt"], 1);
    ends_after.release();
    assert_eq!(run_with(&server, &after, "succeeded")["attempt"], 1);
    for (id, witness) in [(&before, &ends_before), (&after, &ends_after)] {
        assert_eq!(server.cli(&["run", "logs", id]).ok(), "begun\nended\n");
        assert_eq!(witness.log(), "start\n");
    }
}

#[test]
fn a_silent_server_means_that_work_is_stopped_before_the_lease_ends() {
    let server = server();
    let _worker = Worker::start(&server, "w1");
    let witness = Witness::new(server.directory.path());
    let id = add(&server, &witness.script(), &[]);
    run_with(&server, &id, "running");
    let command = contents(&witness.pid);
    let silent = Instant::now();
    server.signal(Signal::SIGSTOP);
    eventually("the end of the command", || (!lives(&command)).then_some(()));
    assert!(silent.elapsed() < LEASE, "{:?}", silent.elapsed());
    server.signal(Signal::SIGCONT);
    // How far it got is unknown, so it is tried again.
    assert_eq!(run_with(&server, &id, "succeeded")["attempt"], 2);
    assert_eq!(witness.log(), "start\nstart\n");
}
