//! Becoming a node of a cluster.

use std::time::Duration;

use anyhow::{Context, bail};
use bellwether_core::record::{self, NodeRow};
use bellwether_protocol::node::v1;
use bellwether_protocol::node::v1::join_answer::Answer;
use bellwether_protocol::node::v1::nodes_client::NodesClient;
use bellwether_raft::net::Dialing;

use super::NodeIdentity;
use crate::peering::PeerAddress;

/// How long to go on asking.
const WITHIN: Duration = Duration::from_secs(60);
/// How long one node may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// How long to wait before the next is asked.
const AGAIN: Duration = Duration::from_millis(500);

/// Asks the nodes at these addresses, one after the other, to let this process become a node.
/// Returns who it is, and who the others are.
///
/// # Errors
/// When nobody can be reached, or they do not want it.
pub async fn join(
    addresses: &[PeerAddress],
    dialing: &Dialing,
    row: &NodeRow,
) -> anyhow::Result<(NodeIdentity, Vec<NodeRow>)> {
    let asking = async {
        let mut said_so = false;
        loop {
            for address in addresses {
                match ask(address, dialing, row).await {
                    Ok(Some(welcome)) => return Ok(welcome),
                    Ok(None) => {}
                    Err(Failed::ForGood(error)) => return Err(error),
                    Err(Failed::ForNow(error)) => {
                        if !said_so {
                            tracing::info!("waiting for {address}: {error:#}");
                            said_so = true;
                        }
                    }
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    };
    tokio::time::timeout(WITHIN, asking).await.unwrap_or_else(|_| {
        bail!(
            "no node of a cluster answered at {} within {} s; --join takes the address on which a \
             node listens for its peers (--peer-listen)",
            listed(addresses),
            WITHIN.as_secs()
        )
    })
}

fn listed(addresses: &[PeerAddress]) -> String {
    let addresses: Vec<String> = addresses.iter().map(PeerAddress::to_string).collect();
    addresses.join(", ")
}

enum Failed {
    ForNow(anyhow::Error),
    ForGood(anyhow::Error),
}

async fn ask(
    address: &PeerAddress,
    dialing: &Dialing,
    row: &NodeRow,
) -> Result<Option<(NodeIdentity, Vec<NodeRow>)>, Failed> {
    let way = dialing.way(&address.to_string()).with_context(|| format!("--join {address}"));
    let mut way = NodesClient::new(way.map_err(Failed::ForGood)?);
    let request = v1::JoinRequest {
        node: Some(record::encode(row)),
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
    };
    let answer = tokio::time::timeout(ANSWER_WITHIN, way.join(request)).await;
    let answer = match answer {
        Ok(Ok(answer)) => answer.into_inner().answer,
        Ok(Err(status)) if status.code() == tonic::Code::Unauthenticated => {
            let said = status.message();
            return Err(Failed::ForGood(anyhow::anyhow!("{address} refuses: {said}")));
        }
        Ok(Err(status)) => return Err(Failed::ForNow(anyhow::anyhow!("{}", status.message()))),
        Err(_) => return Err(Failed::ForNow(anyhow::anyhow!("no answer"))),
    };
    match answer {
        Some(Answer::Welcome(welcome)) => understand(welcome).map(Some).map_err(Failed::ForGood),
        Some(Answer::Rejection(rejection)) => {
            let why = rejection.message.unwrap_or_default();
            Err(Failed::ForGood(anyhow::anyhow!("the cluster does not let this node in: {why}")))
        }
        Some(Answer::NotLeader(_)) | None => Ok(None),
    }
}

fn understand(welcome: v1::Welcome) -> anyhow::Result<(NodeIdentity, Vec<NodeRow>)> {
    let identity = NodeIdentity {
        cluster: welcome.cluster.context("a cluster without an id")?,
        node: welcome.node.context("a node without a number")?,
        shards: welcome
            .shards
            .and_then(|n| n.try_into().ok())
            .context("a cluster without shards")?,
        founded: true,
        removed: false,
    };
    let nodes = welcome.nodes.into_iter().map(|bytes| record::decode("node", bytes));
    Ok((identity, nodes.collect::<Result<_, _>>()?))
}
