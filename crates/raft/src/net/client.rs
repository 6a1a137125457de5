//! The side that asks.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bellwether_core::waist::Shard;
use bellwether_protocol::peer::v1 as wire;
use bellwether_protocol::peer::v1::peers_client::PeersClient;
use bellwether_protocol::peer::v1::snapshot_part::Part;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult,
    TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::type_config::alias::SnapshotOf;
use openraft::{AnyError, OptionalSend};
use parking_lot::{Mutex, RwLock};
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::convert::{append, appended_of, ballot, point, vote, vote_request, vote_response_of};
use super::silence::{Patience, counted};
use super::{Copies, Dialing, Identity, MESSAGE_MAX, Way};
use crate::codec::encode_position;
use crate::snapshot::ShardCopy;
use crate::types::{Peer, Types, Vote};

/// Parts of a copy that are read ahead.
const PARTS_AHEAD: usize = 4;

/// How long a replica may be silent that was sent entries. Longer than it lets itself be: what it ends by
/// itself leaves nothing behind. And what is on its way to a replica goes over one connection for
/// all groups, which may have much to send at the same time.
const PATIENCE: Patience = Patience { quiet: Duration::from_secs(30), bytes_a_second: 64 * 1024 };

/// Connections to the peers of a node, shared by all of its groups.
#[derive(Clone)]
pub struct Network {
    identity: Identity,
    dialing: Dialing,
    /// By address: one connection serves all groups. It is made when it is first needed.
    ways: Arc<Mutex<BTreeMap<String, Way>>>,
    /// Where nodes are reached that are not where their groups believe they are.
    moved: Arc<RwLock<BTreeMap<u64, String>>>,
    copies: Arc<Copies>,
    /// How long answers to entries are waited for.
    pub(super) patience: Patience,
}

impl Network {
    /// Nobody has been reached yet.
    #[must_use]
    pub(crate) fn new(identity: Identity, dialing: Dialing, copies: Arc<Copies>) -> Network {
        let (ways, moved) = (Arc::default(), Arc::default());
        Network { identity, dialing, ways, moved, copies, patience: PATIENCE }
    }

    /// The connections of one group.
    #[must_use]
    pub fn of_group(&self, group: Shard) -> GroupNetwork {
        GroupNetwork { network: self.clone(), group }
    }

    /// Reaches a node at an address from now on, whatever its groups say.
    pub fn set_address(&self, node: u64, address: &str) {
        if self.moved.read().get(&node).is_none_or(|known| known != address) {
            self.moved.write().insert(node, address.to_owned());
        }
    }

    /// Where a node is reached that a group knows at an address.
    fn address(&self, node: u64, known: &str) -> String {
        self.moved.read().get(&node).cloned().unwrap_or_else(|| known.to_owned())
    }

    fn way(&self, address: &str) -> io::Result<Way> {
        if let Some(way) = self.ways.lock().get(address) {
            return Ok(way.clone());
        }
        let way = self.dialing.way(address)?;
        self.ways.lock().insert(address.to_owned(), way.clone());
        Ok(way)
    }
}

/// The connections of one group.
#[derive(Clone)]
pub struct GroupNetwork {
    network: Network,
    group: Shard,
}

impl RaftNetworkFactory<Types> for GroupNetwork {
    type Network = Client;

    async fn new_client(&mut self, target: u64, peer: &Peer) -> Client {
        let identity = &self.network.identity;
        let header = wire::Header {
            cluster: identity.cluster.clone(),
            from: identity.node,
            to: target,
            group: u32::from(self.group),
        };
        let (group, network) = (self.group, self.network.clone());
        Client { header, group, network, address: peer.address.clone() }
    }
}

/// One group's way to one peer.
pub struct Client {
    header: wire::Header,
    group: Shard,
    network: Network,
    /// Where the group believes the peer to be.
    address: String,
}

fn unreachable(error: impl std::fmt::Display) -> Unreachable<Types> {
    Unreachable::new(&AnyError::error(error))
}

fn refused(error: &io::Error) -> RPCError<Types> {
    RPCError::Network(NetworkError::new(&AnyError::new(error)))
}

fn client_over(way: Way) -> PeersClient<Way> {
    let client = PeersClient::new(way);
    client.max_decoding_message_size(MESSAGE_MAX).max_encoding_message_size(MESSAGE_MAX)
}

impl Client {
    /// Looked up whenever something is said: the peer may have moved.
    fn client(&self) -> Result<PeersClient<Way>, Unreachable<Types>> {
        let address = self.network.address(self.header.to, &self.address);
        self.network.way(&address).map(client_over).map_err(unreachable)
    }

    /// A connection of its own, for what would be in the way of everything else.
    fn client_apart(&self) -> Result<PeersClient<Way>, Unreachable<Types>> {
        let address = self.network.address(self.header.to, &self.address);
        self.network.dialing.way(&address).map(client_over).map_err(unreachable)
    }

    /// Waits for an answer, but not for ever.
    async fn within<T>(
        option: &RPCOption,
        call: impl Future<Output = Result<tonic::Response<T>, Status>>,
    ) -> Result<T, RPCError<Types>> {
        match tokio::time::timeout(option.hard_ttl(), call).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(RPCError::Unreachable(unreachable(status))),
            Err(_) => Err(RPCError::Unreachable(unreachable("no answer in time"))),
        }
    }
}

