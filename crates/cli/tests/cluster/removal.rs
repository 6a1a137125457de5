//! `bellwether cluster remove`, and what a server says of its cluster.

use std::process::Command;

use crate::server::{Server, Trio, until};

/// Runs the command line against a node: how it ends, and what it says.
pub fn cli(node: &Server, args: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bellwether"));
    let output = command.args(args).args(["--server", node.listen()]).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r126_a_node_is_removed_ends_and_another_takes_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let mut trio = Trio::start(dir.path()).await;
    let join = format!("--join {}", trio.nodes[0].peer());
    let alone = trio.nodes[0].log();
    assert!(alone.contains("alone so far") && alone.contains(&join), "{alone}");
    let joined = trio.nodes[1].log();
    assert!(joined.contains(" ('b') of cluster") && joined.contains("with a"), "{joined}");

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
    trio.nodes.push(Server::start(dir.path(), "c", Some(&first)).await);
    trio.settled().await;
    until("the new node has a number of its own", async || {
        let cluster = trio.nodes[2].client.cluster().await.unwrap();
        cluster.nodes.iter().any(|node| node.name == "c" && node.node == 4)
    })
    .await;
}
