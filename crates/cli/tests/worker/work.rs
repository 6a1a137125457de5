//! What workers run, and what is known of it afterwards.

use std::fs;

use crate::process::{Worker, add, run_with, server, workers_of};
use crate::support::eventually;

#[test]
fn r46_r47_a_worker_runs_the_commands_of_its_queue() {
    let server = server();
    let mut worker = Worker::start_with(&server, "w1", &["--queue", "heavy", "--slots", "2"]);
    let other = add(&server, "echo never", &["--queue", "light"]);
    let script = "echo out; echo err >&2; echo $BELLWETHER_ATTEMPT; exit 3";
    let id = add(&server, script, &["--queue", "heavy", "--retries", "0"]);
    let run = run_with(&server, &id, "failed");
    assert_eq!(run["exit_code"], 3, "{run:#}");
    let output = server.cli(&["run", "logs", &id]).ok();
    assert!(output.contains("out\n") && output.contains("err\n") && output.contains("1\n"));
    let waiting = server.cli(&["run", "show", &other, "--json"]).json();
    assert!(workers_of(&waiting).is_empty(), "{waiting:#}");
    let list = server.cli(&["worker", "list"]).ok();
    assert!(list.contains("w1") && list.contains("heavy") && list.contains("active"), "{list}");
    // What is stored need not be kept.
    eventually("an empty state directory", || worker.attempts().is_empty().then_some(()));
    worker.kill();
}

#[test]
fn r42_a_worker_with_a_token_of_one_namespace_runs_its_commands_alone() {
    let server = server();
    let create = ["token", "create", "team", "--role", "operator", "--namespace", "team"];
    let token = server.cli(&create).ok();
    let _worker = Worker::start_with(&server, "w1", &["--token", token.trim()]);
    let other = add(&server, "echo never", &[]);
    for _ in 0..3 {
        let own = add(&server, "echo own", &["--namespace", "team"]);
        assert_eq!(workers_of(&run_with(&server, &own, "succeeded")), ["w1"]);
    }
    let waiting = server.cli(&["run", "show", &other, "--json"]).json();
    assert!(workers_of(&waiting).is_empty(), "{waiting:#}");
    let list = server.cli(&["worker", "list"]).ok();
    assert!(list.contains("NAMESPACE") && list.contains("team"), "{list}");
}

#[test]
fn what_the_processes_of_a_command_use_is_in_its_history() {
    let server = server();
    let _worker = Worker::start(&server, "w1");
    let id = add(&server, "sh -c 'dd if=/dev/zero of=/dev/null bs=60M count=2'", &[]);
    let run = run_with(&server, &id, "succeeded");
    let used = &run["attempts"][0];
    assert!(used["memory_max_bytes"].as_u64().unwrap() > 60_000_000, "{run:#}");
    assert!(used["cpu_ms"].as_u64().unwrap() > 0, "{run:#}");
}

#[test]
fn a_command_that_passes_its_memory_limit_is_ended_by_the_worker() {
    let server = server();
    let _worker = Worker::start(&server, "w1");
    let hold = "python3 -c 'import time; x = bytearray(300 << 20); time.sleep(600)'";
    let id = add(&server, hold, &["--memory-limit", "200M"]);
    let run = run_with(&server, &id, "failed");
    assert_eq!(run["attempts"][0]["reason"], "memory_limit", "{run:#}");
    let job = run["job_id"].as_str().unwrap();
    assert!(server.cli(&["job", "show", job]).ok().contains("200M"));
}

#[test]
fn r55_a_worker_makes_requests() {
    let server = server();
    let _worker = Worker::start(&server, "w1");
    let url = format!("http://{}/healthz", server.address);
    let job = server.add(&["--delay", "0s", "--http", &url]);
    let job = job["id"].as_str().unwrap();
    eventually("the request", || {
        let runs = server.cli(&["job", "runs", job, "--json"]).json_lines();
        runs.first().filter(|run| run["status"] == "succeeded").map(|_| ())
    });
}

#[test]
fn r37_output_is_there_while_the_command_runs() {
    let server = server();
    let _worker = Worker::start(&server, "w1");
    let flag = server.directory.path().join("flag");
    let script =
        format!("echo first; until test -e {0}; do sleep 0.02; done; echo last", flag.display());
    let id = add(&server, &script, &[]);
    eventually("output of a command that runs", || {
        let said = server.cli(&["run", "logs", &id]);
        (said.out == "first\n").then_some(())
    });
    let run = run_with(&server, &id, "running");
    assert_eq!(workers_of(&run), ["w1"]);
    fs::write(&flag, "").unwrap();
    run_with(&server, &id, "succeeded");
    assert_eq!(server.cli(&["run", "logs", &id]).ok(), "first\nlast\n");
}

#[test]
fn r53_a_flood_of_output_is_kept_within_bounds_at_both_ends() {
    let server = server();
    let worker = Worker::start(&server, "w1");
    let script = "echo begin; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo end";
    let id = add(&server, script, &[]);
    run_with(&server, &id, "succeeded");
    let output = server.cli(&["run", "logs", &id]).ok();
    assert!(output.starts_with("begin\n") && output.ends_with("\nend\n"), "{}", output.len());
    assert!(output.len() < 2_000_000, "{}", output.len());
    let status = fs::read_to_string(format!("/proc/{}/status", worker.child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak_kb: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak_kb < 100_000, "the worker had {peak_kb} kB");
}

#[test]
fn r53_a_background_process_outlives_its_command_and_can_go_on_printing() {
    let server = server();
    let mut worker = Worker::start(&server, "w1");
    let (flag, after) =
        (server.directory.path().join("flag"), server.directory.path().join("after"));
    let script = format!(
        "(until test -e {0}; do sleep 0.02; done; echo more; echo $? > {1}) & echo done",
        flag.display(),
        after.display()
    );
    let id = add(&server, &script, &[]);
    run_with(&server, &id, "succeeded");
    worker.kill();
    fs::write(&flag, "").unwrap();
    assert_eq!(crate::process::contents(&after), "0\n");
}
