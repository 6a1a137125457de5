//! The side that answers.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bellwether_core::waist::Shard;
use bellwether_protocol::peer::v1 as wire;
use bellwether_protocol::peer::v1::peers_server::{Peers, PeersServer};
use bellwether_protocol::peer::v1::snapshot_part::Part;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use openraft::Raft;
use openraft::async_runtime::WatchReceiver;
use openraft::raft::{TransferLeaderRequest, VoteResponse};
use openraft::type_config::alias::SnapshotOf;
use tonic::{Request, Response, Status, Streaming};

use super::convert::{append_of, appended, ballot, log_id, vote, vote_request_of, vote_response};
use super::silence::{Patience, counted};
use super::{Identity, MESSAGE_MAX};
use crate::engine::PROMISE;
use crate::machine::Machine;
use crate::member::Heard;
use crate::runtime::blocking;
use crate::snapshot::{Receiving, ShardCopy, discard, meta_of};
use crate::types::Types;

/// How long this node may take to write entries that it was sent.
const PATIENCE: Patience = Patience { quiet: Duration::from_secs(10), bytes_a_second: 256 * 1024 };

const STUCK: &str = "the log of this node does not take what it was sent";

/// The groups of a node.
pub trait Groups: Send + Sync + 'static {
    /// A group by number, if this node takes part in it, and where to note that its leader is heard.
    fn group(&self, number: Shard) -> Option<(Raft<Types, Machine>, Arc<Heard>)>;

    /// For how long the log has been writing what it writes, if it does.
    fn writing_for(&self) -> Option<Duration>;
}

/// What other nodes may ask of this one.
pub fn service(
    identity: Identity,
    groups: Arc<dyn Groups>,
    receiving: Receiving,
) -> PeersServer<Service> {
    let started = Instant::now();
    PeersServer::new(Service { identity, groups, receiving, started })
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(MESSAGE_MAX)
}

/// Reads or writes files where that holds nobody up.
async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    blocking(work).await?
}

/// A copy that was received. It is removed if nobody is there any more to hand it over.
struct Received {
    path: PathBuf,
    handed_over: bool,
}

impl Received {
    fn hand_over(mut self) -> PathBuf {
        self.handed_over = true;
        std::mem::take(&mut self.path)
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        if !self.handed_over {
            // If it cannot be removed now, it is taken in or removed at the next start.
            let _ = discard(&self.path);
        }
    }
}

/// Answers to a stream of entries.
type Answers = BoxStream<'static, Result<wire::AppendResponse, Status>>;

/// Answers other nodes.
#[derive(Clone)]
pub struct Service {
    identity: Identity,
    groups: Arc<dyn Groups>,
    receiving: Receiving,
    started: Instant,
}

fn malformed(error: io::Error) -> Status {
    Status::invalid_argument(error.to_string())
}

fn stopped(error: impl std::fmt::Display) -> Status {
    Status::unavailable(error.to_string())
}

impl Service {
    /// The group that is meant, if this is the node that is.
    fn group(&self, header: Option<wire::Header>) -> Result<Raft<Types, Machine>, Status> {
        self.replica(header).map(|(group, _)| group)
    }

    /// The same, and where to note that its leader is heard.
    fn replica(
        &self,
        header: Option<wire::Header>,
    ) -> Result<(Raft<Types, Machine>, Arc<Heard>), Status> {
        let header = header.ok_or_else(|| Status::invalid_argument("who asks?"))?;
        if header.cluster != self.identity.cluster {
            return Err(Status::permission_denied("this node belongs to another cluster"));
        }
        if header.to != self.identity.node {
            let text = format!("this is node {}, not {}", self.identity.node, header.to);
            return Err(Status::failed_precondition(text));
        }
        let number = Shard::try_from(header.group).ok();
        number
            .and_then(|number| self.groups.group(number))
            .ok_or_else(|| Status::not_found(format!("there is no group {}", header.group)))
    }

    /// Hands all entries of a stream to the group that is meant.
    async fn take_entries(
        self,
        mut requests: Streaming<wire::AppendRequest>,
    ) -> Result<Answers, Status> {
        let Some(mut first) = requests.message().await? else {
            return Ok(stream::empty().boxed());
        };
        let (group, heard) = self.replica(first.header.take())?;
        // What a group was sent and has not written stays in memory when a stream ends.
        if self.groups.writing_for().is_some_and(|writing| writing > PATIENCE.quiet) {
            return Err(stopped(STUCK));
        }
        let first = append_of(first).map_err(|error| {
            // The leader hears it as well, but it is this node that somebody has to do something about.
            tracing::error!(%error, "entries that another node has sent are not taken");
            malformed(error)
        })?;
        // A stream that breaks or makes no sense just ends; the leader starts another, and if that begins with
        // what makes no sense, it is told.
        let rest = requests
            .take_while(|request| std::future::ready(request.is_ok()))
            .filter_map(|request| async { request.ok() })
            .map(append_of)
            .take_while(|request| std::future::ready(request.is_ok()))
            .filter_map(|request| async { request.ok() });
        let input = stream::once(async { first }).chain(rest);
        let input = input.inspect(move |request| {
            heard.note(tokio::time::Instant::now());
            heard.arrival.hear(request.leader_commit.as_ref().map(|agreed| agreed.index));
        });
        let (input, asked) = counted(input.boxed());
        let answers = group.stream_append(input).map(|answer| match answer {
            Ok(result) => Ok(appended(result)),
            Err(fatal) => Err(stopped(fatal)),
        });
        let silent = || Err(stopped(STUCK));
        Ok(asked.answered(answers.boxed(), PATIENCE, silent).boxed())
    }

