//! The life of a server process.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::Stdio;

use nix::sys::signal::Signal;

use crate::support::{Server, bellwether, eventually, run};

#[test]
fn r134_a_fresh_server_needs_nothing_else_and_what_it_suggests_works() {
    let mut server = Server::start();
    assert!(server.said[0].contains("Bellwether"), "{:?}", server.said);
    assert!(server.wait_for("data in ").contains("new store, 4 shards"));
    let commands: Vec<String> = (0..3).map(|_| server.wait_for("bellwether job add")).collect();
    for line in commands {
        // As it stands there: it names the program as it was called.
        let mut shell = std::process::Command::new("/bin/sh");
        run(shell.args(["-c", line.trim()]).current_dir(server.directory.path()), "").ok();
    }
    assert_eq!(server.cli(&["job", "list", "--json"]).json_lines().len(), 3);
}

#[test]
fn r70_a_stop_is_orderly_and_nothing_is_lost() {
    let server = Server::start();
    server.add(&["--key", "k", "--every", "1h", "--", "true"]);
    server.signal(Signal::SIGTERM);
    let (status, said, directory) = server.end();
    assert!(status.success(), "{status:?}");
    let text = said.join("\n");
    assert!(text.contains("stopping: ") && text.contains("stopped"), "{text}");
    let mut server = Server::start_in(directory, &[]);
    assert!(server.wait_for("data in ").contains("existing store, 4 shards"));
    server.cli(&["job", "show", "k"]).ok();
}

#[test]
fn r70_a_killed_server_has_kept_what_it_acknowledged() {
    let server = Server::start();
    server.add(&["--key", "k", "--every", "1h", "--", "true"]);
    server.signal(Signal::SIGKILL);
    let (_, _, directory) = server.end();
    let server = Server::start_in(directory, &[]);
    server.cli(&["job", "show", "k"]).ok();
}

/// A server with a run under way that ends when a file appears.
fn busy_server() -> (Server, std::path::PathBuf) {
    let server = Server::start_with(&["--shutdown-grace", "10m"]);
    let flag = server.directory.path().join("flag");
    let line = format!("echo begun; until test -e {}; do sleep 0.05; done", flag.display());
    server.add(&["--key", "k", "--every", "1h", "--", &line]);
    let id = server.cli(&["job", "trigger", "k"]).ok();
    let mut follow = server.command(&["run", "logs", "-f", id.trim()]);
    let mut follow = follow.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(follow.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "begun\n");
    follow.kill().unwrap();
    follow.wait().unwrap();
    (server, flag)
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let (mut server, _) = busy_server();
    server.signal(Signal::SIGINT);
    server.wait_for("stopping: ");
    // A signal right after the first does not count, so it is sent until one does.
    eventually("the end", || {
        if server.has_ended() {
            return Some(());
        }
        server.signal(Signal::SIGINT);
        None
    });
    let (status, said, directory) = server.end();
    assert_eq!(status.code(), Some(130), "{status:?}");
    assert!(said.iter().any(|line| line.contains("stopped at once")));
    // The next start ends the process that was left behind.
    drop(Server::start_in(directory, &[]));
}

#[test]
fn a_signal_that_is_told_twice_is_one() {
    let (mut server, flag) = busy_server();
    server.signal(Signal::SIGINT);
    server.wait_for("stopping: ");
    server.signal(Signal::SIGTERM);
    server.wait_for("stopping already");
    std::fs::write(flag, "").unwrap();
    let (status, said, _) = server.end();
    assert!(status.success(), "{status:?} {said:?}");
    assert_eq!(said.last().map(String::as_str), Some("stopped"));
}

#[test]
fn what_keeps_it_from_starting_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let start = |flags: &[&str]| run(bellwether(directory.path()).arg("server").args(flags), "");
    let error = start(&["--listen", &address]).fails(1);
    assert!(error.contains("cannot listen") && error.contains(&address), "{error}");
    let error = start(&["--listen", "0.0.0.0:0"]).fails(2);
    assert!(error.contains("--tls-cert") && error.contains("--insecure"), "{error}");
    let error = start(&["--listen", "127.0.0.1:0", "--peer-listen", "0.0.0.0:0"]).fails(2);
    assert!(error.contains("cluster certs") && error.contains("--insecure-peers"), "{error}");
    let error = start(&["--peer-listen", "0.0.0.0:0", "--insecure"]).fails(2);
    assert!(error.contains("--insecure is for the API alone"), "{error}");
    let error = start(&["--listen", "127.0.0.1:0", "--join", "node-a"]).fails(2);
    assert!(error.contains("--peer-listen ADDRESS:2356"), "{error}");
    assert!(start(&["--tls-cert", "x"]).fails(2).contains("go together"));
    assert!(start(&["--log-level", "a=b=c"]).fails(2).contains("log level"));
    let error = start(&["--tls-cert", "no.pem", "--tls-key", "no.pem"]).fails(2);
    assert!(error.contains("no.pem"), "{error}");
    let server = Server::start();
    let data = server.directory.path().join("data");
    let error = start(&["--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()]);
    assert_eq!(error.code, 1, "two servers cannot share a store: {error:?}");
    server.signal(Signal::SIGTERM);
    let (_, _, kept) = server.end();
    let data = kept.path().join("data");
    let error = start(&["--data-dir", data.to_str().unwrap(), "--shards", "5"]).fails(2);
    assert!(error.contains("4 shards"), "{error}");
}

#[test]
fn logs_can_be_json() {
    let server = Server::start_with(&["--log-format", "json", "--log-level", "debug"]);
    server.add(&["--key", "k", "--every", "1h", "--", "true"]);
    server.signal(Signal::SIGTERM);
    let (_, said, _) = server.end();
    let json = said.iter().filter(|line| line.starts_with('{'));
    for line in json {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(value["level"].is_string(), "{line}");
    }
}
