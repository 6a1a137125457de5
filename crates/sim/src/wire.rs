//! How groups of Raft reach one another: openraft's network, over links that lose and delay.
//!
//! A request that its sender no longer waits for still arrives, and one may arrive twice: that is what
//! networks do. What it finds is the group that is there then, if any.

use std::sync::Arc;
use std::time::Duration;

use bellwether_core::waist::Shard;
use bellwether_raft::codec::encode_position;
use bellwether_raft::machine::Machine;
use bellwether_raft::snapshot::{ShardCopy, ShardView, discard, meta_of};
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
use crate::node::Node;
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
        ask: impl Fn(Arc<Node>, Group) -> BoxFuture<'static, Option<T>> + Send + Sync + 'static,
    ) -> Result<T, Unreachable<Types>> {
        let (sender, answer) = oneshot::channel();
        let sender = Arc::new(Mutex::new(Some(sender)));
        let (from, shard, to) = (self.wire.from, self.wire.shard, self.to);
        let ask = Arc::new(ask);
        self.wire.world.send(what, (from, to), move |world| {
            let Some(node) = world.node(to) else { return };
            let Some(group) = node.group(shard) else { return };
            let (world, ask, sender) = (world.clone(), ask.clone(), sender.clone());
            node.clone().scope.spawn(async move {
                let Some(answer) = ask(node, group).await else { return };
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
        let answer = self.ask("append", option.hard_ttl(), move |_, group| {
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
        let answer = self.ask("vote", option.hard_ttl(), move |_, group| {
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
        let answer = self.ask("pre-vote", option.hard_ttl(), move |_, group| {
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
        let answer = self.ask("transfer", option.hard_ttl(), move |_, group| {
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
        let world = self.wire.world.clone();
        let sending = self.ask("copy", COPY_WITHIN, move |node, group| {
            let (world, meta, view) = (world.clone(), meta.clone(), view.clone());
            Box::pin(async move {
                let receiving = Receive { world, node, group };
                receiving.install(leader, &meta, &view).await.ok()
            })
        });
        // The first is looked at first: chance has no part in it.
        match select(Box::pin(cancel), Box::pin(sending)).await {
            Either::Left((closed, _)) => Err(StreamingError::Closed(closed)),
            Either::Right((answer, _)) => Ok(answer?),
        }
    }
}

/// A node to which a copy of a shard is sent.
struct Receive {
    world: Arc<World>,
    node: Arc<Node>,
    group: Group,
}

impl Receive {
    /// Receives a copy part by part, as the server does, and takes it in.
    async fn install(
        self,
        leader: Vote,
        meta: &SnapshotMeta,
        from: &ShardView,
    ) -> anyhow::Result<SnapshotResponse<Types>> {
        let (shard, mut chance) = (from.shard, self.world.fork());
        let mut parts = Vec::new();
        let rows = from.parts(|part| {
            parts.push(part);
            true
        })?;
        if !self.node.copying.lock().insert(shard) {
            self.world.saw("a copy was received while another one was");
        }
        let position = encode_position(meta.last_log_id, &meta.last_membership);
        let mut incoming = self.node.receiving.begin(shard, position)?;
        for part in parts {
            tokio::time::sleep(Duration::from_millis(chance.below(40))).await;
            incoming.add(part)?;
        }
        let path = incoming.end(rows)?;
        let meta = meta_of(&path)?;
        let snapshot = ShardCopy::File(path.clone());
        let snapshot = SnapshotOf::<Types, ShardCopy> { meta, snapshot };
        let answer = self.group.install_full_snapshot(leader, snapshot).await;
        self.node.copying.lock().remove(&shard);
        let answer = answer?;
        discard(&path)?;
        self.world.saw("a copy of a shard was taken in");
        Ok(answer)
    }
}
