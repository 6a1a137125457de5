//! Process trees: whatever a command started is gone when it is stopped, timed out or orphaned.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bellwether_worker::{
    Control, LiveOutput, Outcome, ReasonCode, StopReason, Stream, kill_orphans,
};
use common::{executor, is_alive, pids_in, run, shell, start, until};

/// A command with a child, a child in a session of its own whose parent has exited, and a child
/// in a session of its own without an environment. All write their process id.
fn family(file: &Path) -> String {
    let f = file.display();
    format!(
        "echo $$ >> {f}
         sleep 600 & echo $! >> {f}
         (setsid sh -c 'echo $$ >> {f}; exec sleep 600' &)
         env -i setsid -w sh -c 'echo $$ >> {f}; sleep 600; true' &
         wait"
    )
}

fn all_dead(pids: &[i32]) {
    for pid in pids {
        assert!(!is_alive(*pid), "{pid} of {pids:?} is alive");
    }
}

#[tokio::test]
async fn r39_stopping_ends_the_whole_tree() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let (control, _, task) = start(shell(&family(&file)));
    let pids = pids_in(&file, 4).await;
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    let begun = Instant::now();
    control.stop(StopReason::Canceled);
    let finished = task.await.unwrap();
    assert!(
        matches!(&finished.outcome, Outcome::Stopped(StopReason::Canceled, failure)
        if failure.code == ReasonCode::Canceled),
        "{finished:?}"
    );
    assert_eq!(finished.signal, Some(15));
    // All of them die of TERM, so nobody waits for the grace period.
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    all_dead(&pids);
}

#[tokio::test]
async fn r39_a_timeout_kills_what_ignores_term() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let f = file.display();
    let line = format!(
        "trap '' TERM; echo $$ >> {f}
         setsid sh -c 'trap \"\" TERM; echo $$ >> {f}; while :; do sleep 1; done' &
         while :; do sleep 1; done"
    );
    let mut attempt = shell(&line);
    attempt.timeout = Some(Duration::from_millis(300));
    attempt.grace = Duration::from_millis(300);
    let begun = Instant::now();
    let finished = run(attempt).await;
    assert!(
        matches!(&finished.outcome, Outcome::TimedOut(failure)
        if failure.code == ReasonCode::Timeout),
        "{finished:?}"
    );
    assert_eq!(finished.signal, Some(9));
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(600), "{took:?}");
    // A second after the grace period at most; the rest is for a busy machine.
    assert!(took < Duration::from_millis(600 + 1000 + 1000), "{took:?}");
    all_dead(&pids_in(&file, 2).await);
}

#[tokio::test]
async fn r39_a_stopped_process_is_ended_too() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let line = format!("echo $$ >> {}; kill -STOP $$", file.display());
    let (control, _, task) = start(shell(&line));
    let pid = pids_in(&file, 1).await[0];
    until("it has stopped", || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.contains(") T ").then_some(())
    })
    .await;
    control.stop(StopReason::Shutdown);
    let finished = task.await.unwrap();
    assert_eq!(finished.signal, Some(15), "{finished:?}");
}

#[tokio::test]
async fn r39_output_and_exit_code_of_an_orderly_end_are_kept() {
    let line = "trap 'sleep 0.3 && echo cleaned up; exit 7' TERM; echo ready; while :; do sleep 0.05; done";
    let (control, output, task) = start(shell(line));
    until("it is ready", || (output.total_bytes() >= 6).then_some(())).await;
    control.stop(StopReason::Canceled);
    let finished = task.await.unwrap();
    assert_eq!(finished.exit_code, Some(7), "{finished:?}");
    assert_eq!(finished.output.text(Some(Stream::Stdout)), "ready\ncleaned up\n");
}

#[tokio::test]
async fn r39_a_canceled_script_does_not_go_on_to_its_next_command() {
    let (control, output, task) = start(shell("echo ready; sleep 600; echo next; sleep 600"));
    until("it is ready", || (output.total_bytes() >= 6).then_some(())).await;
    control.stop(StopReason::Canceled);
    let finished = task.await.unwrap();
    assert_eq!(finished.output.text(Some(Stream::Stdout)), "ready\n");
}

