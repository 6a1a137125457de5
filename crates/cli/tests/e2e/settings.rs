//! The settings of a server: flags over environment over file over defaults.

use std::path::Path;

use crate::support::{Said, bellwether, run};

fn print(directory: &Path, flags: &[&str], env: &[(&str, &str)]) -> Said {
    let mut command = bellwether(directory);
    command.args(["server", "--print-config"]).args(flags).envs(env.iter().copied());
    run(&mut command, "")
}

#[track_caller]
fn check(text: &str, setting: &str, origin: &str) {
    let found = text
        .lines()
        .any(|line| line.starts_with(setting) && line.ends_with(&format!("# {origin}")));
    assert!(found, "{setting} from {origin} in\n{text}");
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let directory = tempfile::tempdir().unwrap();
    let file =
        "listen = \"127.0.0.1:1111\"\nworker_slots = 1\nhistory_age = \"1d\"\nno_worker = true\n";
    std::fs::write(directory.path().join("bellwether.toml"), file).unwrap();
    let flags = ["--listen", "127.0.0.1:3333"];
    let env = [("BELLWETHER_LISTEN", "127.0.0.1:2222"), ("BELLWETHER_WORKER_SLOTS", "2")];

    let text = print(directory.path(), &flags, &env).ok();
    check(&text, "listen = \"127.0.0.1:3333\"", "flag --listen");
    check(&text, "worker_slots = 2", "environment BELLWETHER_WORKER_SLOTS");
    check(&text, "history_age = \"1d\"", "file bellwether.toml");
    check(&text, "worker_http_slots = 256", "default");
    check(&text, "# shards is not set", "default");

    let text = print(directory.path(), &[], &env).ok();
    check(&text, "listen = \"127.0.0.1:2222\"", "environment BELLWETHER_LISTEN");
    let text = print(directory.path(), &[], &[]).ok();
    check(&text, "listen = \"127.0.0.1:1111\"", "file bellwether.toml");
    check(&text, "no_worker = true", "file bellwether.toml");
    let text = print(directory.path(), &["--no-worker=false"], &[]).ok();
    check(&text, "no_worker = false", "flag --no-worker");
    let text = print(tempfile::tempdir().unwrap().path(), &[], &[]).ok();
    check(&text, "listen = \"127.0.0.1:2355\"", "default");
}

#[test]
fn every_setting_can_come_from_the_environment() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("secret"), "known to all nodes\n").unwrap();
    let env = [
        ("BELLWETHER_PEER_LISTEN", "127.0.0.1:2"),
        ("BELLWETHER_PEER_ADVERTISE", "h:2"),
        ("BELLWETHER_JOIN", "a:2356,b:2356"),
        ("BELLWETHER_NODE_NAME", "n"),
        ("BELLWETHER_ZONE", "z"),
        ("BELLWETHER_REPLICAS", "5"),
        ("BELLWETHER_REPLACE_AFTER", "20m"),
        ("BELLWETHER_PEER_CA", "ca"),
        ("BELLWETHER_PEER_CERT", "c"),
        ("BELLWETHER_PEER_KEY", "k"),
        ("BELLWETHER_CLUSTER_SECRET_FILE", "secret"),
        ("BELLWETHER_INSECURE_PEERS", "1"),
        ("BELLWETHER_LISTEN", "127.0.0.1:1"),
        ("BELLWETHER_DATA_DIR", "d"),
        ("BELLWETHER_SHARDS", "3"),
        ("BELLWETHER_CACHE_SIZE", "64M"),
        ("BELLWETHER_SHUTDOWN_GRACE", "1s"),
        ("BELLWETHER_INGEST", "nats://h?stream=s&consumer=c,amqp://h/v?queue=q"),
        ("BELLWETHER_TLS_CERT", "c"),
        ("BELLWETHER_TLS_KEY", "k"),
        ("BELLWETHER_INSECURE", "1"),
        ("BELLWETHER_REQUIRE_TOKEN", "true"),
        ("BELLWETHER_NO_WORKER", "yes"),
        ("BELLWETHER_WORKER_NAME", "w"),
        ("BELLWETHER_WORKER_QUEUE", "a,b"),
        ("BELLWETHER_WORKER_SLOTS", "1"),
        ("BELLWETHER_WORKER_HTTP_SLOTS", "2"),
        ("BELLWETHER_WORKER_HEARTBEAT", "1s"),
        ("BELLWETHER_WORKER_LEASE", "5s"),
        ("BELLWETHER_OUTPUT_LIMIT", "1K"),
        ("BELLWETHER_HTTP_CA_FILE", "ca"),
        ("BELLWETHER_BACKUP_TO", "/b"),
        ("BELLWETHER_BACKUP_EVERY", "1h"),
        ("BELLWETHER_BACKUP_KEEP", "3"),
        ("BELLWETHER_HISTORY_AGE", "30d"),
        ("BELLWETHER_HISTORY_RUNS", "9"),
        ("BELLWETHER_MISFIRE_AFTER", "1m"),
        ("BELLWETHER_LOG_LEVEL", "debug"),
        ("BELLWETHER_LOG_FORMAT", "json"),
    ];
    let text = print(directory.path(), &[], &env).ok();
    assert_eq!(text.lines().count(), env.len(), "{text}");
    for line in text.lines() {
        assert!(line.contains("# environment BELLWETHER_"), "{line}");
    }
    // What is printed is a configuration file, and gives the same settings.
    std::fs::write(directory.path().join("other.toml"), &text).unwrap();
    let again = print(directory.path(), &["--config", "other.toml"], &[]).ok();
    let value = |line: &str| line.split("  #").next().unwrap().trim().to_owned();
    let values = |text: &str| text.lines().map(value).collect::<Vec<_>>();
    assert_eq!(values(&again), values(&text));
}

