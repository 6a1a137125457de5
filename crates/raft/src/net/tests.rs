//! Both sides over a real connection, and others in the place of one of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bellwether_core::waist::Shard;
use bellwether_protocol::peer::v1 as wire;
use bellwether_protocol::peer::v1::peers_client::PeersClient;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use openraft::Raft;
use openraft::errors::RPCError;
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::AppendEntriesRequest;
use openraft::vote::{RaftLeaderId, RaftVote};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Code, Request, Response, Status, Streaming};

use super::*;
use crate::log::Pace;
use crate::machine::Machine;
use crate::member::Heard;
use crate::snapshot::Receiving;
use crate::types::{Peer, Types, Vote};

const PATIENCE: Duration = Duration::from_secs(60);

fn identity(node: u64) -> Identity {
    Identity { cluster: "c".to_owned(), node }
}

/// A node that takes part in nothing.
struct NoGroups;

impl Groups for NoGroups {
    fn group(&self, _: Shard) -> Option<(Raft<Types, Machine>, Arc<Heard>)> {
        None
    }

    fn writing_for(&self) -> Option<Duration> {
        None
    }
}

/// Serves whatever nodes ask, where it says.
async fn serve<P: wire::peers_server::Peers>(
    service: wire::peers_server::PeersServer<P>,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tonic::transport::Server::builder().add_service(service);
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    address
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it takes too long")
}

#[tokio::test]
async fn r65_entries_are_answered_before_the_first_has_come_and_refused_in_the_answer() {
    let dir = tempfile::tempdir().unwrap();
    let receiving = Receiving::open(dir.path()).unwrap();
    let address = serve(service(identity(2), Arc::new(NoGroups), receiving)).await;
    let right = wire::Header { cluster: "c".to_owned(), from: 1, to: 2, group: 3 };
    let of_another = wire::Header { cluster: "d".to_owned(), ..right.clone() };
    let for_another = wire::Header { to: 4, ..right.clone() };
    for (header, code, text) in [
        (None, Code::InvalidArgument, "who asks?"),
        (Some(of_another), Code::PermissionDenied, "this node belongs to another cluster"),
        (Some(for_another), Code::FailedPrecondition, "this is node 2, not 4"),
        (Some(right), Code::NotFound, "there is no group 3"),
    ] {
        let mut client = PeersClient::new(Dialing::default().way(&address.to_string()).unwrap());
        let (sender, requests) = mpsc::channel(1);
        // An entry that takes its time has not come yet.
        let answered = within(client.append(ReceiverStream::new(requests))).await;
        let mut answers = answered.unwrap().into_inner();
        sender.send(wire::AppendRequest { header, ..Default::default() }).await.unwrap();
        let refused = within(answers.message()).await.unwrap_err();
        assert_eq!((refused.code(), refused.message()), (code, text));
    }
    let mut client = PeersClient::new(Dialing::default().way(&address.to_string()).unwrap());
    let nothing = client.append(stream::empty::<wire::AppendRequest>());
    let mut answers = within(nothing).await.unwrap().into_inner();
    assert!(within(answers.next()).await.is_none(), "nothing was asked");
}

/// A node that takes all entries and answers none of them, as one does whose disk is stuck.
struct Swallows(mpsc::UnboundedSender<()>);

#[tonic::async_trait]
impl wire::peers_server::Peers for Swallows {
    type AppendStream = BoxStream<'static, Result<wire::AppendResponse, Status>>;

    async fn append(
        &self,
        request: Request<Streaming<wire::AppendRequest>>,
    ) -> Result<Response<Self::AppendStream>, Status> {
        let (mut requests, told) = (request.into_inner(), self.0.clone());
        let swallowed = async move {
            while let Ok(Some(_)) = requests.message().await {
                told.send(()).unwrap();
            }
            std::future::pending().await
        };
        Ok(Response::new(stream::once(swallowed).boxed()))
    }

    async fn vote(
        &self,
        _: Request<wire::VoteRequest>,
    ) -> Result<Response<wire::VoteResponse>, Status> {
        Err(Status::unimplemented("nobody asks for it"))
    }

    async fn pre_vote(
        &self,
        _: Request<wire::VoteRequest>,
    ) -> Result<Response<wire::VoteResponse>, Status> {
        Err(Status::unimplemented("nobody asks for it"))
    }

    async fn transfer_leader(
        &self,
        _: Request<wire::TransferLeaderRequest>,
    ) -> Result<Response<wire::TransferLeaderResponse>, Status> {
        Err(Status::unimplemented("nobody asks for it"))
    }

    async fn snapshot(
        &self,
        _: Request<Streaming<wire::SnapshotPart>>,
    ) -> Result<Response<wire::SnapshotResponse>, Status> {
        Err(Status::unimplemented("nobody asks for it"))
    }
}

fn heartbeat() -> AppendEntriesRequest<Types> {
    let leader = <Types as openraft::RaftTypeConfig>::LeaderId::new(1, 1);
    let vote = Vote::from_leader_id(leader, true);
    AppendEntriesRequest { vote, prev_log_id: None, entries: Vec::new(), leader_commit: None }
}

#[tokio::test]
async fn r112_a_stream_to_a_node_that_swallows_what_it_is_sent_ends() {
    let (told, mut swallowed) = mpsc::unbounded_channel();
    let address = serve(wire::peers_server::PeersServer::new(Swallows(told))).await;
    let copies = Copies::new(Arc::new(Pace::new(tokio::time::Instant::now(), 1)));
    let mut network = Network::new(identity(1), Dialing::default(), copies);
    network.patience.quiet = Duration::from_millis(300);
    let peer = Peer { address: address.to_string(), zone: String::new() };
    let mut client = network.of_group(3).new_client(2, &peer).await;
    let (ask, requests) = mpsc::channel(1);
    ask.send(heartbeat()).await.unwrap();
    let option = RPCOption::new(PATIENCE);
    let asking = client.stream_append(ReceiverStream::new(requests), option);
    let mut answers = within(asking).await.unwrap();
    within(swallowed.recv()).await.unwrap();
    let ended = within(answers.next()).await.unwrap().unwrap_err();
    assert!(matches!(ended, RPCError::Unreachable(_)), "{ended}");
    assert!(ended.to_string().contains("it does not answer"), "{ended}");
    assert!(within(answers.next()).await.is_none());
    assert!(ask.is_closed(), "and nothing more is asked");
}
