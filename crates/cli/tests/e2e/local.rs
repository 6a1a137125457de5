//! What needs no server, and what happens without one.

use std::process::Stdio;

use crate::support::{Server, bellwether, run};

fn alone(args: &[&str]) -> crate::support::Said {
    let directory = tempfile::tempdir().unwrap();
    run(bellwether(directory.path()).args(args), "")
}

#[test]
fn r8_schedules_are_explained_without_a_server() {
    let args = [
        "schedule",
        "explain",
        "5 2 * * 6",
        "--timezone",
        "Europe/Berlin",
        "--from",
        "2026-03-27T00:00:00Z",
        "--count",
        "2",
    ];
    let text = alone(&args).ok();
    assert!(text.starts_with("At 02:05 on Saturday, Europe/Berlin time\n"), "{text}");
    assert!(
        text.contains("2026-03-28 02:05:00 +01:00") && text.contains("2026-04-04 02:05:00 +02:00"),
        "{text}"
    );
    let mut args = args.to_vec();
    args.push("--json");
    let json = alone(&args).json();
    assert_eq!(json["times"][0], "2026-03-28T01:05:00.000Z");
    assert_eq!(json["timezone"], "Europe/Berlin");
    assert!(alone(&["--json", "schedule", "explain", "@daily"]).json()["times"].is_array());
    for (expression, part) in
        [("61 * * * *", "minute"), ("whenever", "is not a schedule"), ("0 0 30 2 *", "never")]
    {
        assert!(
            alone(&["schedule", "explain", expression]).fails(2).contains(part),
            "{expression}"
        );
    }
    for (expression, part) in [
        ("every 5m", "5 minutes"),
        ("@daily", "00:00"),
        ("in 30m", "nce"),
        ("H H * * *", "--identity"),
    ] {
        let text = alone(&["schedule", "explain", expression]).ok();
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_server_that_is_not_there_is_told_with_what_to_do() {
    for args in [vec!["job", "list"], vec!["health"], vec!["events"]] {
        let mut args = args.clone();
        args.extend(["--server", "127.0.0.1:1"]);
        let error = alone(&args).fails(5);
        assert!(error.contains("127.0.0.1:1") && error.contains("`bellwether server`"), "{error}");
    }
    assert!(alone(&["job", "list", "--server", "ftp://x"]).fails(2).contains("HOST:PORT"));
    let error = alone(&["--server", "127.0.0.1:1", "--json", "job", "list"]).fails(5);
    assert!(error.contains("127.0.0.1:1"), "flags may come first: {error}");
}

#[test]
fn a_wrong_command_line_is_a_usage_error() {
    alone(&["jbo", "list"]).fails(2);
    alone(&["job", "list", "--status", "fine"]).fails(2);
    alone(&[]).fails(2);
    alone(&["--json", "server", "--print-config"]).fails(2);
    alone(&["job", "maintenance", "k", "--for", "0s"]).fails(2);
    alone(&["events", "--count", "0"]).fails(2);
    assert!(alone(&["--help"]).ok().contains("Exit codes"));
    assert!(alone(&["--version"]).ok().starts_with("bellwether "));
}

#[test]
fn completions_are_printed_for_every_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let script = alone(&["completions", shell]).ok();
        assert!(script.contains("bellwether") && script.contains("crontab"), "{shell}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let server = Server::start();
    for key in ["a", "b", "c"] {
        server.add(&["--key", key, "--every", "1h", "--", "true"]);
    }
    let mut child = server.command(&["job", "list", "--json"]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn output_that_is_no_terminal_has_no_colours() {
    let server = Server::start();
    server.add(&["--key", "k", "--every", "1h", "--", "true"]);
    assert!(!server.cli(&["job", "list"]).ok().contains('\u{1b}'));
}