#[test]
fn mistakes_in_the_file_are_named_with_their_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bellwether.toml");
    std::fs::write(&path, "# mine\nlissten = \"127.0.0.1:1\"\n").unwrap();
    let error = print(directory.path(), &[], &[]).fails(2);
    assert!(error.contains("lissten") && error.contains("line 2"), "{error}");
    assert!(error.contains("bellwether.toml"), "{error}");
    let error = print(directory.path(), &["--config", "nowhere.toml"], &[]).fails(2);
    assert!(error.contains("nowhere.toml"), "{error}");
    let error =
        print(tempfile::tempdir().unwrap().path(), &[], &[("BELLWETHER_SHARDS", "many")]).fails(2);
    assert!(error.contains("many"), "{error}");
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    for (flags, part) in [
        (["--log-level", "loud"], "error, warn, info, debug, trace"),
        (["--worker-slots", "0"], "--no-worker"),
        (["--worker-http-slots", "0"], "--no-worker"),
        (["--shards", "0"], "at least 1"),
        (["--replicas", "4"], "3, 5 or 7"),
        (["--replace-after", "9s"], "10s or more"),
        (["--ingest", "nats://h"], "'stream' is missing"),
    ] {
        let error = print(directory.path(), &flags, &[]).fails(2);
        assert!(error.contains(part), "{part} in {error}");
    }
}

/// R126: where others are dialled is written once, with the port of every node if there is none.
#[test]
fn r126_addresses_of_nodes_need_no_port() {
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--join", "10.0.0.1,b:99", "--join", "::1", "--peer-advertise", "Host"];
    let text = print(directory.path(), &flags, &[]).ok();
    check(&text, "join = [\"10.0.0.1:2356\", \"b:99\", \"[::1]:2356\"]", "flag --join");
    check(&text, "peer_advertise = \"host:2356\"", "flag --peer-advertise");
    let error = print(directory.path(), &["--join", "http://a"], &[]).fails(2);
    assert!(error.contains("'http://a' is not the address of a node"), "{error}");
    std::fs::write(directory.path().join("bellwether.toml"), "join = [\"a\", \"b:0\"]").unwrap();
    let error = print(directory.path(), &[], &[]).fails(2);
    assert!(error.contains("'b:0'") && error.contains("from 1 to 65535"), "{error}");
}

#[test]
fn r55_passwords_of_brokers_are_not_shown() {
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--ingest", "nats://ana:s3cr3t@h?stream=s"];
    let text = print(directory.path(), &flags, &[]).ok();
    assert!(text.contains("nats://********@h?stream=s") && !text.contains("s3cr3t"), "{text}");
    let error = print(directory.path(), &["--ingest", "nats://ana:s3cr3t@h"], &[]).fails(2);
    assert!(!error.contains("s3cr3t"), "{error}");
}

#[test]
fn a_misspelt_variable_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let said = print(directory.path(), &[], &[("BELLWETHER_LISTN", "127.0.0.1:1")]);
    assert!(said.err.contains("did you mean BELLWETHER_LISTEN?"), "{said:?}");
    said.ok();
}
