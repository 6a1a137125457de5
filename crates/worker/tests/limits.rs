//! Bounds that only show in the process as a whole: memory and descriptors. One test each at a
//! time, since they measure this process.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;

use bellwether_worker::{Control, LiveOutput, Outcome, StopReason};
use common::{executor, shell, until};

/// Tests in this file take turns.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

fn resident_bytes() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

#[tokio::test]
async fn r53_a_hundred_megabytes_of_output_take_bounded_memory() {
    let _turn = TURN.lock().await;
    let executor = executor();
    let control = Control::new;
    // Once with little output, so that what is allocated only once is there already.
    executor.execute(shell("seq 100000"), control(), LiveOutput::new(1 << 20)).await;
    let before = resident_bytes();
    let output = LiveOutput::new(1 << 20);
    // A reader that never reads must not matter.
    let _idle = output.follow();
    let mut attempt =
        shell("head -c 50000000 /dev/zero; echo middle >&2; head -c 50000000 /dev/zero; echo end");
    attempt.success.output_matches = Some("end".into());
    let sink = std::sync::Arc::clone(&output);
    let task = tokio::spawn(async move { executor.execute(attempt, Control::new(), sink).await });
    let mut most = 0;
    let mut look = tokio::time::interval(std::time::Duration::from_millis(5));
    while !task.is_finished() {
        most = resident_bytes().max(most);
        look.tick().await;
    }
    let finished = task.await.unwrap();
    assert!(finished.succeeded(), "{:?}", finished.outcome);
    assert_eq!(finished.output.total_bytes, 100_000_000 + 7 + 4);
    assert_eq!(finished.output.dropped_bytes, finished.output.total_bytes - (1 << 20));
    assert!(finished.output.text(None).ends_with("end\n"));
    let growth = most.saturating_sub(before);
    assert!(growth < 16 << 20, "grew by {growth} bytes");
}

#[tokio::test]
async fn r53_many_tiny_writes_take_bounded_memory() {
    let _turn = TURN.lock().await;
    let before = resident_bytes();
    let output = LiveOutput::new(1 << 20);
    for number in 0..4_000_000u32 {
        let stream = if number % 2 == 0 {
            bellwether_worker::Stream::Stdout
        } else {
            bellwether_worker::Stream::Stderr
        };
        output.push(stream, b"x");
    }
    let growth = resident_bytes().saturating_sub(before);
    assert!(growth < 64 << 20, "grew by {growth} bytes");
}

#[tokio::test]
async fn r53_two_hundred_runs_leak_no_descriptor() {
    let _turn = TURN.lock().await;
    let executor = executor();
    let run = async |line: &str, stop: bool| {
        let control = Control::new();
        let output = LiveOutput::new(1000);
        let task = {
            let (executor, control) = (executor.clone(), control.clone());
            let (attempt, output) = (shell(line), output.clone());
            tokio::spawn(async move { executor.execute(attempt, control, output).await })
        };
        if stop {
            until("it prints", || (output.total_bytes() > 0).then_some(())).await;
            control.stop_within(StopReason::Canceled, std::time::Duration::ZERO);
        }
        task.await.unwrap()
    };
    run("true", false).await;
    let before = descriptors();
    let lines = ["echo hello", "exit 3", "seq 50000", "no-such-command"];
    for round in 0..200 {
        if round % 10 == 9 {
            let finished = run("echo go; exec sleep 60", true).await;
            assert!(matches!(finished.outcome, Outcome::Stopped(..)));
        } else if round % 20 == 0 {
            assert!(run("(sleep 0.4; echo late) & echo now", false).await.succeeded());
        } else {
            run(lines[round % lines.len()], false).await;
        }
    }
    // Pipes held by background children go when these do.
    until("all descriptors are closed", || (descriptors() <= before).then_some(())).await;
}

#[tokio::test]
async fn r53_descriptors_of_the_server_do_not_reach_commands() {
    let _turn = TURN.lock().await;
    // A descriptor as it would be inherited from whoever started the server: without the flag
    // that closes it in children.
    let inherited = nix::unistd::dup(tempfile::tempfile().unwrap()).unwrap();
    let line = "ls /proc/self/fd";
    let finished = executor().execute(shell(line), Control::new(), LiveOutput::new(1000)).await;
    let text = finished.output.text(None);
    // The fourth is the directory that `ls` itself has open.
    assert_eq!(text.lines().count(), 4, "{text} with {inherited:?} open");
}
