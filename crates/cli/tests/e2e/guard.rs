//! What becomes of commands whose server cannot end them any more.
//!
//! Guards R65 in part: what is resolved by others, or by the next start, does not go on. With several nodes:
//! `nemesis/faults.rs`.

use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{Server, eventually};

/// A server that runs a command which does not listen to TERM and has a child in a session of its own.
/// The numbers of both processes.
fn stubborn(server: &Server) -> [i32; 2] {
    let dir = server.directory.path();
    let line = format!(
        "trap '' TERM; setsid sh -c 'echo $$ > {0}/child; while :; do sleep 0.05; done' & \
         echo $$ > {0}/main; wait; while :; do sleep 0.05; done",
        dir.display()
    );
    server.add(&["--key", "k", "--every", "1h", "--", &line]);
    server.cli(&["job", "trigger", "k"]).ok();
    ["main", "child"].map(|name| number_in(&dir.join(name)))
}

/// The number that somebody writes into a file.
fn number_in(file: &Path) -> i32 {
    let number = || std::fs::read_to_string(file).ok()?.trim().parse().ok();
    eventually("a number in a file", number)
}

fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Nobody may have waited for it yet.
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.starts_with(" Z"))
}

fn until_gone(pids: &[i32]) {
    eventually("they are gone", || (!pids.iter().any(|pid| lives(*pid))).then_some(()));
}

/// The guard of a server, if it has one.
fn guard_of(server: &Server) -> Option<i32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.find(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split(' ').nth(2));
        line.starts_with(b"bellwether\0guard\0") && parent == Some(&server.pid().to_string())
    })
}

#[test]
fn r65_a_server_that_is_killed_takes_its_commands_with_it() {
    let server = Server::start();
    let processes = stubborn(&server);
    server.signal(Signal::SIGKILL);
    until_gone(&processes);
}

#[test]
fn r65_a_guard_that_is_killed_is_followed_by_another() {
    let server = Server::start();
    assert_eq!(guard_of(&server), None, "there is nothing to guard");
    let processes = stubborn(&server);
    let first = guard_of(&server).unwrap();
    // What is sent to everybody when a service is stopped is not meant for it.
    kill(Pid::from_raw(first), Signal::SIGTERM).unwrap();
    kill(Pid::from_raw(first), Signal::SIGKILL).unwrap();
    eventually("another guard", || guard_of(&server).filter(|pid| *pid != first));
    assert!(processes.iter().all(|pid| lives(*pid)), "commands do not notice");
    server.signal(Signal::SIGKILL);
    until_gone(&processes);
}

#[test]
fn what_a_run_left_behind_on_purpose_outlives_server_and_guard() {
    let server = Server::start();
    let file = server.directory.path().join("daemon");
    let line = format!("sleep 600 & echo $! > {}", file.display());
    server.add(&["--key", "k", "--every", "1h", "--", &line]);
    server.cli(&["job", "trigger", "k", "--wait"]).ok();
    let daemon = number_in(&file);
    let guard = guard_of(&server).unwrap();
    server.signal(Signal::SIGKILL);
    until_gone(&[guard]);
    assert!(lives(daemon));
    kill(Pid::from_raw(daemon), Signal::SIGKILL).unwrap();
}
