//! Bringing what shards are asked to the nodes that lead them.

use std::sync::Arc;
use std::time::Duration;

use bellwether_core::turn::{Input, Reply, Report};
use bellwether_core::waist::Shard;
use bellwether_protocol::node::v1;
use bellwether_protocol::node::v1::nodes_client::NodesClient;
use bellwether_raft::net::Way;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::oneshot;

use super::Cluster;
use super::wire::ask::{Answer, decode_answer, encode_answer};
use super::wire::input;
use crate::shard::{Afar, Failure, Item};

/// How long this node may take to catch up with what was decided elsewhere.
const SEEN_WITHIN: Duration = Duration::from_secs(5);
/// How long a leader may take for what it was brought.
const WITHIN: Duration = Duration::from_secs(15);
/// Bytes that are brought at once, unless a single item is larger: messages have a limit.
const BYTES_MAX: usize = 32 * 1024 * 1024;

/// Brings things to the nodes of a cluster.
pub struct Passing(pub Arc<Cluster>);

impl Afar for Passing {
    fn bring(&self, shard: Shard, items: Vec<Item>) -> BoxFuture<'_, Vec<Item>> {
        Cluster::bring(&self.0, shard, items).boxed()
    }
}

/// How an item travels: reports one by one, each with its own answer.
fn inputs(item: &Item) -> Vec<Input> {
    match item {
        Item::Request(input, _) => vec![(**input).clone()],
        Item::Reports(reports, _) => reports.iter().cloned().map(Input::Report).collect(),
        Item::Lost(run, token, detail) => {
            vec![Input::Lost { run: *run, token: *token, detail: detail.clone() }]
        }
    }
}

impl Cluster {
    async fn bring(self: &Arc<Self>, shard: Shard, mut items: Vec<Item>) -> Vec<Item> {
        let Some(leader) = self.leader(shard).filter(|leader| *leader != self.identity.node) else {
            return items;
        };
        let Ok(way) = self.to(leader) else { return items };
        let mut counts = Vec::with_capacity(items.len());
        let (mut messages, mut bytes) = (Vec::new(), 0);
        for item in &items {
            let encoded: Result<Vec<_>, _> = inputs(item).iter().map(input::encode).collect();
            let encoded = match encoded {
                Ok(encoded) => encoded,
                Err(error) => {
                    tracing::error!(%error, "a request cannot be sent, which is a bug");
                    return Vec::new();
                }
            };
            bytes += encoded.iter().map(prost::Message::encoded_len).sum::<usize>();
            if bytes > BYTES_MAX && !counts.is_empty() {
                break;
            }
            counts.push(encoded.len());
            messages.extend(encoded);
        }
        let later = items.split_off(counts.len());
        let mut left = self.bring_all(shard, leader, way, items, counts, messages).await;
        left.extend(later);
        left
    }

    /// Brings items to a leader, each as so many messages.
    async fn bring_all(
        self: &Arc<Self>,
        shard: Shard,
        leader: u64,
        mut way: NodesClient<Way>,
        items: Vec<Item>,
        counts: Vec<usize>,
        messages: Vec<v1::Input>,
    ) -> Vec<Item> {
        let request = v1::PassRequest { shard: Some(u32::from(shard)), inputs: messages };
        let answered = tokio::time::timeout(WITHIN, way.pass(request)).await;
        let (answers, seen_at) = match answered {
            Ok(Ok(answer)) => {
                let answer = answer.into_inner();
                (answer.answers, answer.seen_at)
            }
            Ok(Err(status)) if never_arrived(&status) => return items,
            Ok(Err(status)) => {
                tracing::debug!(shard, leader, %status, "the leader of a shard did not answer");
                (Vec::new(), None)
            }
            Err(_) => (Vec::new(), None),
        };
        let answers: Vec<Option<Answer>> =
            answers.into_iter().map(|answer| decode_answer(answer).ok()).collect();
        let mut answers = answers.into_iter();
        let (mut left, mut decided) = (Vec::new(), Vec::new());
        for (item, count) in items.into_iter().zip(counts) {
            let of_item: Vec<Option<Answer>> =
                (0..count).map(|_| answers.next().flatten()).collect();
            // One with nothing in it is there to hear that what was said before is stored.
            match item {
                Item::Reports(reports, stored) if reports.is_empty() && !left.is_empty() => {
                    left.push(Item::Reports(reports, stored));
                }
                item => left.extend(settle(shard, item, of_item, &mut decided)),
            }
        }
        if !decided.is_empty() {
            self.clone().answer(shard, seen_at, decided);
        }
        left
    }

    /// Passes answers on once this node shows what was decided elsewhere, so that whoever asked for
    /// it sees it here. What is to be brought next does not wait for that.
    fn answer(self: Arc<Self>, shard: Shard, seen_at: Option<u64>, decided: Vec<Decided>) {
        tokio::spawn(async move {
            if let Some(index) = seen_at
                && tokio::time::timeout(SEEN_WITHIN, self.reach(shard, index)).await.is_err()
            {
                tracing::debug!(shard, "this node is behind");
            }
            for (answer, result) in decided {
                let _ = answer.send(result);
            }
        });
    }

