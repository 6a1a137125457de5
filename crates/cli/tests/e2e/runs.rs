//! `bellwether run …`, `events` and what jobs print.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::json;

use crate::support::{Server, eventually};

#[test]
fn r37_output_is_followed_and_kept() {
    let server = Server::start();
    server.add(&["--key", "k", "--every", "1h", "--", "echo out; echo err >&2"]);
    let said = server.cli(&["job", "trigger", "k", "--wait"]);
    assert!(said.err.contains("succeeded"), "{said:?}");
    let out = said.ok();
    assert!(out.contains("out\n") && out.contains("err\n"), "{out}");
    let run = server.cli(&["job", "runs", "k", "--json"]).json_lines().remove(0);
    let id = run["id"].as_str().unwrap();
    assert_eq!(server.cli(&["run", "logs", id, "--stream", "stdout"]).ok(), "out\n");
    assert_eq!(server.cli(&["run", "logs", id, "--stream", "stderr"]).ok(), "err\n");

    let shown = server.cli(&["run", "show", id]).ok();
    for part in [id, "succeeded", "trigger", "ATTEMPT"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let events = server.cli(&["run", "events", id]).ok();
    assert!(events.contains("started") && events.contains("succeeded"), "{events}");
    let list = server.cli(&["run", "list", "--status", "succeeded"]).ok();
    assert!(list.contains(id), "{list}");
    server.cli(&["run", "show", "run_0000000000000-1"]).fails(3);
}

#[test]
fn r25_a_failure_is_told_and_can_be_retried() {
    let server = Server::start();
    let flag = server.directory.path().join("flag");
    let line = format!("test -e {}", flag.display());
    server.add(&["--key", "k", "--every", "1h", "--", &line]);
    let said = server.cli(&["job", "trigger", "k", "--wait"]);
    assert!(said.err.contains("failed"), "{said:?}");
    said.fails(1);
    let dead = server.cli(&["run", "list", "--status", "failed", "--json"]).json_lines();
    let id = dead[0]["id"].as_str().unwrap();
    assert_eq!(dead[0]["exit_code"], 1);
    std::fs::write(&flag, "").unwrap();
    server.cli(&["run", "retry", id]).ok();
    eventually("the retry", || {
        let run = server.cli(&["run", "show", id, "--json"]).json();
        (run["status"] == "succeeded").then_some(())
    });
    let error = server.cli(&["run", "retry", id]);
    assert_eq!(error.code, 4, "{error:?}");
}

#[test]
fn r59_every_attempt_is_followed_to_the_end() {
    let server = Server::start();
    let line = "echo attempt $BELLWETHER_ATTEMPT; test $BELLWETHER_ATTEMPT = 3";
    server.add(&[
        "--key",
        "k",
        "--every",
        "1h",
        "--retries",
        "3",
        "--retry-initial",
        "50ms",
        "--",
        line,
    ]);
    let said = server.cli(&["job", "trigger", "k", "--wait"]);
    assert!(said.err.contains("succeeded"), "{said:?}");
    assert_eq!(said.ok(), "attempt 1\nattempt 2\nattempt 3\n");
}

#[test]
fn r39_a_run_can_be_canceled() {
    let server = Server::start();
    server.add(&["--key", "k", "--every", "1h", "--", "echo begun; sleep 600"]);
    let run = server.cli(&["job", "trigger", "k"]).ok();
    let id = run.trim();
    let mut logs = server.command(&["run", "logs", "-f", id]);
    let mut logs = logs.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(logs.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "begun\n", "output comes while it runs");
    let said = server.cli(&["run", "cancel", id]).ok();
    assert!(said.contains("is being stopped") || said.contains("is canceled"), "{said}");
    let ended = logs.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&ended.stderr).contains("canceled"), "{ended:?}");
}

