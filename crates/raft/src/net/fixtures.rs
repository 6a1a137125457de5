//! What nodes say to one another about groups, and what of it is stored in the log, as bytes that every
//! version has to understand.
//!
//! These matter most: replicas that take an entry for different things are different for ever. Numbers
//! and types of fields alone are held fast in `crates/protocol/tests/schema.rs`; but what is in entries has no
//! other description than the code, and that openraft's values are in the right fields is seen only here. The records that the log
//! itself is made of are kept in `log/record.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use bellwether_core::waist::{Batch, Family, Op};
use bellwether_protocol::peer::v1 as wire;
use bellwether_store::Replicated;
use bytes::Bytes;
use openraft::EntryPayload;
use openraft::impls::leader_id_std::LeaderId;
use openraft::raft::{AppendEntriesRequest, StreamAppendError, VoteRequest, VoteResponse};
use openraft::vote::RaftVote;
use prost::Message;

use super::convert;
use crate::codec::{
    decode_command, decode_entry, decode_position, decode_vote, encode_acquire, encode_batch,
    encode_payload, encode_position, encode_vote, log_id,
};
use crate::log::Point;
use crate::types::{Command, Entry, LogId, Membership, Peer, StoredMembership, Types, Vote};

#[path = "../../../protocol/tests/kept/mod.rs"]
mod kept;
use kept::Kept;

