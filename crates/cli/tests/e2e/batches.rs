//! `bellwether batch …` (R58): a list of items becomes runs, followed as one.

use std::process::Stdio;

use serde_json::json;

use crate::support::{Server, eventually};

/// Texts that a command left behind, in order.
fn left(server: &Server) -> Vec<String> {
    let text = std::fs::read_to_string(server.directory.path().join("out")).unwrap_or_default();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// A command that writes its item down, and fails for `bad`.
fn note_down(server: &Server) -> String {
    let out = server.directory.path().join("out");
    format!("echo \"$BELLWETHER_ITEM\" >> {}; test \"$BELLWETHER_ITEM\" != bad", out.display())
}

#[test]
fn r58_each_line_becomes_a_run_and_the_end_is_waited_for() {
    let server = Server::start();
    let command = note_down(&server);
    server.add(&["--key", "after", "--every", "1000d", "--", "true"]);
    let args = ["batch", "create", "--items", "-", "--key", "b", "--description", "a few"];
    let args =
        [&args[..], &["--on-complete", "after", "--label", "of=batch", "--", &command]].concat();
    let said = server.cli_with(&args, "two words\r\n\n{\"n\": 1}\n");
    let out = said.ok();
    assert!(out.contains("created batch_") && out.contains("(b), 2 items"), "{out}");
    assert!(out.contains("completed: 2 succeeded, in "), "{out}");
    assert_eq!(left(&server), ["two words", "{\"n\": 1}"]);
    let batch = server.cli(&["batch", "show", "b", "--json"]).json();
    assert_eq!((&batch["succeeded"], &batch["description"]), (&json!(2), &json!("a few")));
    assert_eq!(batch["template"]["labels"], json!({"of": "batch"}));
    assert!(batch["on_complete"]["run"].is_string(), "{batch}");
    // The same again is the same batch; something else with its key is refused.
    let again = server.cli_with(&args, "two words\n\n{\"n\": 1}\n").ok();
    assert!(again.contains("exists already, unchanged: batch_"), "{again}");
    let error = server.cli_with(&args, "other\n").fails(4);
    assert!(error.contains("; choose another --key (key_exists)"), "{error}");
}

#[test]
fn r58_failures_are_told_by_exit_code_and_listed() {
    let server = Server::start();
    let command = note_down(&server);
    let said = server.cli_with(&["batch", "create", "--items", "-", "--", &command], "a\nbad\nc\n");
    assert!(said.out.contains("completed: 2 succeeded, 1 failed"), "{said:?}");
    let id = said.out.split_whitespace().find(|word| word.starts_with("batch_")).unwrap();
    let id = id.trim_end_matches(',').to_owned();
    let hint = format!("see `bellwether batch runs {id} --status failed,lost`");
    assert!(said.err.contains(&hint), "{said:?}");
    said.fails(1);

    let failed = server.cli(&["batch", "runs", &id, "--status", "failed,lost", "--json"]);
    let failed = failed.json_lines();
    assert_eq!((failed.len(), &failed[0]["exit_code"]), (1, &json!(1)));
    assert_eq!(server.cli(&["batch", "runs", &id, "--json"]).json_lines().len(), 3);
    let table = server.cli(&["batch", "runs", &id]).ok();
    assert!(table.contains("RUN") && table.contains("succeeded"), "{table}");

    let list = server.cli(&["batch", "list"]).ok();
    for part in ["BATCH", "ITEMS", "FAILED", &id, "completed"] {
        assert!(list.contains(part), "{part} in {list}");
    }
    assert_eq!(server.cli(&["batch", "list", "--json"]).json_lines()[0]["total"], 3);
    let shown = server.cli(&["batch", "show", &id]).ok();
    for part in [&id, "completed", "3 (100%)", "BELLWETHER_ITEM"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    // Waiting for what is over is over at once, and says the same.
    let said = server.cli(&["batch", "show", &id, "--wait", "--json"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.out.contains("\"failed\": 1"), "{said:?}");
    server.cli(&["batch", "cancel", &id]).fails(4);
    server.cli(&["batch", "show", "batch_0000000000000"]).fails(3);
}

#[test]
fn r58_a_file_may_have_all_of_it_and_flags_go_over_it() {
    let server = Server::start();
    let path = server.directory.path().join("b.ndjson");
    let out = server.directory.path().join("out");
    let line = format!("echo $BELLWETHER_ITEM >> {}", out.display());
    let head = json!({"key": "k", "template": {"command": line}});
    std::fs::write(&path, format!("\n{head}\n\"x\"\n\n{{\"n\":1}}\n[1,2]\n")).unwrap();
    let args = ["batch", "create", "-f", "b.ndjson", "--key", "mine", "--queue", "default"];
    let batch = server.cli(&[&args[..], &["--json"]].concat()).json();
    assert_eq!((&batch["key"], &batch["succeeded"]), (&json!("mine"), &json!(3)));
    assert_eq!(left(&server), ["[1,2]", "x", "{\"n\":1}"]);

    std::fs::write(&path, "{}\n{\"command\": \"true\"}\n{\"command\": \"true\"}\n").unwrap();
    let jobs = server.cli(&["batch", "create", "--file", "b.ndjson", "--json"]).json();
    assert_eq!(jobs["succeeded"], 2, "lines are whole jobs if there is no template");

    // Mistakes name the line of the file, and nothing is created.
    std::fs::write(&path, "\n{}\n{\"command\": \"true\"}\n{\"comand\": \"true\"}\n").unwrap();
    let error = server.cli(&["batch", "create", "-f", "b.ndjson"]).fails(2);
    assert!(error.contains("b.ndjson, line 4: "), "{error}");
    let args = ["batch", "create", "--items", "-", "--items-json", "--type", "t"];
    let error = server.cli_with(&args, "1\nnot json\n").fails(2);
    assert!(error.contains("standard input, line 2: "), "{error}");
    let args = ["batch", "create", "--items", "-", "--", "true"];
    let error = server.cli_with(&args, "a\u{0}b\n").fails(2);
    assert!(error.contains("standard input, line 1: "), "{error}");
    let error = server.cli_with(&args, "").fails(2);
    assert!(error.contains("no items"), "{error}");
    std::fs::write(&path, "{\"templat\": {}}\n1\n").unwrap();
    let error = server.cli(&["batch", "create", "-f", "b.ndjson"]).fails(2);
    assert!(error.contains("b.ndjson, line 1: ") && error.contains("`template`"), "{error}");
    let args = ["batch", "create", "--items", "-", "--ordering-key", "k", "--", "true"];
    let error = server.cli_with(&args, "a\n").fails(2);
    assert!(error.contains("bellwether job add -f FILE") && !error.contains("POST"), "{error}");
    server.cli(&["batch", "create", "--", "true"]).fails(2);
    assert_eq!(server.cli(&["batch", "list", "--json"]).json_lines().len(), 2);
}

#[test]
fn r58_a_refusal_is_told_while_lines_are_still_being_sent() {
    let server = Server::start();
    let mut text = String::from("good\na\u{0}b\n");
    for n in 0..1_000_000 {
        text.push_str(&format!("line {n}\n"));
    }
    let path = server.directory.path().join("items");
    std::fs::write(&path, text).unwrap();
    let error = server.cli(&["batch", "create", "--items", "items", "--", "true"]).fails(2);
    assert!(error.contains("items, line 2: "), "{error}");
    assert_eq!(server.cli(&["batch", "list", "--json"]).json_lines().len(), 0);
}

#[test]
fn r58_a_batch_is_canceled_and_one_that_nobody_watches_goes_on() {
    let server = Server::start();
    let items = "x\n".repeat(3_000);
    // Nobody has such a handler, so nothing of it ever begins.
    let args = ["batch", "create", "--items", "-", "--type", "nobody.has", "--key", "b"];
    let created = server.cli_with(&[&args[..], &["--no-wait", "--json"]].concat(), &items).json();
    assert_eq!((&created["total"], &created["status"]), (&json!(3_000), &json!("running")));

    let mut watching = server.command(&["batch", "show", "b", "--wait"]);
    let watching = watching.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = nix::unistd::Pid::from_raw(i32::try_from(watching.id()).unwrap());
    // It listens to the signal once it has the handler: until then the signal would end it.
    eventually("it listens", || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
        (u64::from_str_radix(caught.trim(), 16).unwrap() & 0b10 != 0).then_some(())
    });
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let ended = watching.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let said = String::from_utf8_lossy(&ended.stderr);
    let id = created["id"].as_str().unwrap();
    assert!(said.contains(&format!("{id} goes on without you")), "{said}");
    assert!(said.contains(&format!("`bellwether batch cancel {id}`")), "{said}");
    assert_eq!(server.cli(&["batch", "show", "b", "--json"]).json()["status"], "running");

    let said = server.cli(&["batch", "cancel", "b", "--note", "a mistake"]).ok();
    assert!(said.contains(id) && said.contains("cancel"), "{said}");
    let over = server.cli(&["batch", "show", "b", "--wait"]);
    assert!(over.out.contains("canceled: 3,000 canceled, in "), "{over:?}");
    over.fails(1);
    let shown = server.cli(&["batch", "show", "b"]).ok();
    assert!(shown.contains("by anonymous: a mistake"), "{shown}");
}

#[test]
fn r58_a_batch_may_begin_later() {
    let server = Server::start();
    let args = ["batch", "create", "--items", "-", "--delay", "1000d", "--no-wait", "--", "true"];
    let said = server.cli_with(&args, "a\n").ok();
    assert!(said.contains("created batch_") && said.contains(", 1 item"), "{said}");
    let batch = server.cli(&["batch", "list", "--json"]).json_lines().remove(0);
    assert_eq!(batch["status"], "scheduled");
    let shown = server.cli(&["batch", "show", batch["id"].as_str().unwrap()]).ok();
    assert!(shown.contains("begins"), "{shown}");
}
