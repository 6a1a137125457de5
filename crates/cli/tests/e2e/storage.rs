//! `bellwether cluster backup` and the others with storage that speaks S3 (R114).

#[path = "../../../backup/tests/storage/mod.rs"]
mod service;

use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::json;
use service::{SECRET_KEY, Storage, variables};

use crate::support::{Said, Server, bellwether, run};

/// A command without a server.
fn alone(server: &Server, variables: &[(String, String)], args: &[&str]) -> Said {
    run(bellwether(server.directory.path()).args(args).envs(variables.iter().cloned()), "")
}

#[test]
fn r114_a_backup_in_s3_is_taken_listed_checked_and_restored_by_the_documented_commands() {
    let storage = Storage::start("bucket");
    let variables = storage.variables();
    let place = "s3://bucket/bellwether/prod";
    let set = |command: &mut Command| {
        command.envs(storage.variables()).args(["--backup-to", place]);
    };
    let server = Server::start_changed(tempfile::tempdir().unwrap(), set);
    for n in 0..20 {
        server.add(&["--key", &format!("job-{n}"), "--every", "1h", "--", "true"]);
    }
    server.add(&["--key", "once", "--delay", "1h", "--delivery", "at_most_once", "--", "true"]);
    let taken = server.cli(&["cluster", "backup", "--to", place, "--wait", "--json"]).json();
    assert_eq!(
        (&taken["state"], &taken["shards_done"]),
        (&json!("complete"), &json!(4)),
        "{taken}"
    );
    let name = taken["name"].as_str().unwrap();
    assert!(storage.path(&format!("bucket/bellwether/prod/{name}/manifest.json")).exists());
    // Where the server's own setting says, and as a table.
    let said = server.cli(&["cluster", "backup", "--wait"]).ok();
    assert!(said.contains(" is complete in s3://bucket/bellwether/prod"), "{said}");
    let listed = server.cli(&["cluster", "backups", "--json"]).json_lines();
    let states: Vec<_> = listed.iter().map(|backup| backup["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["complete", "complete"], "{listed:?}");
    assert!(server.cli(&["cluster", "backups"]).ok().contains(name));
    let verified = alone(&server, &variables, &["cluster", "verify", place, "--at", name]).ok();
    assert!(verified.contains("is sound: 4 shards"), "{verified}");
    let listed = alone(&server, &variables, &["cluster", "restore", "--from", place, "--list"]);
    assert_eq!(listed.ok().lines().count(), 3);

    server.signal(Signal::SIGKILL);
    let (_, _, directory) = server.end();
    std::fs::remove_dir_all(directory.path().join("data")).unwrap();
    let restore = ["cluster", "restore", "--from", place, "--data-dir", "data", "--json"];
    let restored =
        run(bellwether(directory.path()).args(restore).envs(storage.variables()), "").json();
    assert_eq!(restored["held_jobs"], 0, "{restored}");
    let server = Server::start_in(directory, &[]);
    let jobs = server.cli(&["job", "list", "--json"]).json_lines();
    assert_eq!(jobs.len(), 21, "{jobs:?}");
}

#[test]
fn what_is_wrong_with_s3_is_said_by_commands_and_by_the_server() {
    let storage = Storage::start("bucket");
    let good = storage.variables();
    let endpoint = good[0].1.clone();
    let wrong = variables(&endpoint, "wrong");
    let nobody = variables("http://127.0.0.1:1", SECRET_KEY);
    let set = |command: &mut Command| {
        command.envs(wrong.iter().cloned()).args(["--backup-to", "s3://bucket/p"]);
    };
    let server = Server::start_changed(tempfile::tempdir().unwrap(), set);
    let credentials = "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY";
    let said = server.cli(&["cluster", "backup", "--wait"]).fails(1);
    assert!(said.contains("s3://bucket/p") && said.contains(credentials), "{said}");
    let said = server.cli(&["cluster", "backups"]).fails(1);
    assert!(said.contains(credentials), "{said}");

    let verify = ["cluster", "verify", "s3://bucket/p"];
    let said = alone(&server, &wrong, &verify).fails(6);
    assert!(said.contains(credentials), "{said}");
    let said = alone(&server, &good, &verify).fails(3);
    assert!(said.contains("no complete backup in s3://bucket/p"), "{said}");
    let said = alone(&server, &good, &["cluster", "verify", "s3://elsewhere/p"]).fails(3);
    assert!(said.contains("there is no bucket 'elsewhere'"), "{said}");
    let restore = ["cluster", "restore", "--from", "s3://bucket/p", "--data-dir", "new"];
    let said = alone(&server, &nobody, &restore).fails(5);
    assert!(said.contains("cannot be reached") && said.contains("AWS_ENDPOINT_URL"), "{said}");
    assert!(!server.directory.path().join("new").exists());
    let mut plain = good.clone();
    plain.retain(|(name, _)| name != "AWS_ALLOW_HTTP");
    let said = alone(&server, &plain, &verify).fails(2);
    assert!(said.contains("AWS_ALLOW_HTTP=true"), "{said}");
}
