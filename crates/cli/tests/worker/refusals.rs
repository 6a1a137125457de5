//! Workers that cannot start, and the words they say.

use std::fs;

use crate::process::{Worker, command, server};
use crate::support::{Server, run};

#[test]
fn two_workers_of_one_name_are_told_apart() {
    let server = server();
    let _first = Worker::start(&server, "w1");
    let error = run(&mut command(&server, "w1", &[]), "").fails(4);
    assert!(error.contains("another worker") && error.contains("--state-dir"), "{error}");
    let mut elsewhere = crate::support::bellwether(server.directory.path());
    elsewhere.args(["worker", "--server", &server.address, "--name", "w1"]);
    let error = run(elsewhere.args(["--state-dir", "elsewhere"]), "").fails(4);
    assert!(error.contains("'w1'") && error.contains("--name"), "{error}");
}

#[test]
fn a_worker_needs_a_token_that_is_good() {
    let mut server = Server::start_with(&["--no-worker", "--require-token"]);
    server.wait_for("admin token");
    let admin = server.wait_for("  ").trim().to_owned();
    let error = run(&mut command(&server, "w1", &[]), "").fails(6);
    assert!(error.contains("token"), "{error}");
    let error = run(&mut command(&server, "w1", &["--token", "bw_nonsense"]), "").fails(6);
    assert!(error.contains("token"), "{error}");
    let create = ["token", "create", "v", "--role", "viewer", "--token", &admin];
    let viewer = server.cli(&create).ok().trim().to_owned();
    run(&mut command(&server, "w1", &["--token", &viewer]), "").fails(6);
    Worker::start_with(&server, "w1", &["--token", &admin]);
}

#[test]
fn a_worker_speaks_tls_and_says_if_it_cannot_trust() {
    let directory = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    fs::write(directory.path().join("cert.pem"), made.cert.pem()).unwrap();
    fs::write(directory.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let flags = ["--no-worker", "--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    let mut server = Server::start_at("127.0.0.1:0", directory, &flags);
    let port = server.address.rsplit(':').next().unwrap().to_owned();
    let plain = server.address.clone();
    server.address = format!("https://localhost:{port}");
    let error = run(&mut command(&server, "w1", &[]), "").fails(5);
    assert!(error.contains("certificate"), "{error}");
    Worker::start_with(&server, "w1", &["--ca-file", "cert.pem"]);
    let error = run(&mut command(&server, "w1", &["--ca-file", "no.pem"]), "").fails(2);
    assert!(error.contains("no.pem"), "{error}");
    server.address = plain;
}

#[test]
fn what_makes_no_sense_is_told() {
    let server = server();
    for (flags, part) in [
        (&["--slots", "2", "--unlimited"][..], "cannot be used with"),
        (&["--resources", "disk=1"], "cpu=4,memory=8G"),
        (&["--label", "gpu"], "KEY=VALUE"),
        (&["--slots", "0"], "0"),
        (&["--no-commands", "--no-http"], "cannot be used with"),
        (&["--log-level", "loud"], "log level"),
    ] {
        let error = run(&mut command(&server, "w1", flags), "").fails(2);
        assert!(error.contains(part), "{flags:?}: {error}");
    }
    let error = run(&mut command(&server, "bad name", &[]), "").fails(2);
    assert!(error.contains("name"), "{error}");
}