    /// A refusal where a vote could do harm. Just after a start, when this process cannot know whom it
    /// has promised before to count as leader for a while, and who answers without asking for as
    /// long. And from a replica without a log, or one that has yet to arrive: those that count have all that
    /// was agreed upon before they vote, so this one was removed, or is on its way to being one.
    fn may_not_vote(
        &self,
        group: &Raft<Types, Machine>,
        heard: &Heard,
    ) -> Option<VoteResponse<Types>> {
        let metrics = group.metrics();
        let metrics = metrics.borrow_watched();
        let too_early = self.started.elapsed() < PROMISE;
        (too_early || metrics.last_log_index.is_none() || heard.arrival.is_awaited())
            .then(|| VoteResponse::new(metrics.vote, None, false))
    }
}

#[tonic::async_trait]
impl Peers for Service {
    type AppendStream = Answers;

    async fn append(
        &self,
        request: Request<Streaming<wire::AppendRequest>>,
    ) -> Result<Response<Answers>, Status> {
        // Whoever asks waits for this response no longer than for a heartbeat, and the first message
        // may have an entry that takes longer to come. So it is read, or refused, in the stream.
        let answers = stream::once(self.clone().take_entries(request.into_inner())).try_flatten();
        Ok(Response::new(answers.boxed()))
    }

    async fn vote(
        &self,
        request: Request<wire::VoteRequest>,
    ) -> Result<Response<wire::VoteResponse>, Status> {
        let mut request = request.into_inner();
        let (group, heard) = self.replica(request.header.take())?;
        if let Some(refusal) = self.may_not_vote(&group, &heard) {
            return Ok(Response::new(vote_response(&refusal)));
        }
        let request = vote_request_of(request).map_err(malformed)?;
        let answer = group.vote(request).await.map_err(stopped)?;
        Ok(Response::new(vote_response(&answer)))
    }

    async fn pre_vote(
        &self,
        request: Request<wire::VoteRequest>,
    ) -> Result<Response<wire::VoteResponse>, Status> {
        let mut request = request.into_inner();
        let (group, heard) = self.replica(request.header.take())?;
        if let Some(refusal) = self.may_not_vote(&group, &heard) {
            return Ok(Response::new(vote_response(&refusal)));
        }
        let request = vote_request_of(request).map_err(malformed)?;
        let answer = group.pre_vote(request).await.map_err(stopped)?;
        Ok(Response::new(vote_response(&answer)))
    }

    async fn transfer_leader(
        &self,
        request: Request<wire::TransferLeaderRequest>,
    ) -> Result<Response<wire::TransferLeaderResponse>, Status> {
        let mut request = request.into_inner();
        let group = self.group(request.header.take())?;
        let from = vote(request.from_leader).map_err(malformed)?;
        let last = request.last.map(log_id);
        let request = TransferLeaderRequest::new(from, request.to_node, last);
        let answer = group.handle_transfer_leader(request).await.map_err(stopped)?;
        let refused = answer.err().map(|error| error.to_string()).unwrap_or_default();
        Ok(Response::new(wire::TransferLeaderResponse { refused }))
    }

    async fn snapshot(
        &self,
        request: Request<Streaming<wire::SnapshotPart>>,
    ) -> Result<Response<wire::SnapshotResponse>, Status> {
        let mut parts = request.into_inner();
        let first = parts.message().await?.and_then(|part| part.part);
        let Some(Part::Head(head)) = first else {
            return Err(Status::invalid_argument("a copy begins with its head"));
        };
        let number = head.header.as_ref().map_or(0, |header| header.group);
        let (group, heard) = self.replica(head.header)?;
        let shard = Shard::try_from(number).map_err(|_| Status::not_found("no such group"))?;
        let from = vote(head.vote).map_err(malformed)?;
        let receiving = self.receiving.clone();
        let begun = on_disk(move || receiving.begin(shard, head.position));
        let mut incoming = begun.await.map_err(stopped)?;
        let (received, meta) = loop {
            match parts.message().await?.and_then(|part| part.part) {
                Some(Part::Rows(rows)) => {
                    let added = on_disk(move || incoming.add(rows).map(|()| incoming));
                    incoming = added.await.map_err(malformed)?;
                }
                Some(Part::End(end)) => {
                    let ended = on_disk(move || {
                        let path = incoming.end(end.rows)?;
                        let received = Received { path, handed_over: false };
                        let meta = meta_of(&received.path)?;
                        Ok((received, meta))
                    });
                    break ended.await.map_err(malformed)?;
                }
                Some(Part::Head(_)) | None => {
                    return Err(Status::invalid_argument("the copy broke off"));
                }
            }
        };
        let path = received.hand_over();
        heard.note(tokio::time::Instant::now());
        let snapshot = ShardCopy::File(path.clone());
        let snapshot = SnapshotOf::<Types, ShardCopy> { meta, snapshot };
        // If that fails, some of it may have been taken in: the rest is at the next start.
        let answer = group.install_full_snapshot(from, snapshot).await.map_err(stopped)?;
        // One that was not wanted any more must not be found then.
        on_disk(move || discard(&path)).await.map_err(stopped)?;
        Ok(Response::new(wire::SnapshotResponse { vote: Some(ballot(&answer.vote)) }))
    }
}
