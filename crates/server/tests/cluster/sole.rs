//! What workers are told about other nodes: only while there is none may they go on with what they
//! have when the server is down, since nobody could give it away.

use bellwether_protocol::v1 as wire;
use bellwether_protocol::v1::from_worker::Message as Said;
use bellwether_protocol::v1::to_worker::Message as Told;
use bellwether_protocol::v1::workers_client::WorkersClient;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::nodes::{Node, PATIENCE, Trio};

/// Waits for something that comes.
async fn soon<T>(coming: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, coming).await.expect("waited too long")
}

/// Dials a node: whether it says that it is the only one, and what it says next.
async fn dial(
    node: &Node,
) -> (bool, mpsc::Sender<wire::FromWorker>, tonic::Streaming<wire::ToWorker>) {
    let address = format!("http://{}", node.server.local_addr());
    let channel = tonic::transport::Endpoint::from_shared(address).unwrap();
    let mut client = WorkersClient::new(channel.connect().await.unwrap());
    let (say, said) = mpsc::channel(4);
    let hello = wire::Hello {
        name: "w".into(),
        instance: "w-1".into(),
        capacity: Some(wire::Capacity { mode: Some(wire::capacity::Mode::Slots(1)) }),
        ..Default::default()
    };
    say.send(wire::FromWorker { message: Some(Said::Hello(hello)) }).await.unwrap();
    let mut hear = client.work(ReceiverStream::new(said)).await.unwrap().into_inner();
    match soon(hear.message()).await.unwrap().unwrap().message {
        Some(Told::Welcome(welcome)) => (welcome.sole, say, hear),
        other => panic!("not welcome: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r65_workers_learn_that_another_node_can_give_away_what_they_have() {
    let mut trio = Trio::start_many(1, |_| {}).await;
    let (sole, _say, mut hear) = dial(&trio.nodes[0]).await;
    assert!(sole, "there is no other");
    trio.grow().await;
    // They have to ask again.
    soon(async { while let Ok(Some(_)) = hear.message().await {} }).await;
    let (sole, _say, _hear) = dial(&trio.nodes[0]).await;
    assert!(!sole);
    let (sole, _say, _hear) = dial(&trio.nodes[1]).await;
    assert!(!sole);
    trio.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r65_workers_that_poll_learn_it_with_the_next_answer() {
    let mut trio = Trio::start_many(1, |_| {}).await;
    let lease = json!({"worker": "p", "job_types": ["x"], "wait": "0s"});
    let beat = json!({"worker": "p", "runs": []});
    let sole =
        async |node: &Node, what: &str, body: &Value| node.ask(what, body).await["sole"] == true;
    assert!(sole(&trio.nodes[0], "lease", &lease).await, "there is no other");
    assert!(sole(&trio.nodes[0], "heartbeat", &beat).await);
    trio.grow().await;
    let first = &trio.nodes[0];
    trio.until("it hears of the other", async || !sole(first, "heartbeat", &beat).await).await;
    for node in &trio.nodes {
        assert!(!sole(node, "lease", &lease).await);
        assert!(!sole(node, "heartbeat", &beat).await);
    }
    trio.stop().await;
}
