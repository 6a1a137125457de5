//! Both sides over a real connection, and others in the place of one of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bellwether_core::waist::Shard;
use bellwether_protocol::peer::v1 as wire;
use bellwether_protocol::peer::v1::peers_client::PeersClient;
use futures::StreamExt;
use futures::stream;
use openraft::Raft;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::Code;

use super::*;
use crate::machine::Machine;
use crate::snapshot::Receiving;
use crate::types::Types;

const PATIENCE: Duration = Duration::from_secs(60);

fn identity(node: u64) -> Identity {
    Identity { cluster: "c".to_owned(), node }
}

/// A node that takes part in nothing.
struct NoGroups;

impl Groups for NoGroups {
    fn group(&self, _: Shard) -> Option<Raft<Types, Machine>> {
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
