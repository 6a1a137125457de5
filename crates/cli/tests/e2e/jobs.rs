//! `bellwether job …` and `group …`.

use serde_json::json;

use crate::support::{Server, eventually};

#[test]
fn r17_a_job_can_be_added_shown_listed_changed_and_deleted() {
    let server = Server::start();
    let job = server.add(&[
        "--key",
        "nightly",
        "--cron",
        "5 2 * * 6",
        "--timezone",
        "Europe/Berlin",
        "--group",
        "reports",
        "--owner",
        "ana",
        "--label",
        "team=bi",
        "--retries",
        "3",
        "--timeout",
        "1h",
        "--",
        "make-report",
        "--full",
    ]);
    assert_eq!(job["schedule_text"], "At 02:05 on Saturday, Europe/Berlin time");
    assert_eq!(job["command"], json!(["make-report", "--full"]));

    let shown = server.cli(&["job", "show", "nightly"]).ok();
    for part in
        ["nightly", "scheduled", "reports", "ana", "team=bi", "make-report --full", "next", "1h"]
    {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let yaml = server.cli(&["job", "show", "nightly", "--yaml"]).ok();
    assert!(yaml.contains("cron: 5 2 * * 6"), "{yaml}");

    let list = server.cli(&["job", "list"]).ok();
    assert!(list.starts_with("JOB") && list.contains("nightly") && list.contains("in "), "{list}");
    for (flags, count) in [
        (["--group", "reports"], 1),
        (["--group", "other"], 0),
        (["--label", "team=bi"], 1),
        (["--status", "paused"], 0),
        (["--key-prefix", "night"], 1),
    ] {
        let list = server.cli(&["job", "list", "--json", flags[0], flags[1]]).json_lines();
        assert_eq!(list.len(), count, "{flags:?}");
    }

    let edited = server.cli(&["job", "edit", "nightly", "--every", "5m", "--json"]).json();
    assert_eq!(edited["schedule"]["every"], "5m");
    assert_eq!(
        edited["retries"].as_u64().or(edited["retry"]["max"].as_u64()),
        Some(3),
        "the rest stays"
    );

    server.cli(&["job", "rm", "nightly"]).ok();
    let error = server.cli(&["job", "show", "nightly"]).fails(3);
    assert!(error.contains("there is no job 'nightly'"), "{error}");
    server.cli(&["job", "rm", "nightly", "--ignore-missing"]).ok();
}

#[test]
fn adding_again_changes_nothing_and_another_body_is_a_conflict() {
    let server = Server::start();
    let first = server.cli(&["job", "add", "--key", "k", "--every", "1h", "--", "true"]).ok();
    assert!(first.starts_with("created job_") && first.contains("next: "), "{first}");
    let again = server.cli(&["job", "add", "--key", "k", "--every", "1h", "--", "true"]).ok();
    assert!(again.starts_with("exists already"), "{again}");
    let other = ["job", "add", "--key", "k", "--every", "2h", "--", "true"];
    let error = server.cli(&other).fails(4);
    assert!(error.contains("key_exists") && error.contains("--replace"), "{error}");
    assert!(!error.contains("PUT"), "{error}");
    let replace = ["job", "add", "--key", "k", "--every", "2h", "--replace", "--", "true"];
    assert!(server.cli(&replace).ok().starts_with("replaced"));
}

#[test]
fn r15_a_spec_may_come_from_a_file_or_standard_input() {
    let server = Server::start();
    let short = r#"{ "job_type": "email_send", "schedule_time": "2036-12-31T23:59:59Z", "payload": {"user_id": 123}, "retries": 3 }"#;
    let job = server.cli_with(&["job", "add", "-f", "-", "--json"], short).json();
    assert_eq!(job["payload"], json!({"user_id": 123}));
    let many = "key: a\nschedule: every 1h\ncommand: 'true'\n---\nkey: b\nschedule: '@daily'\ncommand: 'true'\n";
    std::fs::write(server.directory.path().join("jobs.yaml"), many).unwrap();
    let said = server.cli(&["job", "add", "-f", "jobs.yaml", "--owner", "ana"]).ok();
    assert!(said.contains("2 created"), "{said}");
    assert_eq!(server.cli(&["job", "list", "--owner", "ana", "--json"]).json_lines().len(), 2);
    let bad = "- key: a\n  schedule: every 1h\n  command: 'true'\n- key: c\n  schedule: '61 * * * *'\n  command: x\n";
    let said = server.cli_with(&["job", "add", "-f", "-", "--owner", "ana"], bad);
    assert!(said.out.contains("1 refused"), "{said:?}");
    assert!(said.fails(1).contains("job 2 ('c')"));
}

#[test]
fn what_is_not_valid_is_named() {
    let server = Server::start();
    for (flags, part) in [
        (vec!["--cron", "61 * * * *", "--", "x"], "minute"),
        (vec!["--cron", "@daily", "--timezone", "Europe/Berln", "--", "x"], "Europe/Berlin"),
        (vec!["--cron", "0 0 30 2 *", "--", "x"], "never_fires"),
        (vec!["--every", "1h"], "--http URL"),
        (vec!["--", "x"], "--delay 0s"),
        (vec!["--delay", "1h", "--match-both-days", "--", "x"], "goes with a cron"),
        (vec!["--schedule", "whenever", "--", "x"], "is not a schedule"),
        (vec!["--every", "5 parsecs", "--", "x"], "duration"),
    ] {
        let mut args = vec!["job", "add"];
        args.extend(&flags);
        let error = server.cli(&args).fails(2);
        assert!(error.contains(part), "{part} in {error}");
    }
}

#[test]
fn r38_r40_pause_resume_and_maintenance() {
    let server = Server::start();
    server.add(&["--key", "k", "--every", "1h", "--group", "g", "--", "true"]);
    let job = server.cli(&["job", "pause", "k", "--note", "holiday", "--json"]).json();
    assert_eq!((&job["status"], &job["paused"]["note"]), (&json!("paused"), &json!("holiday")));
    assert!(server.cli(&["job", "show", "k"]).ok().contains("holiday"));
    let resumed = server.cli(&["job", "resume", "k"]).ok();
    assert!(resumed.contains("k is resumed, next in "), "{resumed}");
    let job = server.cli(&["job", "maintenance", "k", "--for", "2h", "--json"]).json();
    assert!(job["maintenance"]["until"].is_string(), "{job}");
    server.cli(&["job", "resume", "k"]).ok();

    let said = server.cli(&["group", "pause", "g", "--note", "move"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    let said = server.cli(&["group", "pause", "later"]);
    assert!(said.code == 0 && said.err.contains("no job is in the group later yet"), "{said:?}");
    server.cli(&["group", "resume", "later"]).ok();
    let groups = server.cli(&["group", "list"]).ok();
    assert!(groups.contains("paused") && groups.contains("move"), "{groups}");
    server.cli(&["group", "maintenance", "g", "--until", "in 1h"]).ok();
    server.cli(&["group", "resume", "g"]).ok();
    let groups = server.cli(&["group", "list", "--json"]).json_lines();
    assert_eq!((&groups[0]["name"], &groups[0]["jobs"]), (&json!("g"), &json!(1)));
    assert!(groups[0]["paused"].is_null());
}

#[test]
fn r13_next_times_and_the_ledger() {
    let server = Server::start();
    server.add(&["--key", "k", "--cron", "0 0 * * * *", "--", "true"]);
    let next = server.cli(&["job", "next", "k", "--count", "3", "--json"]).json();
    assert_eq!(next["times"].as_array().unwrap().len(), 3);
    assert!(server.cli(&["job", "next", "k"]).ok().contains("(in "));
    server.cli(&["job", "trigger", "k", "--wait"]).ok();
    let ticks = server.cli(&["job", "ticks", "k"]).ok();
    assert!(ticks.contains("triggered"), "{ticks}");
    let why = server.cli(&["why", "k"]).ok();
    assert!(!why.is_empty());
    let why = server.cli(&["why", "k", "--at", "2h ago", "--json"]).json();
    assert!(why["answer"].as_str().is_some_and(|answer| !answer.is_empty()), "{why}");
}

#[test]
fn r49_a_job_for_all_workers_is_triggered_on_each() {
    let server = Server::start();
    let flags = ["--key", "k", "--every", "1h", "--target-workers", "all"];
    server.add(&[&flags[..], &["--resources", "memory=512M", "--", "echo here"]].concat());
    let shown = server.cli(&["job", "show", "k"]).ok();
    assert!(shown.contains("all") && shown.contains("512M"), "{shown}");
    let out = server.cli(&["job", "trigger", "k", "--wait"]).ok();
    assert!(out.contains("here"), "{out}");
    let ticks = server.cli(&["job", "ticks", "k", "--json"]).json_lines();
    assert_eq!((&ticks[0]["fate"], &ticks[0]["runs"]), (&json!("triggered"), &json!(1)));
    server.add(&[
        "--key",
        "none",
        "--every",
        "1h",
        "--target-workers",
        "all",
        "--requires",
        "gpu=yes",
        "--",
        "true",
    ]);
    let refused = server.cli(&["job", "trigger", "none"]).fails(4);
    assert!(refused.contains("no worker that takes it was connected"), "{refused}");
}

#[test]
fn a_job_can_be_changed_in_an_editor() {
    let server = Server::start();
    server.add(&["--key", "k", "--every", "1h", "--", "old"]);
    let mut edit = server.command(&["job", "edit", "k"]);
    edit.env("EDITOR", "sed -i s/old/new/");
    crate::support::run(&mut edit, "").ok();
    assert_eq!(server.cli(&["job", "show", "k", "--json"]).json()["command"], "new");
    let mut edit = server.command(&["job", "edit", "k"]);
    edit.env("EDITOR", "true");
    assert!(crate::support::run(&mut edit, "").err.contains("nothing was changed"));
    let error = server.cli(&["job", "edit", "k"]).fails(2);
    assert!(error.contains("EDITOR"), "{error}");
}

#[test]
fn r2_r3_one_off_jobs_run_once() {
    let server = Server::start();
    let log = server.directory.path().join("log");
    let line = format!("echo ran >> {}", log.display());
    let job = server.add(&["--delay", "0s", "--", &line]);
    let id = job["id"].as_str().unwrap();
    eventually("the run", || {
        let job = server.cli(&["job", "show", id, "--json"]).json();
        (job["status"] == "completed").then_some(())
    });
    assert_eq!(std::fs::read_to_string(log).unwrap(), "ran\n");
}

#[test]
fn namespaces_keep_jobs_apart() {
    let server = Server::start();
    for namespace in ["a", "b"] {
        server.add(&["-n", namespace, "--key", "same", "--every", "1h", "--", namespace]);
    }
    let job = server.cli(&["job", "show", "same", "-n", "b", "--json"]).json();
    assert_eq!(job["command"], "b");
    server.cli(&["job", "show", "same"]).fails(3);
    let list = server.cli(&["job", "list"]).ok();
    assert!(list.starts_with("NAMESPACE"), "{list}");
    assert_eq!(server.cli(&["job", "list", "-n", "a", "--json"]).json_lines().len(), 1);
}

#[test]
fn a_job_that_will_not_run_shows_no_next_time() {
    let server = Server::start();
    let added =
        server.cli(&["job", "add", "--key", "k", "--every", "1h", "--disabled", "--", "true"]).ok();
    assert!(added.contains("paused") && !added.contains("next:"), "{added}");
    let shown = server.cli(&["job", "show", "k"]).ok();
    assert!(shown.contains("if resumed") && !shown.contains("\nnext"), "{shown}");
}

#[test]
fn times_are_rounded_and_told_in_the_jobs_zone_too() {
    let server = Server::start();
    let added = server.cli(&["job", "add", "--delay", "30m", "--", "true"]).ok();
    assert!(added.contains("(in 30m)"), "{added}");
    let zone = ["--cron", "0 12 * * *", "--timezone", "Asia/Tokyo"];
    let mut args = vec!["job", "add", "--key", "k"];
    args.extend(zone);
    args.extend(["--", "true"]);
    let added = server.cli(&args).ok();
    assert!(added.contains("03:00:00 +00:00"), "{added}");
    assert!(added.contains("; 12:00:00 in Asia/Tokyo)"), "{added}");
    assert!(server.cli(&["job", "next", "k"]).ok().contains("12:00:00 in Asia/Tokyo"));
}

#[test]
fn r2_a_one_off_that_is_triggered_is_brought_forward() {
    let server = Server::start();
    server.add(&["--key", "once", "--delay", "2h", "--", "true"]);
    let said = server.cli(&["job", "trigger", "once", "--wait"]);
    assert!(said.err.contains("once was due in 2h; it is brought forward"), "{said:?}");
    said.ok();
    server.add(&["--key", "often", "--every", "2h", "--", "true"]);
    let said = server.cli(&["job", "trigger", "often"]);
    assert!(!said.err.contains("brought forward"), "{said:?}");
}
