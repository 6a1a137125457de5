//! From openraft's messages to those of the wire, and back.

use std::io;

use bellwether_protocol::peer::v1 as wire;
use openraft::impls::leader_id_std::LeaderId;
use openraft::raft::{
    AppendEntriesRequest, StreamAppendError, StreamAppendResult, VoteRequest, VoteResponse,
};
use openraft::vote::RaftVote;

use crate::codec::{decode_entry, encode_payload, malformed};
use crate::log::Point;
use crate::types::{LogId, Types, Vote};

pub(super) fn point(id: &LogId) -> wire::Point {
    let Point { term, index } = crate::codec::point(id);
    wire::Point { term, index }
}

pub(super) fn log_id(point: wire::Point) -> LogId {
    crate::codec::log_id(Point { term: point.term, index: point.index })
}

pub(super) fn ballot(vote: &Vote) -> wire::Ballot {
    let leader = vote.leader_id();
    wire::Ballot { term: leader.term, node: leader.voted_for, committed: vote.committed }
}

pub(super) fn vote(ballot: Option<wire::Ballot>) -> io::Result<Vote> {
    let wire::Ballot { term, node, committed } = ballot.ok_or_else(|| malformed("a vote"))?;
    Ok(Vote::from_leader_id(LeaderId { term, voted_for: node }, committed))
}

pub(super) fn append(request: &AppendEntriesRequest<Types>) -> wire::AppendRequest {
    let entries = request.entries.iter().map(|entry| wire::Entry {
        point: Some(point(&entry.log_id)),
        data: encode_payload(entry),
    });
    wire::AppendRequest {
        header: None,
        vote: Some(ballot(&request.vote)),
        previous: request.prev_log_id.as_ref().map(point),
        entries: entries.collect(),
        committed: request.leader_commit.as_ref().map(point),
    }
}

pub(super) fn append_of(wire: wire::AppendRequest) -> io::Result<AppendEntriesRequest<Types>> {
    let entries = wire.entries.into_iter().map(|entry| {
        let place = entry.point.ok_or_else(|| malformed("the place of an entry"))?;
        decode_entry(Point { term: place.term, index: place.index }, entry.data)
    });
    Ok(AppendEntriesRequest {
        vote: vote(wire.vote)?,
        prev_log_id: wire.previous.map(log_id),
        entries: entries.collect::<io::Result<_>>()?,
        leader_commit: wire.committed.map(log_id),
    })
}

pub(super) fn appended(result: StreamAppendResult<Types>) -> wire::AppendResponse {
    use wire::append_response::Answer;
    let answer = match result {
        Ok(upto) => Answer::Matched(wire::Matched { upto: upto.as_ref().map(point) }),
        Err(StreamAppendError::Conflict(at)) => Answer::Conflict(point(&at)),
        Err(StreamAppendError::HigherVote(higher)) => Answer::Higher(ballot(&higher)),
    };
    wire::AppendResponse { answer: Some(answer) }
}

pub(super) fn appended_of(wire: wire::AppendResponse) -> io::Result<StreamAppendResult<Types>> {
    use wire::append_response::Answer;
    Ok(match wire.answer.ok_or_else(|| malformed("an answer to entries"))? {
        Answer::Matched(matched) => Ok(matched.upto.map(log_id)),
        Answer::Conflict(at) => Err(StreamAppendError::Conflict(log_id(at))),
        Answer::Higher(higher) => Err(StreamAppendError::HigherVote(vote(Some(higher))?)),
    })
}

pub(super) fn vote_request(
    header: wire::Header,
    request: &VoteRequest<Types>,
) -> wire::VoteRequest {
    wire::VoteRequest {
        header: Some(header),
        vote: Some(ballot(&request.vote)),
        last: request.last_log_id.as_ref().map(point),
        leadership_transfer: request.leadership_transfer,
    }
}

pub(super) fn vote_request_of(wire: wire::VoteRequest) -> io::Result<VoteRequest<Types>> {
    let mut request = VoteRequest::new(vote(wire.vote)?, wire.last.map(log_id));
    request.leadership_transfer = wire.leadership_transfer;
    Ok(request)
}

pub(super) fn vote_response(response: &VoteResponse<Types>) -> wire::VoteResponse {
    wire::VoteResponse {
        vote: Some(ballot(&response.vote)),
        granted: response.vote_granted,
        last: response.last_log_id.as_ref().map(point),
    }
}

pub(super) fn vote_response_of(wire: wire::VoteResponse) -> io::Result<VoteResponse<Types>> {
    Ok(VoteResponse::new(vote(wire.vote)?, wire.last.map(log_id), wire.granted))
}
