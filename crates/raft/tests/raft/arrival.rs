//! A replica that is begun anew where there was one before.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bellwether_protocol::peer::v1 as wire;
use bellwether_protocol::peer::v1::peers_client::PeersClient;
use bellwether_raft::codec::{encode_payload, log_id};
use bellwether_raft::engine::RaftEngine;
use bellwether_raft::log::{LogOptions, Point};
use bellwether_raft::types::{Entry, Membership, Peer};
use bellwether_store::Engine;
use openraft::EntryPayload;
use tokio::net::TcpListener;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::TcpListenerStream;

use crate::opened::open;

/// Longer than it takes a group of one to elect itself.
const LONG: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(60);
/// The group, which node 2 has founded, been removed from, and is to take part in again. Node 1 leads it.
const GROUP: u16 = 3;

/// What the leader sends: the log from its beginning, up to some entry; all up to 9 is agreed upon.
fn sent(upto: u64) -> wire::AppendRequest {
    let voters = |ids: &[u64]| {
        let voters = vec![ids.iter().copied().collect::<BTreeSet<u64>>()];
        EntryPayload::Membership(Membership::new_with_defaults(voters, [1, 2, 4]))
    };
    let entries = (0..=upto).map(|index| {
        let payload = match index {
            0 => voters(&[2]),
            5 => voters(&[1, 4]),
            _ => EntryPayload::Blank,
        };
        let entry = Entry { log_id: log_id(Point { term: 1, index }), payload };
        let point = Some(wire::Point { term: 1, index });
        wire::Entry { point, data: encode_payload(&entry) }
    });
    wire::AppendRequest {
        header: Some(wire::Header {
            cluster: "c".to_owned(),
            from: 1,
            to: 2,
            group: u32::from(GROUP),
        }),
        vote: Some(wire::Ballot { term: 3, node: 1, committed: true }),
        previous: None,
        entries: entries.collect(),
        committed: Some(wire::Point { term: 1, index: 9 }),
    }
}

/// Has a node be sent the log up to some entry, and waits until it has it.
async fn send(engine: &Arc<RaftEngine>, upto: u64) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tonic::transport::Server::builder().add_service(engine.service());
    let serving = tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{address}")).unwrap();
    let mut client = PeersClient::new(endpoint.connect().await.unwrap());
    let requests = tokio_stream::iter([sent(upto)]);
    let mut answers = client.append(requests).await.unwrap().into_inner();
    let answer = tokio::time::timeout(PATIENCE, answers.next()).await.unwrap().unwrap().unwrap();
    let taken = wire::append_response::Answer::Matched(wire::Matched {
        upto: Some(wire::Point { term: 1, index: upto }),
    });
    assert_eq!(answer.answer, Some(taken));
    serving.abort();
}

/// Whether a node makes itself the leader.
async fn leads_itself(engine: &RaftEngine) -> bool {
    engine.wait_for_leader(GROUP, 2, LONG).await.is_ok()
}

async fn close(engine: Arc<RaftEngine>) {
    tokio::task::spawn_blocking(move || engine.close()).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r92_a_replica_that_is_begun_anew_does_not_lead_in_a_past_in_which_it_was_alone() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Arc::new(open(dir.path(), 2, &[], LogOptions::default()).await);
    assert!(engine.start_if_absent(GROUP).await.unwrap());
    send(&engine, 3).await;
    assert_eq!(engine.standing(GROUP).unwrap().voters, BTreeSet::from([2]));
    assert!(!leads_itself(&engine).await);
    close(engine).await;
    // Nor after a restart.
    let engine = Arc::new(open(dir.path(), 2, &[], LogOptions::default()).await);
    let peer = Peer { address: "127.0.0.1:1".to_owned(), zone: String::new() };
    engine.lead_alone(&peer).await.unwrap();
    assert!(!leads_itself(&engine).await);
    // It arrives, and knows that it does not vote.
    send(&engine, 9).await;
    assert_eq!(engine.standing(GROUP).unwrap().voters, BTreeSet::from([1, 4]));
    let marks = || std::fs::read_dir(dir.path().join("log/arrivals")).unwrap().count();
    tokio::time::timeout(PATIENCE, async {
        while marks() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    close(engine).await;
}

/// What the other one is kept from.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_not_begun_anew_leads_where_it_is_alone() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Arc::new(open(dir.path(), 2, &[], LogOptions::default()).await);
    engine.start(GROUP).await.unwrap();
    send(&engine, 3).await;
    engine.wait_for_leader(GROUP, 2, PATIENCE).await.unwrap();
    close(engine).await;
}
