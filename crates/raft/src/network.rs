//! How groups reach their replicas on other nodes.

use std::io;

use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::type_config::alias::SnapshotOf;
use openraft::{AnyError, OptionalSend};

use crate::snapshot::ShardCopy;
use crate::types::{Peer, Types, Vote};

/// A node that is alone: there is nobody to reach.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl RaftNetworkFactory<Types> for Alone {
    type Network = Alone;

    async fn new_client(&mut self, _: u64, _: &Peer) -> Alone {
        Alone
    }
}

fn nobody() -> Unreachable<Types> {
    Unreachable::new(&AnyError::new(&io::Error::other("this node is alone")))
}

impl RaftNetworkV2<Types> for Alone {
    type SnapshotData = ShardCopy;

    async fn append_entries(
        &mut self,
        _: AppendEntriesRequest<Types>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        Err(RPCError::Unreachable(nobody()))
    }

    async fn vote(
        &mut self,
        _: VoteRequest<Types>,
        _: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        Err(RPCError::Unreachable(nobody()))
    }

    async fn full_snapshot(
        &mut self,
        _: Vote,
        _: SnapshotOf<Types, ShardCopy>,
        _: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        Err(StreamingError::Unreachable(nobody()))
    }
}
