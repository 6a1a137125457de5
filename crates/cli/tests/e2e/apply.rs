//! `bellwether apply`.

use crate::support::{Said, Server};

const FILE: &str = "\
- key: a
  group: g
  schedule: '5 2 * * 6'
  command: 'true'
  retries: 3
  overlap: queue
- key: b
  group: g
  schedule: every 5m
  http: {url: 'http://127.0.0.1:1/', headers: {X-A: b}}
  timeout: 90s
- key: c
  group: g
  schedule: {any: ['@daily', {cron: '0 12 * * *'}], timezone: Europe/Berlin}
  job_type: email_send
  payload: {user_id: 123}
";

fn actions(said: Said) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    said.json_lines().iter().map(|row| (text(&row["action"]), text(&row["key"]))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(action, key)| ((*action).to_owned(), (*key).to_owned())).collect()
}

#[test]
fn a_file_is_applied_once_and_then_changes_nothing() {
    let server = Server::start();
    let apply = |flags: &[&str], text: &str| {
        let mut args = vec!["apply", "-f", "-", "--json"];
        args.extend(flags);
        actions(server.cli_with(&args, text))
    };
    let all = |action| pairs(&[(action, "a"), (action, "b"), (action, "c")]);
    assert_eq!(apply(&["--dry-run"], FILE), all("create"));
    assert!(
        server.cli(&["job", "list", "--json"]).json_lines().is_empty(),
        "a dry run does nothing"
    );
    assert_eq!(apply(&[], FILE), all("created"));
    assert_eq!(apply(&[], FILE), all("unchanged"));
    let job = server.cli(&["job", "show", "a", "--json"]).json();
    assert_eq!(job["revision"], 1, "what is the same is not sent again");

    let changed = FILE.replace("5 2 * * 6", "6 2 * * 6");
    assert_eq!(apply(&["--dry-run"], &changed)[0].0, "change");
    let dry = server.cli_with(&["apply", "-f", "-", "--dry-run"], &changed).ok();
    assert!(dry.contains("schedule.cron: 5 2 * * 6 → 6 2 * * 6"), "{dry}");
    let dry = server.cli_with(&["apply", "-f", "-", "--dry-run", "--json"], &changed).json_lines();
    assert_eq!(
        dry[0]["changes"],
        serde_json::json!([{"field": "schedule.cron", "from": "5 2 * * 6", "to": "6 2 * * 6"}])
    );
    assert_eq!(
        apply(&[], &changed),
        pairs(&[("changed", "a"), ("unchanged", "b"), ("unchanged", "c")])
    );

    // A job that was paused by hand stays paused: the file does not say otherwise.
    server.cli(&["job", "pause", "b"]).ok();
    assert_eq!(apply(&[], &changed)[1].0, "unchanged");
}

#[test]
fn pruning_deletes_what_the_file_no_longer_has_in_its_groups() {
    let server = Server::start();
    server.cli_with(&["apply", "-f", "-"], FILE).ok();
    server.add(&["--key", "elsewhere", "--every", "1h", "--", "true"]);
    let shorter =
        "[{key: a, group: g, schedule: '5 2 * * 6', command: 'true', retries: 3, overlap: queue}]";
    let dry =
        actions(server.cli_with(&["apply", "-f", "-", "--prune", "--dry-run", "--json"], shorter));
    assert_eq!(dry.iter().filter(|(action, _)| action == "delete").count(), 2, "{dry:?}");
    let error = server.cli_with(&["apply", "-f", "-", "--prune"], shorter).fails(2);
    assert!(error.contains("2 jobs") && error.contains("--yes"), "{error}");
    assert_eq!(server.cli(&["job", "list", "--json"]).json_lines().len(), 4, "nothing is deleted");
    let said = server.cli_with(&["apply", "-f", "-", "--prune", "--yes"], shorter);
    assert!(said.err.contains("2 deleted"), "{said:?}");
    said.ok();
    let left = server.cli(&["job", "list", "--json"]).json_lines();
    let mut keys: Vec<&str> = left.iter().map(|job| job["key"].as_str().unwrap()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["a", "elsewhere"]);
    let error = server
        .cli_with(&["apply", "-f", "-", "--prune"], "[{key: x, schedule: '@daily', command: x}]");
    assert!(error.fails(2).contains("group"));
}

#[test]
fn mistakes_in_a_file_change_nothing() {
    let server = Server::start();
    for (text, part) in [
        (
            "[{key: a, schedule: '@daily', command: x}, {schedule: '@daily', command: x}]",
            "job 2 has no key",
        ),
        (
            "[{key: a, schedule: '@daily', command: x}, {key: a, schedule: '@daily', command: x}]",
            "twice",
        ),
        (
            "[{key: a, schedule: '@daily', command: x}, {key: b, schedule: '61 * * * *', command: x}]",
            "standard input, job 2 ('b')",
        ),
        ("[{key: a, schedule: '@daily', comand: x}]", "did you mean `command`?"),
        ("", "no job"),
    ] {
        let error = server.cli_with(&["apply", "-f", "-"], text).fails(2);
        assert!(error.contains(part), "{part} in {error}");
    }
    assert!(server.cli(&["apply", "-f", "nowhere.yaml"]).fails(2).contains("nowhere.yaml"));
    assert!(server.cli(&["job", "list", "--json"]).json_lines().is_empty());
}

#[test]
fn many_jobs_are_applied_with_one_command() {
    let server = Server::start();
    let text: String = (0..300)
        .map(|n| {
            format!("{{\"key\": \"k{n}\", \"schedule\": \"@daily\", \"command\": \"true\"}}\n")
        })
        .collect();
    let said = server.cli_with(&["apply", "-f", "-"], &text);
    assert!(said.err.contains("300 created"), "{}", said.err);
    let json = server.cli(&["job", "list", "--json"]);
    assert_eq!(json.json_lines().len(), 300, "programs get everything");
    assert_eq!(server.cli(&["job", "list", "--all"]).ok().lines().count(), 301);
    server.cli(&["job", "list", "--limit", "0"]).fails(2);
    let few = server.cli(&["job", "list"]);
    assert!(few.err.contains("there are more"), "{}", few.err);
    assert_eq!(few.out.lines().count(), 101);
    assert_eq!(server.cli(&["job", "list", "--limit", "10", "--json"]).json_lines().len(), 10);
}
