//! What workers are told about other nodes: only while there is none may they go on with what they
//! have when the server is down, since nobody could give it away.

use bellwether_protocol::v1 as wire;
use bellwether_protocol::v1::from_worker::Message as Said;
use bellwether_protocol::v1::to_worker::Message as Told;
use bellwether_protocol::v1::workers_client::WorkersClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::nodes::{Node, Trio};

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
    match hear.message().await.unwrap().unwrap().message {
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
    while let Ok(Some(_)) = hear.message().await {}
    let (sole, _say, _hear) = dial(&trio.nodes[0]).await;
    assert!(!sole);
    let (sole, _say, _hear) = dial(&trio.nodes[1]).await;
    assert!(!sole);
    trio.stop().await;
}