#[tokio::test]
async fn r39_a_second_request_shortens_the_grace_period() {
    let line = "trap '' TERM; echo ready; while :; do sleep 0.05; done";
    let mut attempt = shell(line);
    attempt.grace = Duration::from_secs(3600);
    let (control, output, task) = start(attempt);
    until("it is ready", || (output.total_bytes() >= 6).then_some(())).await;
    control.stop(StopReason::Shutdown);
    control.stop_within(StopReason::Canceled, Duration::ZERO);
    let finished = task.await.unwrap();
    assert!(matches!(finished.outcome, Outcome::Stopped(StopReason::Shutdown, _)));
    assert_eq!(finished.signal, Some(9));
}

#[tokio::test]
async fn r39_other_attempts_are_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, theirs) = (directory.path().join("ours"), directory.path().join("theirs"));
    let (control, _, task) = start(shell(&family(&ours)));
    let (other_control, _, other_task) = start(shell(&family(&theirs)));
    let (ours, theirs) = (pids_in(&ours, 4).await, pids_in(&theirs, 4).await);
    control.stop(StopReason::Canceled);
    task.await.unwrap();
    all_dead(&ours);
    assert!(theirs.iter().all(|pid| is_alive(*pid)));
    other_control.stop(StopReason::Canceled);
    other_task.await.unwrap();
    all_dead(&theirs);
}

/// Not a test: a server stand-in for the test below, which starts it as a process of its own.
#[tokio::test]
#[ignore = "run by r65_orphans_of_a_killed_server_are_ended"]
async fn helper_server_that_will_be_killed() {
    let Ok(file) = std::env::var("HELPER_FILE") else { return };
    let mut attempt = shell(&family(Path::new(&file)));
    attempt.instance = std::env::var("HELPER_INSTANCE").unwrap();
    attempt.run_id = std::env::var("HELPER_RUN").unwrap();
    executor().execute(attempt, Control::new(), LiveOutput::new(1000)).await;
}

/// Starts a server stand-in that runs the family above, waits for it, and kills it with -9.
async fn orphaned_family(file: &Path, instance: &str, run_id: &str) -> Vec<i32> {
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "helper_server_that_will_be_killed", "--ignored"])
        .env("HELPER_FILE", file)
        .env("HELPER_INSTANCE", instance)
        .env("HELPER_RUN", run_id)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pids = pids_in(file, 4).await;
    server.kill().unwrap();
    server.wait().unwrap();
    pids
}

#[tokio::test]
async fn r65_orphans_of_a_killed_server_are_ended() {
    let directory = tempfile::tempdir().unwrap();
    let instance = format!("orphans-{}", std::process::id());
    let open = orphaned_family(&directory.path().join("open"), &instance, "run_open").await;
    let closed = orphaned_family(&directory.path().join("closed"), &instance, "run_closed").await;
    assert!(open.iter().chain(&closed).all(|pid| is_alive(*pid)), "they outlive their server");

    let found = kill_orphans(&instance, Duration::from_secs(2), |run| run == "run_open").await;
    for pid in &open {
        assert!(!is_alive(*pid), "{pid} is alive; {found:?}");
        assert!(found.iter().any(|orphan| orphan.pid == *pid), "{pid} is not in {found:?}");
    }
    assert!(found.iter().all(|orphan| orphan.run_id == "run_open" && orphan.gone));
    assert!(found.iter().all(|orphan| orphan.attempt == 1));
    assert!(closed.iter().all(|pid| is_alive(*pid)), "a run that has ended is left alone");

    assert!(kill_orphans("another", Duration::ZERO, |_| true).await.is_empty());
    assert!(kill_orphans(&instance, Duration::ZERO, |_| true).await.len() >= 4);
    all_dead(&closed);
    assert!(kill_orphans(&instance, Duration::ZERO, |_| true).await.is_empty());
}

/// Not a test: carries the marks itself and looks for orphans.
#[tokio::test]
#[ignore = "run by r65_the_caller_is_no_orphan"]
async fn helper_marked_caller() {
    let Ok(instance) = std::env::var("BELLWETHER_INSTANCE") else { return };
    let found = kill_orphans(&instance, Duration::ZERO, |_| true).await;
    let own = i32::try_from(std::process::id()).unwrap();
    assert!(found.iter().all(|orphan| orphan.pid != own), "{found:?}");
}

#[tokio::test]
async fn r65_the_caller_is_no_orphan() {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "helper_marked_caller", "--ignored"])
        .env("BELLWETHER_INSTANCE", format!("caller-{}", std::process::id()))
        .env("BELLWETHER_RUN_ID", "run_1")
        .env("BELLWETHER_ATTEMPT", "1")
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
}