    /// Decides what another node has brought, if this one leads the shard.
    pub(super) async fn take(&self, shard: Shard, inputs: Vec<Input>) -> Vec<v1::AskAnswer> {
        let Some(handle) = self.shards.get(usize::from(shard)) else { return Vec::new() };
        let not_leader = || Answer::NotLeader { leader: self.leader(shard) };
        let mut waiting = Vec::with_capacity(inputs.len());
        let mut inputs = inputs.into_iter().peekable();
        // Once something was not taken nothing is: should the shard begin to act just then, what is
        // said again would come after what was said later.
        let mut open = true;
        while let Some(input) = inputs.next() {
            waiting.push(match input {
                Input::Report(first) => {
                    let mut reports: Vec<Report> = vec![first];
                    while let Some(Input::Report(next)) =
                        inputs.next_if(|next| matches!(next, Input::Report(_)))
                    {
                        reports.push(next);
                    }
                    let (sender, stored) = oneshot::channel();
                    let count = reports.len();
                    open = open && handle.pass_here(Item::Reports(reports, Some(sender))).is_ok();
                    Waiting::Reports(count, open.then_some(stored))
                }
                Input::Lost { run, token, detail } => {
                    // Whoever says it has forgotten the run by then: it must be stored, not just
                    // heard, or the next leader is told that the run never arrived.
                    let (sender, stored) = oneshot::channel();
                    open = open
                        && handle.pass_here(Item::Lost(run, token, detail)).is_ok()
                        && handle.pass_here(Item::Reports(Vec::new(), Some(sender))).is_ok();
                    Waiting::Reports(1, open.then_some(stored))
                }
                input => {
                    let (sender, answer) = oneshot::channel();
                    open = open && handle.take_request(Box::new(input), sender);
                    Waiting::Request(open.then_some(answer))
                }
            });
        }
        let mut answers = Vec::new();
        for waits in waiting {
            match waits {
                Waiting::Reports(count, stored) => {
                    let stored = match stored {
                        Some(stored) => stored.await.is_ok(),
                        None => false,
                    };
                    let answer = if stored { Answer::Reply(Reply::Done) } else { not_leader() };
                    answers.extend(std::iter::repeat_n(encode_answer(&answer), count));
                }
                Waiting::Request(None) => answers.push(encode_answer(&not_leader())),
                Waiting::Request(Some(answer)) => {
                    let answer = answer.await.unwrap_or(Err(Failure::Stopped));
                    answers.push(encode_answer(&Answer::from(answer)));
                }
            }
        }
        answers
    }
}

/// What was taken and waits to be durable.
enum Waiting {
    Reports(usize, Option<oneshot::Receiver<()>>),
    Request(Option<oneshot::Receiver<Result<Reply, Failure>>>),
}

/// Whether a request has certainly not been seen by anybody.
fn never_arrived(status: &tonic::Status) -> bool {
    // What could not be sent because there is no connection says so; anything else may have been.
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            return io.kind() == std::io::ErrorKind::ConnectionRefused;
        }
        source = error.source();
    }
    // Whoever was there was not the one it was for, or did not let it in.
    matches!(status.code(), tonic::Code::Unauthenticated | tonic::Code::FailedPrecondition)
}

/// A request that was decided, and how.
type Decided = (oneshot::Sender<Result<Reply, Failure>>, Result<Reply, Failure>);

/// Sorts out what was decided; what was not comes back.
fn settle(
    shard: Shard,
    item: Item,
    answers: Vec<Option<Answer>>,
    decided: &mut Vec<Decided>,
) -> Option<Item> {
    match item {
        Item::Request(input, answer) => {
            let result = match answers.into_iter().next().flatten() {
                Some(Answer::NotLeader { .. }) => return Some(Item::Request(input, answer)),
                Some(Answer::Reply(reply)) => Ok(reply),
                Some(Answer::Rejected(rejection)) => Err(Failure::Rejected(rejection)),
                Some(Answer::Overloaded) => Err(Failure::Overloaded),
                Some(Answer::Stopped | Answer::StoreFailed(_)) | None => {
                    Err(Failure::Unknown(shard))
                }
            };
            decided.push((answer, result));
            None
        }
        // Saying it twice does no harm, so whatever is not known to be stored is said again.
        Item::Reports(reports, stored) => {
            let done = |answer: &Option<Answer>| matches!(answer, Some(Answer::Reply(_)));
            if !answers.iter().all(done) {
                return Some(Item::Reports(reports, stored));
            }
            if let Some(stored) = stored {
                let _ = stored.send(());
            }
            None
        }
        Item::Lost(run, token, detail) => match answers.into_iter().next().flatten() {
            Some(Answer::Reply(_)) => None,
            _ => Some(Item::Lost(run, token, detail)),
        },
    }
}