fn kept() -> Kept {
    Kept::open(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/v1.txt"))
}

fn id(term: u64, index: u64) -> LogId {
    log_id(Point { term, index })
}

fn vote() -> Vote {
    Vote::from_leader_id(LeaderId { term: 300, voted_for: 2 }, true)
}

fn header() -> wire::Header {
    wire::Header { cluster: "c-1".to_owned(), from: 1, to: 2, group: 3 }
}

/// Who takes part while that is being changed: two sets of voters, and one who learns.
fn membership() -> Membership {
    let voters = [[1, 2, 3], [1, 2, 4]].map(BTreeSet::from).to_vec();
    let peer = |id: u64| Peer { address: format!("10.0.0.{id}:2356"), zone: format!("rack-{id}") };
    let nodes: BTreeMap<u64, Peer> = (1..=5).map(|id| (id, peer(id))).collect();
    Membership::new(voters, nodes).unwrap()
}

fn batch() -> Batch {
    let [key, value, end] = [b"\0\x03k", b"val", b"\0\x03z"].map(|bytes| Bytes::from_static(bytes));
    Batch {
        shard: 3,
        term: 7,
        ops: vec![
            Op::Put { family: Family::Meta, key: key.clone(), value },
            Op::Delete { family: Family::Active, key: key.clone() },
            Op::DropRange { family: Family::Tick, from: key, to: end },
        ],
    }
}

fn payloads() -> [(&'static str, EntryPayload<Command, u64, Peer>); 3] {
    [
        ("batch", EntryPayload::Normal(encode_batch(batch()))),
        ("acquire", EntryPayload::Normal(encode_acquire(3))),
        ("membership", EntryPayload::Membership(membership())),
    ]
}

#[test]
fn r117_entries_of_other_versions_are_understood() {
    let mut kept = kept();
    for (name, payload) in payloads() {
        let entry = Entry { log_id: id(300, 9), payload };
        let read = |bytes: &[u8]| {
            decode_entry(Point { term: 300, index: 9 }, Bytes::copy_from_slice(bytes))
        };
        kept.check(&format!("entry-{name}"), &entry, encode_payload(&entry).to_vec(), read);
    }
    let read = |bytes: &[u8]| decode_command(&Command(Bytes::copy_from_slice(bytes)));
    let shown = |bytes: &[u8]| read(bytes).map(|command| format!("{command:?}"));
    let write = format!("{:?}", Replicated::Write(batch()));
    kept.check("command-batch", &write, encode_batch(batch()).0.to_vec(), shown);
    let acquire = format!("{:?}", Replicated::Acquire);
    kept.check("command-acquire", &acquire, encode_acquire(3).0.to_vec(), shown);
    let blank = Entry { log_id: id(300, 9), payload: EntryPayload::Blank };
    assert_eq!(encode_payload(&blank), "", "what says nothing is nothing");
}

/// A replica that took it for an entry that says nothing would never be like the others again.
#[test]
fn r117_what_only_later_versions_know_is_refused_and_not_left_out() {
    let read = |bytes: &'static [u8]| {
        decode_entry(Point { term: 300, index: 9 }, Bytes::from_static(bytes))
    };
    let blank = read(b"").unwrap();
    assert_eq!(blank.payload, EntryPayload::Blank);
    let refused = read(b"\x1a\x03new").unwrap_err();
    let said = "entry 9 is of a kind that only later versions know: upgrade this node";
    assert_eq!(refused.to_string(), said);
    let ops = |kind: u8, family: u8| Bytes::copy_from_slice(&[0x1a, 4, 8, kind, 0x10, family]);
    assert!(decode_command(&Command(ops(2, 1))).is_ok());
    assert!(decode_command(&Command(ops(3, 1))).is_err(), "a kind of write");
    assert!(decode_command(&Command(ops(2, 120))).is_err(), "a family of keys");
}

#[test]
fn r117_what_is_stored_of_a_group_by_other_versions_is_understood() {
    let mut kept = kept();
    let read = |bytes: &[u8]| decode_vote(Bytes::copy_from_slice(bytes));
    kept.check("stored-vote", &vote(), encode_vote(&vote()).to_vec(), read);
    let stored = StoredMembership::new(Some(id(299, 8)), membership());
    let position = encode_position(Some(id(300, 9)), &stored);
    let read = |bytes: &[u8]| decode_position(Bytes::copy_from_slice(bytes));
    kept.check("stored-position", &(Some(id(300, 9)), stored), position.to_vec(), read);
}

/// Checks a message of the wire that values of openraft are turned into and back.
fn check<M, T>(name: &str, value: &T, message: &M, read: impl Fn(M) -> io::Result<T>)
where
    M: Message + Default,
    T: PartialEq + std::fmt::Debug,
{
    kept().check(name, value, message.encode_to_vec(), |bytes| {
        read(M::decode(bytes).map_err(io::Error::other)?)
    });
}

#[test]
fn r117_votes_and_entries_of_nodes_of_other_versions_are_understood() {
    let mut asked = VoteRequest::<Types>::new(vote(), Some(id(299, 8)));
    asked.leadership_transfer = true;
    let message = convert::vote_request(header(), &asked);
    check("vote-request", &asked, &message, convert::vote_request_of);
    let answered = VoteResponse::<Types>::new(vote(), Some(id(299, 8)), true);
    let message = convert::vote_response(&answered);
    check("vote-response", &answered, &message, convert::vote_response_of);
    let entry = |(n, (_, payload)): (u64, (_, _))| Entry { log_id: id(300, 9 + n), payload };
    let append = AppendEntriesRequest::<Types> {
        vote: vote(),
        prev_log_id: Some(id(299, 8)),
        entries: (0u64..).zip(payloads()).map(entry).collect(),
        leader_commit: Some(id(299, 7)),
    };
    let message = wire::AppendRequest { header: Some(header()), ..convert::append(&append) };
    let shown = format!("{append:?}");
    let read = |message| convert::append_of(message).map(|append| format!("{append:?}"));
    check("append-request", &shown, &message, read);
    for (name, answer) in [
        ("matched", Ok(Some(id(300, 9)))),
        ("matched-none", Ok(None)),
        ("conflict", Err(StreamAppendError::Conflict(id(300, 9)))),
        ("higher", Err(StreamAppendError::HigherVote(vote()))),
    ] {
        let name = format!("append-response-{name}");
        check(&name, &answer, &convert::appended(answer.clone()), convert::appended_of);
    }
}

#[test]
fn r117_copies_and_handing_over_of_nodes_of_other_versions_are_understood() {
    use wire::snapshot_part::Part;
    let ballot = Some(convert::ballot(&vote()));
    let last = Some(convert::point(&id(299, 8)));
    let transfer = wire::TransferLeaderRequest {
        header: Some(header()),
        from_leader: ballot,
        to_node: 3,
        last,
    };
    check("transfer-request", &transfer, &transfer, Ok);
    let refused = wire::TransferLeaderResponse { refused: "not now".to_owned() };
    check("transfer-response", &refused, &refused, Ok);
    let stored = StoredMembership::new(Some(id(299, 8)), membership());
    let position = encode_position(Some(id(300, 9)), &stored);
    let [keys, values] = [["a", "b"], ["1", "2"]].map(|all| all.map(Bytes::from).to_vec());
    for (name, part) in [
        ("head", Part::Head(wire::SnapshotHead { header: Some(header()), vote: ballot, position })),
        ("rows", Part::Rows(wire::SnapshotRows { family: 3, keys, values })),
        ("end", Part::End(wire::SnapshotEnd { rows: 300 })),
    ] {
        let part = wire::SnapshotPart { part: Some(part) };
        check(&format!("snapshot-{name}"), &part, &part, Ok);
    }
    let response = wire::SnapshotResponse { vote: ballot };
    check("snapshot-response", &response, &response, Ok);
}

/// What a node of an earlier version may leave out, and what that means.
#[test]
fn r117_what_earlier_versions_do_not_say_has_its_default() {
    let older = wire::VoteRequest { vote: Some(convert::ballot(&vote())), ..Default::default() };
    let asked = convert::vote_request_of(older).unwrap();
    assert!(!asked.leadership_transfer && asked.last_log_id.is_none());
    let without_vote = convert::vote_request_of(wire::VoteRequest::default()).unwrap_err();
    assert_eq!(without_vote.to_string(), "a vote cannot be understood");
}
