//! What is meant for another node, or for another cluster, is not done.

use bellwether_protocol::node::v1::ReplicaRequest;
use bellwether_protocol::node::v1::nodes_client::NodesClient;
use bellwether_raft::net::Dialing;
use tonic::{Code, Status};

use crate::nodes::Trio;

/// Tells whoever is at an address to remove a replica.
async fn remove(way: (&str, &str, u64), shard: u16) -> Result<(), Status> {
    let (address, cluster, node) = way;
    let mut way = NodesClient::new(Dialing::default().way_to(address, cluster, node).unwrap());
    way.replica(removal(shard, u64::MAX)).await.map(drop)
}

fn removal(shard: u16, without: u64) -> ReplicaRequest {
    let shard = Some(shard.into());
    ReplicaRequest { shard, wanted: Some(false), without: Some(without) }
}

/// R126: where a node was, another may be, with the same address and another number. It must not lose
/// what it has because the other was to.
#[tokio::test(flavor = "multi_thread")]
async fn r126_a_node_does_not_do_what_another_was_asked_for() {
    let trio = Trio::start().await;
    let known = trio.nodes[0].client.cluster().await.unwrap();
    let address = trio.nodes[1].server.peer_address().unwrap();
    let node = known.nodes.iter().find(|node| node.peer == address).unwrap().node;
    for way in [(&*address, &*known.id, node + 7), (&*address, "another", node)] {
        for shard in &known.shards {
            let refused = remove(way, shard.shard).await.unwrap_err();
            assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        }
    }
    let mut anybody = NodesClient::new(Dialing::default().way(&address).unwrap());
    let refused = anybody.replica(removal(1, u64::MAX)).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");

    // What was long on its way is not done either: who takes part has been changed since.
    for shard in &known.shards {
        let mut way = trio.nodes[1].way().await;
        let refused = way.replica(removal(shard.shard, 0)).await.unwrap_err().to_string();
        assert!(refused.contains("changed since") || refused.contains("leads"), "{refused}");
    }
    trio.settled().await;
    trio.stop().await;
}
