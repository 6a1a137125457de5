//! Stopping: runs, workers, and workers by way of their server.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::process::{Worker, add, contents, lives, run_with, server, workers_of};
use crate::support::{Server, eventually};

/// Has a run with a process tree begun, and cancels it. How long it takes until the tree has ended.
fn time_to_cancel(server: &Server, n: usize) -> Duration {
    let dir = server.directory.path();
    let (parent, child) = (dir.join(format!("parent-{n}")), dir.join(format!("child-{n}")));
    let script = format!(
        "echo $$ > {}; setsid sh -c 'echo $$ > {}; sleep 600' & wait",
        parent.display(),
        child.display()
    );
    let id = add(server, &script, &[]);
    let (parent, child) = (contents(&parent), contents(&child));
    let begun = Instant::now();
    server.cli(&["run", "cancel", &id]).ok();
    eventually("the end of the tree", || (!lives(&parent) && !lives(&child)).then_some(()));
    let took = begun.elapsed();
    run_with(server, &id, "canceled");
    took
}

#[test]
fn r39_cancel_reaches_the_process_tree_within_a_second() {
    let server = server();
    let _worker = Worker::start(&server, "w1");
    // On a busy machine it may take as long until the command line has started that cancels it.
    let mut all = Vec::new();
    let in_time = (0..5).any(|n| {
        let took = time_to_cancel(&server, n);
        all.push(took);
        took < Duration::from_secs(1)
    });
    assert!(in_time, "{all:?}");
}

/// A script that runs until a file is there.
fn until(flag: &std::path::Path) -> String {
    format!("echo begun; until test -e {}; do sleep 0.02; done; echo ended", flag.display())
}

#[test]
fn a_worker_that_is_drained_or_terminated_finishes_and_ends() {
    for by_server in [true, false] {
        let server = server();
        let mut worker = Worker::start(&server, "w1");
        let flag = server.directory.path().join("flag");
        let id = add(&server, &until(&flag), &[]);
        run_with(&server, &id, "running");
        if by_server {
            server.cli(&["worker", "drain", "w1"]).ok();
        } else {
            worker.signal(Signal::SIGTERM);
            worker.wait_for("leaving");
        }
        eventually("a worker that drains", || {
            let list = server.cli(&["worker", "list"]).ok();
            list.contains("draining").then_some(())
        });
        let later = add(&server, "echo late", &[]);
        assert!(worker.child.try_wait().unwrap().is_none());
        fs::write(&flag, "").unwrap();
        assert!(worker.ends().success());
        run_with(&server, &id, "succeeded");
        assert_eq!(server.cli(&["run", "logs", &id]).ok(), "begun\nended\n");
        // What came later waits for another.
        let _second = Worker::start(&server, "w2");
        assert_eq!(workers_of(&run_with(&server, &later, "succeeded")), ["w2"]);
    }
    let server = server();
    server.cli(&["worker", "drain", "nobody"]).fails(3);
}

#[test]
fn r54_a_second_signal_leaves_commands_to_the_next_worker() {
    let server = server();
    let mut worker = Worker::start(&server, "w1");
    let flag = server.directory.path().join("flag");
    let id = add(&server, &until(&flag), &[]);
    run_with(&server, &id, "running");
    worker.signal(Signal::SIGTERM);
    worker.wait_for("leaving");
    // Signals right behind the first are taken for the same; one after them is not.
    let status = eventually("the end", || {
        worker.signal(Signal::SIGTERM);
        worker.child.try_wait().unwrap()
    });
    assert_eq!(status.code(), Some(143));
    let _again = Worker::start(&server, "w1");
    fs::write(&flag, "").unwrap();
    run_with(&server, &id, "succeeded");
    assert_eq!(server.cli(&["run", "logs", &id]).ok(), "begun\nended\n");
}
