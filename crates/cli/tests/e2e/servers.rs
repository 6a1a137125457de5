//! Commands that are given several nodes of a cluster, of which the first is dead (R116).

use crate::support::{Said, Server, run};

/// An address at which nobody listens.
const DEAD: &str = "127.0.0.1:1";

fn with(server: &Server, args: &[&str], input: &str) -> Said {
    let mut command = server.command(args);
    run(command.env("BELLWETHER_SERVER", format!("{DEAD},{}", server.address)), input)
}

#[test]
fn r116_commands_go_to_the_next_server_when_the_first_is_dead() {
    let server = Server::start();
    let status = with(&server, &["cluster", "status"], "").ok();
    assert!(status.contains("NODE") && status.contains("WORKER"), "{status}");
    let both = format!("{DEAD},{}", server.address);
    let health = with(&server, &["health", "--server", &both], "").ok();
    assert!(health.contains(&server.address), "it says who answered: {health}");
    // Requests that change something, and ones whose bodies and answers are streams.
    let job = ["job", "add", "--json", "--key", "k", "--every", "1000d", "--", "echo hi"];
    assert_eq!(with(&server, &job, "").json()["key"], "k");
    let followed = with(&server, &["job", "trigger", "k", "--wait"], "");
    assert!(followed.ok().contains("hi"));
    let batch = ["batch", "create", "--items", "-", "--", "true"];
    let said = with(&server, &batch, "a\nb\n").ok();
    assert!(said.contains("2 succeeded"), "{said}");
}

#[test]
fn r116_when_all_are_dead_all_are_named() {
    let server = Server::start();
    let both = format!("{DEAD},127.0.0.1:2");
    let error = server.cli(&["cluster", "status", "--server", &both]).fails(5);
    for dead in [DEAD, "127.0.0.1:2"] {
        assert!(error.contains(&format!("http://{dead}: Connection refused")), "{error}");
    }
    let error = server.cli(&["health", "--server", "127.0.0.1:1,"]).fails(2);
    assert!(error.contains("HOST:PORT"), "{error}");
}