impl RaftNetworkV2<Types> for Client {
    type SnapshotData = ShardCopy;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        let ttl = option.hard_ttl();
        let input = stream::iter([request]);
        let mut answers = self.stream_append(input, option).await?;
        match tokio::time::timeout(ttl, answers.next()).await {
            Ok(Some(answer)) => answer.map(AppendEntriesResponse::from),
            Ok(None) => Err(RPCError::Unreachable(unreachable("the stream ended"))),
            Err(_) => Err(RPCError::Unreachable(unreachable("no answer in time"))),
        }
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> BoxFuture<
        's,
        Result<BoxStream<'s, Result<StreamAppendResult<Types>, RPCError<Types>>>, RPCError<Types>>,
    >
    where
        S: Stream<Item = AppendEntriesRequest<Types>> + OptionalSend + Unpin + 'static,
    {
        Box::pin(async move {
            // Taken before a peer is dialled that may be dead: otherwise openraft would try again
            // without any pause.
            let (mut requests, asked) = counted(input);
            let Some(first) = requests.next().await else {
                return Ok(stream::empty().boxed());
            };
            let mut client = self.client()?;
            let first = wire::AppendRequest { header: Some(self.header.clone()), ..append(&first) };
            let rest = requests.map(|request| append(&request));
            let requests = stream::once(async { first }).chain(rest);
            let answers = Client::within(&option, client.append(requests)).await?;
            let answers = answers.map(|answer| match answer {
                Ok(answer) => appended_of(answer).map_err(|error| refused(&error)),
                Err(status) => Err(RPCError::Unreachable(unreachable(status))),
            });
            let silent = || Err(RPCError::Unreachable(unreachable("it does not answer")));
            Ok(asked.answered(answers, self.network.patience, silent).boxed())
        })
    }

    async fn vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let mut client = self.client()?;
        let request = vote_request(self.header.clone(), &request);
        let answer = Client::within(&option, client.vote(request)).await?;
        vote_response_of(answer).map_err(|error| refused(&error))
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let mut client = self.client()?;
        let request = vote_request(self.header.clone(), &request);
        let answer = Client::within(&option, client.pre_vote(request)).await?;
        vote_response_of(answer).map_err(|error| refused(&error))
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RPCError<Types>> {
        let mut client = self.client()?;
        let request = wire::TransferLeaderRequest {
            header: Some(self.header.clone()),
            from_leader: Some(ballot(request.from_leader())),
            to_node: *request.to_node_id(),
            last: request.last_log_id().map(point),
        };
        let answer = Client::within(&option, client.transfer_leader(request)).await?;
        match answer.refused.as_str() {
            "" => Ok(Ok(())),
            why => Err(RPCError::Network(NetworkError::new(&AnyError::error(why)))),
        }
    }

    async fn full_snapshot(
        &mut self,
        leader: Vote,
        snapshot: SnapshotOf<Types, ShardCopy>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let ShardCopy::View(view) = snapshot.snapshot else {
            return Err(StreamingError::Unreachable(unreachable("a copy cannot be passed on")));
        };
        tokio::pin!(cancel);
        let (to, meta) = (self.header.to, &snapshot.meta);
        let joins = !meta.last_membership.membership().voter_ids().any(|voter| voter == to);
        let upto = meta.last_log_id.map_or(0, |last| last.index);
        let begun = self.network.copies.begin(self.group, to, upto, joins);
        let sending = tokio::select! {
            sending = begun => sending,
            closed = &mut cancel => return Err(StreamingError::Closed(closed)),
        };
        let Some(sending) = sending else {
            return Err(StreamingError::Unreachable(unreachable("other copies are sent to it")));
        };
        let mut client = self.client_apart()?;
        let head = wire::SnapshotHead {
            header: Some(self.header.clone()),
            vote: Some(ballot(&leader)),
            position: encode_position(snapshot.meta.last_log_id, &snapshot.meta.last_membership),
        };
        let (sender, parts) = mpsc::channel(PARTS_AHEAD);
        let reading = tokio::task::spawn_blocking(move || {
            let part = |part| wire::SnapshotPart { part: Some(part) };
            if sender.blocking_send(part(Part::Head(head))).is_err() {
                return Ok(());
            }
            let send = |rows| sender.blocking_send(part(Part::Rows(rows))).is_ok();
            let rows = view.parts(send)?;
            let _ = sender.blocking_send(part(Part::End(wire::SnapshotEnd { rows })));
            io::Result::Ok(())
        });
        let sending = Arc::new(sending);
        let turns = sending.clone();
        let parts = ReceiverStream::new(parts).then(move |part| {
            let turns = turns.clone();
            async move {
                turns.turn(part.encoded_len() as u64).await;
                part
            }
        });
        let answer = tokio::select! {
            answer = client.snapshot(parts) => answer.map_err(unreachable)?.into_inner(),
            closed = &mut cancel => return Err(StreamingError::Closed(closed)),
        };
        match reading.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(unreachable(error).into()),
            Err(error) => return Err(unreachable(error).into()),
        }
        sending.arrived();
        let vote = vote(answer.vote).map_err(unreachable)?;
        Ok(SnapshotResponse::new(vote))
    }
}
