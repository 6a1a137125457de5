//! Memory limits: what the processes of a command may use together.
//!
//! Where the kernel can be had to keep them, a test of that runs too; elsewhere it says that it was
//! skipped, and why. Looking at processes is tested everywhere.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use bellwether_worker::{
    Attempt, Control, Executor, ExecutorOptions, Finished, LiveOutput, Outcome, ReasonCode, Stream,
    Target, prepare_memory_limits,
};
use common::{is_alive, pids_in, shell, skipped, until};

const MIB: u64 = 1 << 20;

/// A command that may use so much.
fn limited(line: &str, limit_bytes: u64) -> Attempt {
    let mut attempt = shell(line);
    let Target::Command(command) = &mut attempt.target else { unreachable!() };
    command.memory_limit_bytes = Some(limit_bytes);
    attempt
}

/// A process that takes so much memory and keeps it until its input ends.
fn hold(mib: u64) -> String {
    format!("python3 -c 'import sys; x = bytearray({mib} << 20); sys.stdin.read()'")
}

fn start(
    attempt: Attempt,
    kernel_limits: bool,
) -> (Arc<LiveOutput>, impl Future<Output = Finished>) {
    let options = ExecutorOptions { kernel_limits, ..ExecutorOptions::default() };
    let output = LiveOutput::new(1 << 20);
    let sink = Arc::clone(&output);
    let task = tokio::spawn(async move {
        Executor::new(options).unwrap().execute(attempt, Control::new(), sink).await
    });
    (output, async { task.await.unwrap() })
}

fn assert_killed_for_memory(finished: &Finished, limit: &str) {
    let Outcome::Failed(failure) = &finished.outcome else { panic!("{finished:?}") };
    assert_eq!(failure.code, ReasonCode::MemoryLimit, "{finished:?}");
    assert!(failure.message.contains(limit), "{}", failure.message);
    assert!(finished.started && finished.retryable && finished.signal.is_some(), "{finished:?}");
}

#[tokio::test]
async fn processes_that_use_too_much_together_are_all_killed() {
    let directory = tempfile::tempdir().unwrap();
    let (file, fifo) = (directory.path().join("pids"), directory.path().join("fifo"));
    // Neither is too large by itself, and both ignore TERM.
    let line = format!(
        "trap '' TERM; mkfifo {fifo}; exec 3<>{fifo}
         {hold} <&3 & echo $! >> {file}; {hold} <&3 & echo $! >> {file}; wait",
        fifo = fifo.display(),
        file = file.display(),
        hold = hold(120),
    );
    let (_, ended) = start(limited(&line, 200 * MIB), false);
    let pids = pids_in(&file, 2).await;
    let finished = ended.await;
    assert_killed_for_memory(&finished, "the limit is 200 MiB");
    assert!(finished.usage.unwrap().memory_peak_bytes > 200 * MIB, "{finished:?}");
    assert!(pids.iter().all(|pid| !is_alive(*pid)), "{pids:?}");
}

#[tokio::test]
async fn what_comes_near_its_limit_is_warned_once_and_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    let line = format!("mkfifo {0}; {1} <{0}; echo done", fifo.display(), hold(370));
    let (output, ended) = start(limited(&line, 400 * MIB), false);
    let gate = until("the fifo is there", || fifo.exists().then(|| fifo.clone())).await;
    let gate = tokio::task::spawn_blocking(|| std::fs::File::options().write(true).open(gate));
    let gate = gate.await.unwrap().unwrap();
    let warned = || output.captured().text(Some(Stream::Stderr)).contains("the limit is 400 MiB");
    until("there is a warning", || warned().then_some(())).await;
    drop(gate);
    let finished = ended.await;
    assert!(finished.succeeded(), "{finished:?}");
    assert_eq!(finished.output.text(Some(Stream::Stdout)), "done\n");
    let said = finished.output.text(Some(Stream::Stderr));
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[tokio::test]
async fn a_command_within_its_limit_notices_nothing() {
    let (_, ended) = start(limited(&format!("{} </dev/null", hold(50)), 400 * MIB), false);
    let finished = ended.await;
    assert!(finished.succeeded() && finished.output.total_bytes == 0, "{finished:?}");
}

#[tokio::test]
async fn the_kernel_keeps_limits_where_it_can_be_had() {
    let base = match prepare_memory_limits() {
        Ok(base) => base,
        Err(why) => {
            let test = "the_kernel_keeps_limits_where_it_can_be_had";
            return skipped::say(test, &format!("the kernel keeps no limits here: {why}"));
        }
    };
    // It is over long before anybody could have looked: only the kernel is that quick.
    let (_, ended) = start(limited(&format!("{} </dev/null; true", hold(500)), 100 * MIB), true);
    let finished = ended.await;
    assert_killed_for_memory(&finished, "limit of 100 MiB, so the kernel killed them");
    let usage = finished.usage.unwrap();
    assert!((50 * MIB..=100 * MIB).contains(&usage.memory_peak_bytes), "{usage:?}");
    assert!(!usage.cpu.is_zero(), "{usage:?}");
    let (_, ended) = start(limited("cat /proc/self/cgroup", 100 * MIB), true);
    let finished = ended.await;
    let group = finished.output.text(None);
    assert!(finished.succeeded() && group.contains("/bellwether-run-"), "{finished:?}");
    let name = group.trim().rsplit('/').next().unwrap();
    assert!(!base.join(name).exists(), "the group is gone with the command");
}
