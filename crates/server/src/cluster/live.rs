//! The way to what is live on other nodes.

use std::io;
use std::time::Duration;

use bellwether_protocol::node::v1;
use bellwether_protocol::node::v1::live_client::LiveClient;
use bellwether_raft::net::Way;

use super::{Cluster, MESSAGE_MAX};

/// How long a node may take to say what only it knows. One that takes longer is left out.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// Another node that can be asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Other {
    /// Its number.
    pub node: u64,
    /// Its name.
    pub name: String,
}

impl Cluster {
    /// The way to what is live on a node.
    fn live(&self, node: u64) -> io::Result<LiveClient<Way>> {
        let place = (node, self.address(node)?);
        if let Some(way) = self.live_ways.lock().get(&place) {
            return Ok(way.clone());
        }
        let way = LiveClient::new(self.dial(&place)?)
            .max_decoding_message_size(MESSAGE_MAX)
            .max_encoding_message_size(MESSAGE_MAX);
        self.live_ways.lock().insert(place, way.clone());
        Ok(way)
    }

    /// The other nodes: those that are up, and those that are down.
    #[must_use]
    pub fn others(&self) -> (Vec<Other>, Vec<Other>) {
        let all = self.book.all().into_iter();
        let (up, down): (Vec<_>, Vec<_>) = all.partition(|known| known.is_up());
        let of = |known: super::Known| Other { node: known.row.node, name: known.row.name };
        (up.into_iter().map(of).collect(), down.into_iter().map(of).collect())
    }

    /// Starts to hear what happens in the shards that act on a node; `None` if it does not answer.
    pub async fn listen_to(&self, node: u64) -> Option<tonic::Streaming<v1::News>> {
        let mut way = self.live(node).ok()?;
        let listening = tokio::time::timeout(ANSWER_WITHIN, way.listen(v1::ListenRequest {}));
        Some(listening.await.ok()?.ok()?.into_inner())
    }

    /// Has a request answered by another node: the head of its answer, and where the body comes from.
    /// `None` if it did not answer within this time.
    pub async fn relay(
        &self,
        node: u64,
        request: v1::RelayRequest,
        within: Duration,
    ) -> Option<(v1::RelayHead, tonic::Streaming<v1::RelayPart>)> {
        let mut way = self.live(node).ok()?;
        let relaying = async {
            let mut parts = way.relay(request).await?.into_inner();
            let head = parts.message().await?.and_then(|part| part.part);
            Ok::<_, tonic::Status>((head, parts))
        };
        match tokio::time::timeout(within, relaying).await {
            Ok(Ok((Some(v1::relay_part::Part::Head(head)), parts))) => Some((head, parts)),
            Ok(Ok(_)) => None,
            Ok(Err(status)) => {
                tracing::debug!(node, %status, "a node does not answer for another");
                None
            }
            Err(_) => None,
        }
    }

    /// At which nodes workers are connected, as a node says; `None` if it does not answer.
    pub(super) async fn ask_whereabouts(
        &self,
        node: u64,
        workers: Vec<String>,
    ) -> Option<Vec<v1::Whereabouts>> {
        let mut way = self.live(node).ok()?;
        let asked = way.whereabouts(v1::WhereaboutsRequest { workers });
        let answer = tokio::time::timeout(ANSWER_WITHIN, asked).await.ok()?.ok()?;
        Some(answer.into_inner().workers)
    }

    /// Tells the leader of a shard that a worker has not been heard. Whether it has seen to it.
    pub(super) async fn tell_given_up(&self, leader: u64, request: v1::GiveUpRequest) -> bool {
        let Ok(mut way) = self.live(leader) else { return false };
        let told = tokio::time::timeout(ANSWER_WITHIN, way.give_up(request)).await;
        told.is_ok_and(|answer| {
            answer.is_ok_and(|answer| answer.into_inner().taken.unwrap_or(false))
        })
    }
}
