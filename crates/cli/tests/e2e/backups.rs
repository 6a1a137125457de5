//! `bellwether cluster backup …` (R114): all replicas wiped, and back from a backup.

use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{Server, bellwether, eventually, run};

/// How often a command has left its mark.
fn marks(dir: &Path, name: &str) -> usize {
    std::fs::read_to_string(dir.join(name)).map_or(0, |text| text.lines().count())
}

fn job(server: &Server, key: &str) -> Value {
    server.cli(&["job", "show", key, "--json"]).json()
}

/// Adds a job that is there to be in a backup, and nothing more. Its key.
fn add_load(server: &Server, n: usize) -> String {
    let key = format!("load-{n}");
    server.add(&["--key", &key, "--every", "1h", "--", "true"]);
    key
}

/// Takes a backup while jobs are added besides those that there are.
fn backup_under_load(server: &Server, to: &str, before: usize) -> Value {
    let mut taking = server.command(&["cluster", "backup", "--to", to, "--wait", "--json"]);
    let mut taking = taking.stdout(Stdio::piped()).spawn().unwrap();
    let mut more = before..;
    while taking.try_wait().unwrap().is_none() {
        more.next().map(|n| add_load(server, n));
    }
    let out = taking.wait_with_output().unwrap();
    assert!(out.status.success());
    serde_json::from_slice(&out.stdout).unwrap()
}

#[test]
fn r114_everything_acknowledged_before_the_backup_is_there_again_and_what_must_not_run_twice_is_held()
 {
    let server = Server::start();
    let dir = server.directory.path().to_owned();
    let mark = |name: &str| format!("echo x >> {}", dir.join(name).display());
    let wait = format!("until test -e {}; do sleep 0.05; done", dir.join("flag").display());
    let most = ["--delivery", "at_most_once"];
    let least = ["--delivery", "at_least_once"];
    let add = |key: &str, more: &[&str], line: &str| {
        server.add(&[&["--key", key], more, &["--", line]].concat());
    };
    let before: Vec<String> = (0..20).map(|n| add_load(&server, n)).collect();
    add("far", &["--delay", "30d"], "true");
    add("ticks", &[&["--every", "1s"][..], &most].concat(), &mark("ticks"));
    add("repeats", &[&["--every", "1s"][..], &least].concat(), &mark("repeats"));
    add("once-open", &[&["--delay", "0s"][..], &most].concat(), &wait);
    add(
        "again-open",
        &[&["--delay", "0s"][..], &least].concat(),
        &format!("{}; {wait}", mark("again")),
    );
    eventually("both run", || {
        (marks(&dir, "again") == 1 && marks(&dir, "ticks") > 0).then_some(())
    });
    server.cli(&["group", "pause", "g", "--note", "kept"]).ok();
    // It is due after the backup, even where a few commands and the backup take long.
    add("soon", &[&["--delay", "15s"][..], &most].concat(), &mark("soon"));

    let place = dir.join("backups");
    let to = place.to_str().unwrap();
    let backup = backup_under_load(&server, to, before.len());
    assert_eq!((&backup["state"], &backup["shards_done"]), (&json!("complete"), &json!(4)));
    let verified = run(bellwether(&dir).args(["cluster", "verify", to]), "").ok();
    assert!(verified.contains("is sound: 4 shards"), "{verified}");
    // The gap: the old cluster goes on, and then all of it is lost.
    eventually("the one-off runs in the gap", || (marks(&dir, "soon") == 1).then_some(()));
    server.signal(Signal::SIGKILL);
    let (_, _, directory) = server.end();
    std::fs::remove_dir_all(dir.join("data")).unwrap();

    let restore = ["cluster", "restore", "--from", to, "--data-dir", "data"];
    let restored = run(bellwether(&dir).args(restore).arg("--json"), "").json();
    assert_eq!(restored["backup"], backup["name"]);
    assert_eq!(restored["held_jobs"], 2, "{restored}");
    // A run of the job that ticks may have been open as well.
    let lost_runs = restored["lost_runs"].as_u64().unwrap();
    assert!((1..=2).contains(&lost_runs), "{restored}");
    let refused = run(bellwether(&dir).args(restore), "").fails(4);
    assert!(refused.contains("is not empty"), "{refused}");
    // By now what was started last has left its mark as well.
    let (ticks, again) = (marks(&dir, "ticks"), marks(&dir, "again"));

    let server = Server::start_in(directory, &[]);
    for key in before.iter().map(String::as_str).chain(["far"]) {
        assert_eq!(job(&server, key)["status"], "scheduled", "{key}");
    }
    for key in ["ticks", "soon"] {
        let held = job(&server, key);
        assert_eq!((&held["status"], &held["paused"]["by"]), (&json!("paused"), &json!("restore")));
        let note = held["paused"]["note"].as_str().unwrap();
        assert!(note.starts_with("restored from a backup of "), "{note}");
    }
    // What somebody has paused is another matter.
    server.cli(&["job", "pause", "far"]).ok();
    let listed = server.cli(&["job", "list", "--held", "--json"]).json_lines();
    let mut held: Vec<&str> = listed.iter().map(|job| job["key"].as_str().unwrap()).collect();
    held.sort_unstable();
    assert_eq!(held, ["soon", "ticks"]);
    let ledger = server.cli(&["job", "ticks", "ticks", "--json"]).json_lines();
    assert!(ledger.iter().any(|tick| tick["reason"] == "restored"), "{ledger:?}");
    let lost = server.cli(&["run", "list", "--status", "lost", "--json"]).json_lines();
    let mut keys: Vec<&str> = lost.iter().map(|run| run["key"].as_str().unwrap()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["once-open", "ticks"][..lost_runs as usize], "{lost:?}");
    let status = server.cli(&["cluster", "status"]).ok();
    assert!(status.contains("from a backup of"), "{status}");
    // What may be repeated goes on.
    eventually("it is started again", || (marks(&dir, "again") > again).then_some(()));
    let repeats = marks(&dir, "repeats");
    eventually("it goes on", || (marks(&dir, "repeats") > repeats + 1).then_some(()));
    assert_eq!((marks(&dir, "ticks"), marks(&dir, "soon")), (ticks, 1), "nothing ran twice");
    // Somebody has looked, and lets it go on.
    server.cli(&["job", "resume", "ticks"]).ok();
    let held = server.cli(&["job", "list", "--held"]).ok();
    assert!(held.contains("soon") && !held.contains("ticks"), "{held}");
    eventually("it goes on", || (marks(&dir, "ticks") > ticks).then_some(()));
    std::fs::write(dir.join("flag"), "").unwrap();
}

