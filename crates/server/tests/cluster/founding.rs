//! Nodes that are given the same list of all of them, and nothing else.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bellwether_protocol::node::v1::JoinRequest;
use bellwether_protocol::node::v1::join_answer::Answer;
use bellwether_protocol::node::v1::nodes_client::NodesClient;
use bellwether_raft::net::Dialing;
use bellwether_server::Config;
use futures::future::join_all;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::address::own_address;
use crate::nodes::{Node, Trio, config, start_with, until};

const SECRET: &str = "known-to-these-nodes";

fn know(config: &mut Config) {
    config.cluster_secret = Some(SECRET.to_owned());
}

/// Starts a node with the list, at one of its addresses, with nothing on disk.
fn begin(list: &[String], at: usize) -> JoinHandle<Node> {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(&dir, &list[at], list.to_vec());
    know(&mut config);
    tokio::spawn(start_with(dir, config))
}

/// Whether the node at an address says that it waits as well.
async fn waits(address: &str) -> bool {
    let dialing = Dialing { secret: Some(SECRET.to_owned()), ..Dialing::default() };
    let mut way = NodesClient::new(dialing.way(address).unwrap());
    let said = way.join(JoinRequest::default()).await;
    said.is_ok_and(|said| matches!(said.into_inner().answer, Some(Answer::Waiting(_))))
}

/// Stands where a node is to be, and counts who comes.
async fn in_place_of(address: &str) -> (Arc<AtomicUsize>, JoinHandle<()>) {
    let came = Arc::new(AtomicUsize::new(0));
    let counted = came.clone();
    let listener = TcpListener::bind(address).await.unwrap();
    let standing = tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    (came, standing)
}

/// Each node has a number of its own, and the first of the list, which began the cluster, the first.
fn assert_numbered(nodes: &[Node]) {
    let mut numbers: Vec<u64> = nodes.iter().map(|node| node.server.node_number()).collect();
    assert_eq!(numbers[0], 1, "{numbers:?}");
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn r126_nodes_with_the_same_list_become_one_cluster_and_never_a_second() {
    let list: Vec<String> = (0..3).map(|_| own_address()).collect();
    let started = join_all((0..3).map(|at| begin(&list, at))).await;
    let nodes: Vec<Node> = started.into_iter().map(Result::unwrap).collect();
    let cluster = nodes[0].server.cluster_id().to_owned();
    assert_numbered(&nodes);
    let mut trio = Trio::of(nodes, know);
    trio.settled().await;

    // The one that began it loses its disk.
    drop(trio.take_down(0).await);
    let back = begin(&list, 0).await.unwrap();
    assert_eq!(back.server.cluster_id(), cluster, "it is in the cluster that is there");
    assert_eq!(back.server.node_number(), 4, "as a new node");
    trio.nodes.insert(0, back);
    trio.until("the others hear it", async || {
        let seen = trio.nodes[1].client.cluster().await;
        seen.is_ok_and(|seen| seen.nodes.iter().any(|node| node.node == 4 && node.state == "up"))
    })
    .await;
    trio.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r126_no_cluster_begins_while_one_of_the_list_is_missing() {
    let list: Vec<String> = (0..3).map(|_| own_address()).collect();
    let (came, standing) = in_place_of(&list[2]).await;
    let two = [begin(&list, 0), begin(&list, 1)];
    until("the two have asked again and again", async || came.load(Ordering::Relaxed) >= 8).await;
    assert!(two.iter().all(|starting| !starting.is_finished()));
    for address in &list[..2] {
        assert!(waits(address).await, "nothing has begun");
        let mut stranger = NodesClient::new(Dialing::default().way(address).unwrap());
        let refused = stranger.join(JoinRequest::default()).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unauthenticated, "{refused:?}");
    }
    standing.abort();
    let _ = standing.await;

    let third = begin(&list, 2);
    let mut nodes = Vec::new();
    for starting in two.into_iter().chain([third]) {
        nodes.push(starting.await.unwrap());
    }
    assert!(nodes.iter().all(|node| node.server.cluster_id() == nodes[0].server.cluster_id()));
    assert_numbered(&nodes);
    let trio = Trio::of(nodes, know);
    trio.settled().await;
    trio.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r116_a_node_that_is_not_yet_one_of_the_cluster_refuses_connections() {
    let list: Vec<String> = (0..2).map(|_| own_address()).collect();
    let (came, standing) = in_place_of(&list[1]).await;
    let (dir, listen) = (tempfile::tempdir().unwrap(), own_address());
    let mut config = config(&dir, &list[0], list.clone());
    know(&mut config);
    config.listen = listen.parse().unwrap();
    let starting = tokio::spawn(start_with(dir, config));
    until("it has asked the other", async || came.load(Ordering::Relaxed) > 0).await;
    // Clients that know several nodes go on to the next at once.
    let refused = TcpStream::connect(&listen).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    standing.abort();
    let _ = standing.await;
    let second = begin(&list, 1);
    let nodes = vec![starting.await.unwrap(), second.await.unwrap()];
    assert_eq!(nodes[0].server.local_addr().to_string(), listen);
    until("it answers", async || nodes[0].client.health().await.unwrap().ready).await;
    Trio::of(nodes, know).stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r126_a_list_that_names_only_the_node_itself_is_refused() {
    let (dir, address) = (tempfile::tempdir().unwrap(), own_address());
    let alone = |config: &mut Config| config.peer_listen = Some(address.parse().unwrap());
    let Err(error) = Trio::try_join(&dir, &address, &alone).await else { panic!("it began") };
    assert!(error.to_string().contains("names this node alone"), "{error:#}");
}
