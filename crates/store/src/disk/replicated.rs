//! Writes that were decided and made durable elsewhere: by a replicated log.
//!
//! The engine is then what the log has been applied to. Every replica applies the same things in the
//! same order, and terms are checked here as ever, so all replicas refuse the same batches.

use bellwether_core::waist::{Batch, Op, Shard, StoreError, Term};
use bytes::Bytes;

use crate::rules::{batch_bytes, ops_bytes};

/// Something that was decided elsewhere.
#[derive(Clone, Debug)]
pub enum Replicated {
    /// Nothing but that the log went on.
    Nothing,
    /// A leader takes the shard over.
    Acquire,
    /// A batch of writes.
    Write(Batch),
    /// Rows of a copy of the shard, term and all: they are written as they are.
    Load(Vec<Op>),
}

/// What became of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Applied {
    /// It was done.
    Done,
    /// The shard was taken over, with this term.
    Acquired(Term),
    /// The batch's term was void, and nothing was changed.
    Fenced {
        /// The term that is valid.
        newest: Term,
    },
}

/// Called once with what became of it.
pub type AppliedDone = Box<dyn FnOnce(Result<Applied, StoreError>) + Send>;

/// Where it is stored how far a shard's log has been applied, in `Family::Meta`.
#[must_use]
pub fn position_key(shard: Shard) -> Bytes {
    let mut key = Vec::with_capacity(11);
    key.extend_from_slice(&shard.to_be_bytes());
    key.extend_from_slice(b"\0position");
    Bytes::from(key)
}

/// A request to apply something.
pub(super) struct Apply {
    pub shard: Shard,
    pub what: Replicated,
    pub position: Bytes,
    pub done: AppliedDone,
}

impl Apply {
    pub fn bytes(&self) -> usize {
        let what = match &self.what {
            Replicated::Write(batch) => batch_bytes(batch),
            Replicated::Load(ops) => ops_bytes(ops),
            Replicated::Nothing | Replicated::Acquire => 64,
        };
        what + self.position.len()
    }

    pub fn ops(&self) -> usize {
        match &self.what {
            Replicated::Write(batch) => batch.ops.len() + 1,
            Replicated::Load(ops) => ops.len() + 1,
            Replicated::Nothing | Replicated::Acquire => 1,
        }
    }
}
