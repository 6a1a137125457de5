//! Tables that a replicated log is applied to.

use std::sync::Arc;

use bellwether_core::waist::{Shard, StoreError, View};
use bytes::Bytes;

use crate::disk::{AppliedDone, DiskEngine, Replicated};
use crate::engine::Engine;

/// What a replica of a shard needs of a store: the log is durable, so the tables need not be, until
/// somebody asks for it.
pub trait Tables: Send + Sync + 'static {
    /// Everything that has been applied.
    fn view(&self) -> Arc<dyn View>;

    /// Applies something that was decided and made durable elsewhere, and stores `position` with it:
    /// how far that has come. `done` is called once it is in the view, in order for each shard.
    fn apply(&self, shard: Shard, what: Replicated, position: Bytes, done: AppliedDone);

    /// Makes everything durable that anybody was told of before this was called.
    ///
    /// # Errors
    /// When it could not be made durable.
    fn persist(&self) -> Result<(), StoreError>;
}

impl Tables for DiskEngine {
    fn view(&self) -> Arc<dyn View> {
        Engine::view(self)
    }

    fn apply(&self, shard: Shard, what: Replicated, position: Bytes, done: AppliedDone) {
        DiskEngine::apply(self, shard, what, position, done);
    }

    fn persist(&self) -> Result<(), StoreError> {
        DiskEngine::persist(self)
    }
}
