//! Changes of who takes part in a shard, which are made only where they were planned for.

use std::collections::BTreeSet;
use std::time::Duration;

use bellwether_protocol::node::v1::ChangeRequest;
use bellwether_protocol::node::v1::change_request::What;

use crate::nodes::{Node, Trio};

const SHARD: u16 = 1;

/// Asks a node for a change of the shard: why it was refused, or nothing.
async fn ask(node: &Node, what: What, voters: impl IntoIterator<Item = u64>) -> String {
    let voters = voters.into_iter().collect();
    let request = ChangeRequest { shard: Some(SHARD.into()), what: Some(what), voters };
    node.way().await.change(request).await.unwrap().into_inner().refused.unwrap_or_default()
}

/// Two plans at once, or one that was long on its way, must not leave fewer voters than either of
/// them meant to.
#[tokio::test(flavor = "multi_thread")]
async fn r126_a_shard_changes_only_from_the_voters_that_the_change_was_planned_for() {
    let trio = Trio::start().await;
    let all: BTreeSet<u64> = trio.nodes.iter().map(|node| node.server.node_number()).collect();
    let cluster = async || trio.nodes[0].client.cluster().await.unwrap();
    let begun = cluster().await;
    let name = begun.shards[usize::from(SHARD)].leader.as_ref().unwrap();
    let number = begun.nodes.iter().find(|node| node.name == *name).unwrap().node;
    let leader = trio.nodes.iter().find(|node| node.server.node_number() == number).unwrap();
    let mut others = all.iter().copied().filter(|node| *node != number);
    let [one, two] = [others.next().unwrap(), others.next().unwrap()];

    for planned in [vec![], vec![number, one], vec![1, 2, 3, 4]] {
        let refused = ask(leader, What::Leave(one), planned).await;
        assert!(refused.contains("planned for"), "{refused}");
        assert_eq!(cluster().await.shards[usize::from(SHARD)].voters.len(), 3);
    }
    let (first, second) = tokio::join!(
        ask(leader, What::Leave(one), all.clone()),
        ask(leader, What::Leave(two), all.clone())
    );
    let done = [&first, &second].into_iter().filter(|refused| refused.is_empty()).count();
    assert_eq!(done, 1, "{first:?} {second:?}");
    // Whoever manages the cluster makes good for it.
    trio.settled().await;
    trio.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r116_shards_have_as_many_replicas_as_nodes_are_told() {
    let five = Trio::start_many(5, |config| config.replicas = Some(5)).await;
    five.until("every shard has five", async || {
        let cluster = five.nodes[4].client.cluster().await.unwrap();
        cluster.replicas == 5 && cluster.shards.iter().all(|shard| shard.voters.len() == 5)
    })
    .await;
    five.stop().await;
}

/// R84: exactly one node leads each shard, and all agree on which.
#[tokio::test(flavor = "multi_thread")]
async fn r84_a_hundred_shards_have_one_owner_each() {
    let trio = Trio::start_with(|config| config.shards = Some(100)).await;
    trio.until("every shard acts at just one node, and all say which", async || {
        let acting: usize = trio.nodes.iter().map(|node| node.server.acting_shards()).sum();
        let mut seen = Vec::new();
        for node in &trio.nodes {
            let shards = node.client.cluster().await.unwrap().shards;
            seen.push(shards.into_iter().map(|shard| shard.leader).collect::<Vec<_>>());
        }
        let (first, others) = seen.split_first().unwrap();
        acting == 100
            && first.len() == 100
            && first.iter().all(Option::is_some)
            && others.iter().all(|other| other == first)
    })
    .await;
    trio.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r126_the_place_of_a_node_that_stays_down_is_taken_by_others() {
    let mut five =
        Trio::start_many(5, |config| config.replace_after = Duration::from_secs(5)).await;
    // As many vote in every shard as are to, and none of them is down.
    let is_whole = async |five: &Trio| {
        let shards = five.nodes[0].client.cluster().await.unwrap().shards;
        shards.iter().all(|shard| {
            let up = shard.voters.iter().filter(|voter| !shard.down.contains(voter)).count();
            up == shard.voters.len() && up as u64 == shard.voters_wanted
        })
    };
    five.until("every shard has its replicas, and each node some besides shard 0", async || {
        let nodes = five.nodes[4].client.cluster().await.unwrap().nodes;
        nodes.iter().all(|node| node.replicas > 1) && is_whole(&five).await
    })
    .await;
    let left = five.take_down(4).await;
    five.until("no shard counts on the node that is down", async || {
        let nodes = five.nodes[0].client.cluster().await.unwrap().nodes;
        nodes.iter().filter(|node| node.state == "down").count() == 1 && is_whole(&five).await
    })
    .await;
    five.start_again(left).await;
    five.until("it is given some again", async || {
        let cluster = five.nodes[0].client.cluster().await.unwrap();
        cluster.nodes.iter().all(|node| node.state == "up" && node.replicas > 1)
            && is_whole(&five).await
    })
    .await;
    five.stop().await;
}
