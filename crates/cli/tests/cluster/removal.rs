//! `bellwether cluster remove`, and what a server says of its cluster; with certificates, as nodes have them
//! that are not all on one machine.

use std::path::Path;
use std::process::Command;

use crate::server::{Extra, Server, Trio, certify, until};

/// Runs the command line against a node: how it ends, and what it says.
pub fn cli(node: &Server, args: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bellwether"));
    let output = command.args(args).args(["--server", node.listen()]).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned())
}

/// Nodes let nobody in who has a certificate of another authority, or none, and whoever trusts another
/// authority does not take them for its nodes.
async fn let_no_strangers_in(trio: &Trio, dir: &Path, certs: &Path) {
    let (first, elsewhere, own) = (trio.nodes[0].peer(), dir.join("other"), dir.join("own"));
    let plain = Server::spawn(dir, "plain", Some(first), Extra::default());
    let mut stranger = Server::spawn(dir, "stranger", Some(first), Extra::certified(&elsewhere));
    certify(&own, "impostor", "127.0.0.1");
    std::fs::copy(certs.join("ca.crt"), own.join("ca.crt")).unwrap();
    let impostor = Server::spawn(dir, "impostor", Some(first), Extra::certified(&own));
    assert!(!stranger.until_ended().await, "it ends in error: {}", stranger.log());
    let said = stranger.log();
    assert!(said.contains("certificate is not one that --peer-ca vouches for"), "{said}");
    // Connections of these are closed. Why, they may hear only after some tries.
    for node in [&impostor, &plain] {
        until("it is not let in", async || node.log().contains("let in: ")).await;
        assert!(!node.log().contains("listens on"), "{}", node.log());
    }
    let cluster = trio.nodes[1].client.cluster().await.unwrap();
    assert_eq!(cluster.nodes.len(), 3, "nobody was let in: {:?}", cluster.nodes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r126_a_node_is_removed_ends_and_another_takes_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let certs = dir.path().join("certs");
    let mut trio = Trio::start_with(dir.path(), Extra::certified(&certs)).await;
    let join = format!("--join {}", trio.nodes[0].peer());
    let alone = trio.nodes[0].log();
    assert!(alone.contains("alone so far") && alone.contains(&join), "{alone}");
    let joined = trio.nodes[1].log();
    assert!(joined.contains(" ('b') of cluster") && joined.contains("with a"), "{joined}");

    let_no_strangers_in(&trio, dir.path(), &certs).await;

    let (code, said) = cli(&trio.nodes[0], &["cluster", "remove", "nobody", "--yes"]);
    assert!(code != 0 && said.contains("has no node 'nobody'"), "{code}: {said}");
    let (code, said) = cli(&trio.nodes[0], &["cluster", "remove", "c", "--yes", "--wait"]);
    assert!(code == 0 && said.contains("c has left the cluster"), "{code}: {said}");
    let mut removed = trio.nodes.pop().unwrap();
    assert!(removed.until_ended().await, "it ends in order");
    assert!(removed.log().contains("was removed from its cluster"), "{}", removed.log());
    let (code, said) = cli(&trio.nodes[0], &["cluster", "remove", "c", "--yes"]);
    assert!(code != 0 && said.contains("node_removed"), "{code}: {said}");

    // The name is free for one that starts afresh.
    std::fs::remove_dir_all(dir.path().join("c")).unwrap();
    let first = trio.nodes[0].peer().to_owned();
    std::fs::remove_file(certs.join("c.crt")).unwrap();
    std::fs::remove_file(certs.join("c.key")).unwrap();
    trio.nodes
        .push(Server::start_with(dir.path(), "c", Some(&first), Extra::certified(&certs)).await);
    trio.settled().await;
    until("the new node has a number of its own", async || {
        let cluster = trio.nodes[2].client.cluster().await.unwrap();
        cluster.nodes.iter().any(|node| node.name == "c" && node.node == 4)
    })
    .await;
}
