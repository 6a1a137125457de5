//! What the processes of a command use, however it ends.

#![allow(clippy::unwrap_used)]

mod common;

use bellwether_worker::{CommandTarget, StopReason, Target, Usage};
use common::{attempt, run, shell, start, until};

/// Two processes that hold 40 MB each until they are ended, once each has read as much.
const TWO_LARGE: &str = "
    hold() { python3 -c 'x = bytearray(40_000_000); print(\"ready\", flush=True); input()' <&3; }
    mkfifo $DIR/never; exec 3<>$DIR/never
    hold & hold & wait";

async fn stopped_when_ready(line: &str) -> Usage {
    let directory = tempfile::tempdir().unwrap();
    let mut attempt = shell(line);
    let Target::Command(command) = &mut attempt.target else { unreachable!() };
    command.env = vec![("DIR".to_owned(), directory.path().display().to_string())];
    let (control, output, task) = start(attempt);
    let ready = || output.captured().text(None).matches("ready").count() == 2;
    until("both are ready", || ready().then_some(())).await;
    control.stop(StopReason::Canceled);
    task.await.unwrap().usage.unwrap()
}

#[tokio::test]
async fn a_short_command_has_its_processor_time_and_the_memory_of_its_largest_process() {
    let finished = run(shell("dd if=/dev/zero of=/dev/null bs=300M count=1; true")).await;
    let usage = finished.usage.unwrap();
    assert!(usage.memory_peak_bytes > 300_000_000, "{usage:?}");
    assert!(!usage.cpu.is_zero() && usage.cpu <= finished.elapsed * 4, "{usage:?}");
}

#[tokio::test]
async fn what_the_server_itself_uses_is_not_the_commands() {
    let ballast = vec![1_u8; 100_000_000];
    let usage = run(shell("true")).await.usage.unwrap();
    assert!(usage.memory_peak_bytes < 60_000_000, "{usage:?}");
    assert_eq!(ballast.iter().map(|byte| usize::from(*byte)).sum::<usize>(), ballast.len());
}

#[tokio::test]
async fn processes_that_are_killed_together_count_together() {
    let usage = stopped_when_ready(TWO_LARGE).await;
    assert!(usage.memory_peak_bytes > 80_000_000, "{usage:?}");
    // Nobody has waited for them, and they count all the same: two starts of Python.
    assert!(usage.cpu.as_millis() >= 10, "{usage:?}");
}

#[tokio::test]
async fn what_never_ran_has_used_nothing() {
    let missing = attempt(Target::Command(CommandTarget::argv(["/no/such/program"])));
    assert_eq!(run(missing).await.usage, None);
}