#[test]
fn r31_events_are_shown_as_they_happen() {
    let server = Server::start();
    server.add(&["--key", "k", "--every", "1h", "--", "true"]);
    server.add(&["--key", "other", "--every", "1h", "--", "true"]);
    let mut events = server.command(&["events", "--json", "--job", "k", "--count", "2"]);
    let mut events = events.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(events.stdout.take().unwrap()).lines();
    // Events before the listener is there are not heard, so jobs are triggered until it is.
    let (sender, heard) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let lines: Vec<String> = lines.by_ref().map_while(Result::ok).collect();
        let _ = sender.send(());
        lines
    });
    eventually("two events", || {
        server.cli(&["job", "trigger", "other", "--wait"]).ok();
        server.cli(&["job", "trigger", "k", "--wait"]).ok();
        heard.try_recv().ok()
    });
    let lines = reader.join().unwrap();
    assert_eq!(lines.len(), 2);
    for line in lines {
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(event["key"], json!("k"));
    }
    assert!(events.wait().unwrap().success());
}

#[test]
fn events_of_a_job_that_is_none_are_not_waited_for() {
    let server = Server::start();
    let error = server.cli(&["events", "--job", "typo"]).fails(3);
    assert!(error.contains("there is no job 'typo'"), "{error}");
}

#[test]
fn how_a_run_ended_stands_on_a_line_of_its_own() {
    let server = Server::start();
    server.add(&["--key", "k", "--every", "1h", "--", "printf no-newline"]);
    let said = server.cli(&["job", "trigger", "k", "--wait"]);
    assert!(said.err.starts_with("\nrun_"), "{said:?}");
    assert_eq!(said.ok(), "no-newline", "standard output has what the run printed");
}

/// Reads lines of a process in the background, until it ends.
fn lines_of(stream: impl std::io::Read + Send + 'static) -> std::sync::mpsc::Receiver<String> {
    let (sender, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// Waits for a line that has this in it.
#[track_caller]
fn heard(lines: &std::sync::mpsc::Receiver<String>, part: &str) {
    loop {
        match lines.recv_timeout(crate::support::PATIENCE) {
            Ok(line) if line.contains(part) => return,
            Ok(_) => {}
            Err(error) => panic!("no '{part}': {error}"),
        }
    }
}

#[test]
fn logs_and_events_are_followed_across_a_restart() {
    let server = Server::start();
    let line = "echo attempt $BELLWETHER_ATTEMPT; test $BELLWETHER_ATTEMPT = 2 || sleep 600";
    let policy = ["--delivery", "at_least_once", "--every", "1h"];
    let mut flags = vec!["--key", "k"];
    flags.extend(policy);
    flags.extend(["--", line]);
    server.add(&flags);
    let mut events = server.command(&["events", "--job", "k"]);
    let mut events = events.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = server.cli(&["job", "trigger", "k"]).ok();
    let mut logs = server.command(&["run", "logs", "-f", id.trim()]);
    let mut logs = logs.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let printed = lines_of(logs.stdout.take().unwrap());
    let logs_said = lines_of(logs.stderr.take().unwrap());
    let events_said = lines_of(events.stderr.take().unwrap());
    heard(&printed, "attempt 1");

    let address = server.address.clone();
    server.signal(nix::sys::signal::Signal::SIGKILL);
    let (_, _, directory) = server.end();
    heard(&logs_said, "the connection to the server is lost");
    heard(&events_said, "the connection to the server is lost");
    let server = Server::start_at(&address, directory, &[]);
    heard(&events_said, "the server is there again");
    heard(&printed, "attempt 2");
    assert!(logs.wait().unwrap().success());
    heard(&logs_said, "succeeded");
    let happened = lines_of(events.stdout.take().unwrap());
    let run = server.cli(&["job", "trigger", "k"]).ok();
    heard(&happened, run.trim());
    events.kill().unwrap();
    events.wait().unwrap();
}

#[test]
fn http_jobs_keep_the_response() {
    let server = Server::start();
    let url = format!("http://{}/healthz", server.address);
    server.add(&["--key", "ping", "--every", "1h", "--http", &url]);
    let run = server.cli(&["job", "trigger", "ping", "--wait", "--json"]).json();
    assert_eq!(run["attempts"][0]["response"]["status"], 200);
    let shown = server.cli(&["run", "show", run["id"].as_str().unwrap()]).ok();
    assert!(shown.contains("HTTP 200"), "{shown}");
}
