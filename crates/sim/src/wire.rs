//! How groups of Raft reach one another: openraft's network, over links that lose and delay.
//!
//! A request that its sender no longer waits for still arrives, and one may arrive twice: that is what
//! networks do. What it finds is the group that is there then, if any.

use std::sync::Arc;
use std::time::Duration;

use bellwether_core::waist::Shard;
use bellwether_raft::machine::Machine;
use bellwether_raft::snapshot::{ShardCopy, ShardView};
use bellwether_raft::types::{Peer, SnapshotMeta, Types, Vote};
use bellwether_store::MemoryTables;
use futures::future::{BoxFuture, Either, select};
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::type_config::alias::SnapshotOf;
use openraft::{AnyError, OptionalSend, Raft};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::links::Place;
use crate::world::World;

/// A replica of a shard.
pub type Group = Raft<Types, Machine<MemoryTables>>;

/// The network as one group of one node sees it.
#[derive(Clone)]
pub struct Wire {
    /// The world.
    pub world: Arc<World>,
    /// The node.
    pub from: Place,
    /// The group.
    pub shard: Shard,
}

impl RaftNetworkFactory<Types> for Wire {
    type Network = Line;

    async fn new_client(&mut self, target: u64, _: &Peer) -> Line {
        Line { wire: self.clone(), to: target }
    }
}

/// The way from one group to one other node.
pub struct Line {
    wire: Wire,
    to: Place,
}

fn unreachable(text: &'static str) -> Unreachable<Types> {
    Unreachable::new(&AnyError::error(text))
}

/// How long a copy of a shard may take.
const COPY_WITHIN: Duration = Duration::from_secs(10);

impl Line {
    /// Asks the group at the other end, and waits for its answer, but not for ever.
    async fn ask<T: Send + 'static>(
        &self,
        what: &'static str,
        within: Duration,
        ask: impl Fn(Group) -> BoxFuture<'static, Option<T>> + Send + Sync + 'static,
    ) -> Result<T, Unreachable<Types>> {
        let (sender, answer) = oneshot::channel();
        let sender = Arc::new(Mutex::new(Some(sender)));
        let (from, shard, to) = (self.wire.from, self.wire.shard, self.to);
        let ask = Arc::new(ask);
        self.wire.world.send(what, (from, to), move |world| {
            let Some(node) = world.node(to) else { return };
            let Some(group) = node.group(shard) else { return };
            let (world, ask, sender) = (world.clone(), ask.clone(), sender.clone());
            node.scope.spawn(async move {
                let Some(answer) = ask(group).await else { return };
                let Some(after) = world.links.fate(to, from).after else { return };
                tokio::spawn(async move {
                    tokio::time::sleep(after).await;
                    world.trace.note(what, [to, from, 1]);
                    if let Some(sender) = sender.lock().take() {
                        let _ = sender.send(answer);
                    }
                });
            });
        });
        match tokio::time::timeout(within, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            _ => Err(unreachable("no answer in time")),
        }
    }
}

impl RaftNetworkV2<Types> for Line {
    type SnapshotData = ShardCopy;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        let answer = self.ask("append", option.hard_ttl(), move |group| {
            let request = request.clone();
            Box::pin(async move { group.append_entries(request).await.ok() })
        });
        Ok(answer.await?)
    }

    async fn vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let answer = self.ask("vote", option.hard_ttl(), move |group| {
            let request = request.clone();
            Box::pin(async move { group.vote(request).await.ok() })
        });
        Ok(answer.await?)
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let answer = self.ask("pre-vote", option.hard_ttl(), move |group| {
            let request = request.clone();
            Box::pin(async move { group.pre_vote(request).await.ok() })
        });
        Ok(answer.await?)
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RPCError<Types>> {
        let answer = self.ask("transfer", option.hard_ttl(), move |group| {
            let request = request.clone();
            Box::pin(async move { group.handle_transfer_leader(request).await.ok() })
        });
        Ok(answer.await?)
    }

    async fn full_snapshot(
        &mut self,
        leader: Vote,
        snapshot: SnapshotOf<Types, ShardCopy>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let ShardCopy::View(view) = snapshot.snapshot else {
            return Err(unreachable("a copy cannot be passed on").into());
        };
        let meta = snapshot.meta;
        let sending = self.ask("copy", COPY_WITHIN, move |group| {
            install(group, leader, meta.clone(), view.clone())
        });
        // The first is looked at first: chance has no part in it.
        match select(Box::pin(cancel), Box::pin(sending)).await {
            Either::Left((closed, _)) => Err(StreamingError::Closed(closed)),
            Either::Right((answer, _)) => Ok(answer?),
        }
    }
}

fn install(
    group: Group,
    leader: Vote,
    meta: SnapshotMeta,
    view: ShardView,
) -> BoxFuture<'static, Option<SnapshotResponse<Types>>> {
    Box::pin(async move {
        let snapshot = ShardCopy::View(view);
        let snapshot = SnapshotOf::<Types, ShardCopy> { meta, snapshot };
        group.install_full_snapshot(leader, snapshot).await.ok()
    })
}
