//! Copies of shards that a node is sent.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::process::Command;
use std::time::Duration;

use bellwether_protocol::peer::v1 as wire;
use bellwether_protocol::peer::v1::peers_client::PeersClient;
use bellwether_protocol::peer::v1::snapshot_part::Part;
use bellwether_raft::codec::{encode_payload, encode_position};
use bellwether_raft::engine::RaftEngine;
use bellwether_raft::log::{self, Directory, Log, LogOptions, Point};
use bellwether_raft::net::Dialing;
use bellwether_raft::snapshot::Receiving;
use bellwether_raft::types::{Entry, LogId, Membership, StoredMembership};
use bellwether_store::Engine;
use bytes::Bytes;
use openraft::EntryPayload;
use tokio::net::TcpListener;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};

use crate::opened::open;

const PATIENCE: Duration = Duration::from_secs(60);

fn header() -> Option<wire::Header> {
    Some(wire::Header { cluster: "c".to_owned(), from: 1, to: 2, group: 3 })
}

async fn close(engine: RaftEngine) {
    tokio::task::spawn_blocking(move || engine.close()).await.unwrap().unwrap();
}

fn log_id(term: u64, index: u64) -> LogId {
    bellwether_raft::codec::log_id(Point { term, index })
}

/// What a leader has sent that was replaced before others agreed, and a copy from its successor that is
/// complete, but neither has been taken in nor has anything been cut off for it.
#[tokio::test]
async fn r115_a_copy_that_is_taken_in_at_a_start_replaces_what_was_never_agreed() {
    let members = Membership::new_with_defaults(vec![BTreeSet::from([1, 2])], []);
    let members = StoredMembership::new(Some(log_id(1, 0)), members);
    for copied in [1, 3, 6] {
        let dir = tempfile::tempdir().unwrap();
        let log = Directory::open(dir.path().join("log")).unwrap();
        let log = Log::open(log, LogOptions::default()).unwrap();
        let entries = (0..=6).map(|index| {
            let payload = match index {
                0 => EntryPayload::Membership(members.membership().clone()),
                _ => EntryPayload::Blank,
            };
            let entry = Entry { log_id: log_id(1, index), payload };
            log::Entry { point: Point { term: 1, index }, data: encode_payload(&entry) }
        });
        let (durable, is_durable) = std::sync::mpsc::channel();
        let done = Box::new(move |result| durable.send(result).unwrap());
        log.group(3).unwrap().append(entries.collect(), done).unwrap();
        is_durable.recv().unwrap().unwrap();
        log.close();
        let receiving = Receiving::open(dir.path().join("log/copies")).unwrap();
        let position = encode_position(Some(log_id(2, copied)), &members);
        receiving.begin(3, position).unwrap().end(0).unwrap();
        // The second time nothing is to be taken in any more.
        for time in ["first", "second"] {
            let engine = open(dir.path(), 2, &[3], LogOptions::default()).await;
            engine.applied_to(3, copied, PATIENCE).await.unwrap();
            let standing = engine.standing(3).unwrap();
            assert_eq!((standing.applied, standing.last), (copied, copied), "the {time} time");
            assert_eq!(standing.voters, BTreeSet::from([1, 2]));
            close(engine).await;
        }
    }
}

/// The disk is a pipe here, which takes no more than 64 KiB until somebody reads them.
#[tokio::test]
async fn r65_a_disk_that_is_slow_to_take_a_copy_holds_nobody_else_up() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), 2, &[3], LogOptions::default()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tonic::transport::Server::builder().add_service(engine.service());
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));

    let pipe = dir.path().join("log/copies/shard-3.0.part");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (write_began, began) = tokio::sync::oneshot::channel();
    let (others_go_on, go_on) = std::sync::mpsc::channel();
    let disk = std::thread::spawn(move || {
        let mut pipe = File::open(pipe).unwrap();
        pipe.read_exact(&mut [0]).unwrap();
        write_began.send(()).unwrap();
        let others_went_on = go_on.recv_timeout(PATIENCE).is_ok();
        // Whatever waits for it goes on in any case.
        pipe.read_to_end(&mut Vec::new()).unwrap();
        others_went_on
    });

    let mut client = PeersClient::new(Dialing::default().way(&address.to_string()).unwrap());
    let vote = Some(wire::Ballot { term: 1, node: 1, committed: true });
    let position = encode_position(None, &StoredMembership::default());
    let head = Part::Head(wire::SnapshotHead { header: header(), vote, position });
    let (keys, values) = (vec![b"\0\x03k"[..].into()], vec![Bytes::from(vec![7; 1024 * 1024])]);
    let rows = Part::Rows(wire::SnapshotRows { family: 0, keys, values });
    let (sender, parts) = tokio::sync::mpsc::channel(2);
    for part in [head, rows] {
        sender.send(wire::SnapshotPart { part: Some(part) }).await.unwrap();
    }
    let mut copying = client.clone();
    let copying = tokio::spawn(async move { copying.snapshot(ReceiverStream::new(parts)).await });
    began.await.unwrap();
    let vote = Some(wire::Ballot { term: 1, node: 1, committed: false });
    let request = wire::VoteRequest { header: header(), vote, ..Default::default() };
    client.vote(request).await.unwrap();
    // Nobody listens any more if it came too late.
    let _ = others_go_on.send(());
    drop(sender);
    let broken_off = copying.await.unwrap().unwrap_err();
    assert_eq!(broken_off.message(), "the copy broke off");
    assert!(disk.join().unwrap(), "a vote was not answered while a copy was being written");
    close(engine).await;
}
