//! `bellwether token …`, `audit`, `cluster`, `health`.

use crate::support::Server;

/// The admin token that a server printed at its first start.
fn admin_token(server: &mut Server) -> String {
    server.wait_for("admin token");
    server.wait_for("  ").trim().to_owned()
}

#[test]
fn tokens_are_made_listed_and_revoked() {
    let mut server = Server::start_with(&["--require-token"]);
    let admin = admin_token(&mut server);
    let error = server.cli(&["job", "list"]).fails(6);
    assert!(error.contains("BELLWETHER_TOKEN"), "{error}");

    let made = server.cli(&["token", "create", "ci", "--role", "viewer", "--token", &admin]);
    assert!(made.err.contains("only time"), "{made:?}");
    let viewer = made.ok().trim().to_owned();
    server.cli(&["job", "list", "--token", &viewer]).ok();
    let add = ["job", "add", "--token", &viewer, "--every", "1h", "--", "true"];
    server.cli(&add).fails(6);

    let list = server.cli(&["token", "list", "--token", &admin]).ok();
    assert!(list.contains("ci") && list.contains("viewer") && !list.contains(&viewer), "{list}");
    server.cli(&["token", "revoke", "ci", "--token", &admin]).ok();
    server.cli(&["job", "list", "--token", &viewer]).fails(6);
    server.cli(&["token", "revoke", "ci", "--token", &admin]).fails(3);

    let audit = server.cli(&["audit", "--token", &admin]).ok();
    assert!(audit.contains("token.") && audit.contains("admin"), "{audit}");
}

#[test]
fn the_last_admin_token_is_not_revoked_by_accident() {
    let mut server = Server::start_with(&["--require-token"]);
    let admin = admin_token(&mut server);
    let cli = |args: &[&str]| {
        let mut command = server.command(args);
        crate::support::run(command.env("BELLWETHER_TOKEN", &admin), "")
    };
    let list = cli(&["token", "list", "--json"]).json_lines();
    let name = list[0]["name"].as_str().unwrap();
    let error = cli(&["token", "revoke", name, "--yes"]).fails(4);
    assert!(error.contains("last admin token") && error.contains("--role admin"), "{error}");
    cli(&["job", "list"]).ok();
    cli(&["token", "create", "second", "--role", "admin"]).ok();
    cli(&["token", "revoke", "second"]).ok();
}

#[test]
fn a_token_for_one_namespace_needs_no_flag_for_it() {
    let mut server = Server::start_with(&["--require-token"]);
    let admin = admin_token(&mut server);
    let create = ["token", "create", "team", "--role", "editor", "-n", "team", "--token", &admin];
    let team = server.cli(&create).ok().trim().to_owned();
    let cli = |args: &[&str], input: &str| {
        let mut command = server.command(args);
        crate::support::run(command.env("BELLWETHER_TOKEN", &team), input)
    };
    let add = ["job", "add", "--json", "--key", "a", "--every", "1h", "--", "true"];
    assert_eq!(cli(&add, "").json()["namespace"], "team");
    let file = "[{key: a, schedule: every 1h, command: ['true']}, \
                 {key: b, schedule: '@daily', command: x}]";
    let apply = |flags: &[&str]| {
        let mut args = vec!["apply", "-f", "-", "--json"];
        args.extend(flags);
        let rows = cli(&args, file).json_lines();
        let text = |row: &serde_json::Value| row["action"].as_str().unwrap().to_owned();
        rows.iter().map(text).collect::<Vec<_>>()
    };
    assert_eq!(apply(&["--dry-run"]), ["change", "create"]);
    assert_eq!(apply(&[]), ["changed", "created"], "what the dry run said");
    assert_eq!(apply(&["--dry-run"]), ["unchanged", "unchanged"]);
    let error = cli(&["job", "add", "-n", "other", "--every", "1h", "--", "true"], "").fails(6);
    assert!(error.contains("'team' only") && error.contains("-n"), "{error}");
    assert!(!error.contains("with a role"), "{error}");
}

#[test]
fn the_audit_log_tells_who_changed_what() {
    let server = Server::start();
    let job = server.add(&["--key", "k", "--every", "1h", "--", "true"]);
    let name = format!("k ({})", job["id"].as_str().unwrap());
    let audit = server.cli(&["audit"]).ok();
    assert!(audit.contains(&name), "{name} in {audit}");
    server.cli(&["job", "rm", "k", "--yes"]).ok();
    let actions: Vec<String> = server
        .cli(&["audit", "--json"])
        .json_lines()
        .iter()
        .map(|entry| entry["action"].as_str().unwrap().to_owned())
        .collect();
    assert!(actions.contains(&"job.create".to_owned()), "{actions:?}");
    assert!(actions.contains(&"job.delete".to_owned()), "{actions:?}");
    assert_eq!(server.cli(&["audit", "--json", "--limit", "1"]).json_lines().len(), 1);
}

#[test]
fn the_node_tells_how_it_is() {
    let server = Server::start_with(&["--worker-name", "w1", "--worker-queue", "heavy"]);
    assert!(server.cli(&["health"]).ok().contains("is ready"));
    assert_eq!(server.cli(&["health", "--json"]).json()["ready"], true);
    let status = server.cli(&["cluster", "status"]).ok();
    for part in ["NODE", "SHARD", "WORKER", "w1", "heavy"] {
        assert!(status.contains(part), "{part} in {status}");
    }
    let status = server.cli(&["cluster", "status", "--json"]).json();
    assert_eq!(status["cluster"]["shards"].as_array().unwrap().len(), 4);
}

#[test]
fn beyond_plain_http_there_is_tls() {
    let files = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (cert, key) = (files.path().join("cert.pem"), files.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let flags = ["--tls-cert", cert, "--tls-key", key];
    let server = Server::start_at("127.0.0.1:0", tempfile::tempdir().unwrap(), &flags);
    let url = format!("https://{}", server.address.replace("127.0.0.1", "localhost"));
    server.cli(&["health", "--server", &url, "--ca-file", cert]).ok();
    let error = server.cli(&["health", "--server", &url]).fails(5);
    assert!(error.contains("certificate"), "{error}");
}