#[test]
fn a_damaged_backup_is_found_and_not_restored() {
    let server = Server::start();
    let dir = server.directory.path().to_owned();
    server.add(&["--every", "1h", "--", "true"]);
    let to = dir.join("backups");
    let to = to.to_str().unwrap();
    for _ in 0..2 {
        server.cli(&["cluster", "backup", "--to", to, "--wait"]).ok();
    }
    let listed =
        run(bellwether(&dir).args(["cluster", "restore", "--from", to, "--list"]), "").ok();
    let names: Vec<&str> =
        listed.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names.len(), 2, "{listed}");
    let victim = dir.join("backups").join(names[0]).join("shard-00000/rows-00001");
    let mut bytes = std::fs::read(&victim).unwrap();
    bytes[30] ^= 1;
    std::fs::write(&victim, bytes).unwrap();
    let said = run(bellwether(&dir).args(["cluster", "verify", to]), "");
    assert!(said.code == 1 && said.out.contains("is not what was written"), "{said:?}");
    run(bellwether(&dir).args(["cluster", "verify", to, "--at", names[1]]), "").ok();
    let restore = ["cluster", "restore", "--from", to, "--data-dir", "other"];
    let said = run(bellwether(&dir).args(restore), "").fails(1);
    assert!(said.contains("use another backup"), "{said}");
    let said = run(bellwether(&dir).args(["server", "--data-dir", "other"]), "").fails(4);
    assert!(said.contains("interrupted restore"), "{said}");
    let said = run(bellwether(&dir).args(restore), "").fails(4);
    assert!(said.contains("remove the directory"), "{said}");
    std::fs::remove_dir_all(dir.join("other")).unwrap();
    let said = run(bellwether(&dir).args(restore).args(["--at", names[1]]), "").ok();
    assert!(said.contains(names[1]), "{said}");
}

#[test]
fn what_is_not_there_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let command = |args: &[&str]| run(bellwether(dir.path()).arg("cluster").args(args), "");
    assert!(command(&["verify", "missing"]).fails(2).contains("no such directory"));
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    assert!(command(&["verify", "empty"]).fails(3).contains("no complete backup"));
    command(&["verify", "empty", "--at", "backup-x"]).fails(3);
    command(&["restore", "--from", "empty"]).fails(2);
    command(&["restore", "--from", "ftp://x", "--data-dir", "d"]).fails(2);
    let server = ["server", "--backup-every", "1h"];
    let said = run(bellwether(dir.path()).args(server), "").fails(2);
    assert!(said.contains("--backup-to"), "{said}");
}
