//! Certificates for the nodes of a cluster.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use bellwether_trust::{PeerFiles, PeerTls};
use rustls::{ClientConnection, ConnectionCommon, ServerConnection};

use crate::support::{Said, bellwether, run};

fn certs(directory: &Path, args: &[&str]) -> Said {
    run(bellwether(directory).args(["cluster", "certs"]).args(args), "")
}

fn load(directory: &Path, name: &str) -> PeerTls {
    let file = |name: String| directory.join("certs").join(name);
    PeerTls::load(&PeerFiles {
        ca: file("ca.crt".to_owned()),
        cert: file(format!("{name}.crt")),
        key: file(format!("{name}.key")),
    })
    .unwrap()
}

/// Whether one node accepts another at an address, and the other way round.
fn accept(dialling: &PeerTls, address: &str, listening: &PeerTls) -> bool {
    fn pass<A, B>(from: &mut ConnectionCommon<A>, to: &mut ConnectionCommon<B>) -> bool {
        let mut bytes = Vec::new();
        while from.wants_write() {
            from.write_tls(&mut bytes).unwrap();
        }
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            to.read_tls(&mut rest).unwrap();
            if to.process_new_packets().is_err() {
                return false;
            }
        }
        true
    }
    let name = address.to_owned().try_into().unwrap();
    let mut client = ClientConnection::new(Arc::new(dialling.client.clone()), name).unwrap();
    let mut server = ServerConnection::new(Arc::new(listening.server.clone())).unwrap();
    while client.is_handshaking() || server.is_handshaking() {
        if !pass(&mut client, &mut server) || !pass(&mut server, &mut client) {
            return false;
        }
    }
    true
}

#[test]
fn nodes_with_certificates_of_one_directory_accept_one_another() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let first = certs(path, &["--node", "a", "--address", "10.0.0.1", "a.example"]).ok();
    assert!(first.starts_with("made certs/ca.crt and certs/ca.key: the cluster's authority"));
    assert!(first.contains("made certs/a.crt and certs/a.key: a at 10.0.0.1, a.example, good"));
    assert!(first.contains("Keep ca.key safe"), "{first}");
    let days = (load(path, "a").good_until_s - jiff::Timestamp::now().as_second()) / 86_400;
    assert!((728..=730).contains(&days), "good for {days} days more");
    let second = certs(path, &["--node", "b", "--address", "::1", "--address", "b.example"]).ok();
    assert!(second.starts_with("used the authority of certs/ca.crt and certs/ca.key\n"));
    let (a, b) = (load(path, "a"), load(path, "b"));
    for (from, to, address) in [(&a, &b, "::1"), (&a, &b, "b.example"), (&a, &b, "b")] {
        assert!(accept(from, address, to), "{address}");
    }
    assert!(accept(&b, "10.0.0.1", &a) && accept(&b, "a.example", &a));
    assert!(!accept(&a, "c.example", &b), "it has no such name");

    let elsewhere = tempfile::tempdir().unwrap();
    certs(elsewhere.path(), &["--node", "b", "--address", "b.example"]).ok();
    let stranger = load(elsewhere.path(), "b");
    assert!(!accept(&stranger, "a.example", &a) && !accept(&a, "b.example", &stranger));
}

#[test]
fn keys_are_private_and_nothing_is_overwritten_unasked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let args = ["--node", "a", "--address", "127.0.0.1", "--json"];
    let made = certs(path, &args).json();
    assert_eq!((&made["ca"]["new"], &made["node"]["key"]), (&true.into(), &"certs/a.key".into()));
    let file = |name: &str| path.join("certs").join(name);
    let mode = |name| file(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!([mode("ca.key"), mode("a.key"), mode("ca.crt")], [0o600, 0o600, 0o644]);
    assert_eq!(path.join("certs").metadata().unwrap().permissions().mode() & 0o777, 0o700);
    let read = |name: &str| std::fs::read(file(name)).unwrap();
    let all = || ["ca.crt", "ca.key", "a.crt", "a.key"].map(read);

    let before = all();
    let refused = certs(path, &args).fails(4);
    assert!(refused.contains("are there already; --replace makes them anew"), "{refused}");
    assert_eq!(all(), before);
    let mut again = args.to_vec();
    again.push("--replace");
    assert_eq!(certs(path, &again).json()["ca"]["new"], false);
    assert_eq!(all()[..2], before[..2], "the authority stays");
    assert_ne!(all()[2..], before[2..]);
    load(path, "a");

    std::fs::rename(file("ca.key"), path.join("safe")).unwrap();
    let refused = certs(path, &["--node", "b", "--address", "127.0.0.1"]).fails(4);
    assert!(refused.contains("certs/ca.crt is there, but certs/ca.key is not"), "{refused}");
    assert!(!file("b.key").exists());
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_made() {
    let directory = tempfile::tempdir().unwrap();
    for (args, said) in [
        (["--node", "ca", "--address", "127.0.0.1"], "the authority's own files"),
        (["--node", "../a", "--address", "127.0.0.1"], "letters, digits"),
        (["--node", "a", "--address", "127.0.0.1:2356"], "without a port"),
    ] {
        let refused = certs(directory.path(), &args).fails(2);
        assert!(refused.contains(said), "{refused}");
    }
    certs(directory.path(), &["--node", "a"]).fails(2);
    assert!(!directory.path().join("certs").exists());
}
