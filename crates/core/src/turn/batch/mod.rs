//! What shards do about batches; what is to be done is decided in [`crate::batch`].
//!
//! A batch has a *home* shard, which keeps its record and the items that are yet to become jobs,
//! and a *part* in every shard that has members of it. A part is changed in the same commit as the
//! runs it counts, so its figures are never wrong, whatever dies when. Everything that concerns
//! several shards is asked of each in turn, and may be asked again after a crash: what has been
//! done is not done twice.

mod count;
mod home;
mod part;

use bytes::Bytes;

use super::{Halt, Rejection, RejectionKind, Reply, Turn};
use crate::id::{BatchId, JobId};
use crate::record::{BatchRow, Definition, Item};

/// What can be asked of a shard about a batch.
#[derive(Clone, PartialEq, Debug)]
pub enum BatchInput {
    /// Home: begin to receive a batch, or find that there is one with its key.
    Begin {
        /// What is known of it.
        row: Box<BatchRow>,
    },
    /// Home: some more of its items; none if whoever sends them is slow but still there.
    Receive {
        /// Number of the chunk, from 0.
        chunk: u32,
        /// The items.
        items: Vec<Item>,
    },
    /// Home: all items are there. From now on the batch is not lost.
    Accept {
        /// Who asks.
        actor: String,
        /// Hash of everything that was received.
        hash: Bytes,
    },
    /// Home: throw away what has been received so far: a bounded step.
    Discard {
        /// Only if nothing has come for so long that nobody can be sending any more.
        only_if_stale: bool,
    },
    /// Home: chunks below this have become jobs.
    Expanded {
        /// The first that has not.
        upto: u32,
    },
    /// Home: cancel the batch.
    Cancel {
        /// Who asks.
        actor: String,
        /// Why.
        note: String,
    },
    /// Home: give up the items that are left: a bounded step.
    GiveUp {
        /// Chunks that are left, but have become jobs.
        made: Vec<u32>,
    },
    /// Home: all is over.
    End {
        /// The run that was triggered, or why it could not be.
        completion: Option<Result<u32, String>>,
    },
    /// Home: all shards know that it is over.
    PartsTold,
    /// Any shard: make members.
    Members {
        /// Number of the chunk.
        chunk: u32,
        /// The members.
        definitions: Vec<Definition>,
    },
    /// Any shard: make no more members, and cancel those that are there: a bounded step.
    CancelMembers {
        /// Who asks.
        actor: String,
    },
    /// Any shard: the batch is over, and to be forgotten after so long.
    PartEnd {
        /// For how long it is remembered.
        keep_ms: u64,
    },
    /// The shard of a job: trigger it, once, because the batch is over.
    Complete {
        /// The job.
        job: JobId,
    },
}

impl Turn<'_> {
    pub(super) fn batch(&mut self, id: BatchId, input: BatchInput) -> Result<Reply, Halt> {
        match input {
            BatchInput::Begin { row } => self.begin_batch(*row),
            BatchInput::Receive { chunk, items } => self.receive_items(id, chunk, items),
            BatchInput::Accept { actor, hash } => self.accept_batch(id, &actor, hash),
            BatchInput::Discard { only_if_stale } => self.discard_batch(id, only_if_stale),
            BatchInput::Expanded { upto } => self.expanded(id, upto),
            BatchInput::Cancel { actor, note } => self.cancel_batch(id, &actor, &note),
            BatchInput::GiveUp { made } => self.give_up_items(id, &made),
            BatchInput::End { completion } => self.end_batch(id, completion),
            BatchInput::PartsTold => self.parts_told(id),
            BatchInput::Members { chunk, definitions } => self.members(id, chunk, definitions),
            BatchInput::CancelMembers { actor } => self.cancel_members(id, &actor),
            BatchInput::PartEnd { keep_ms } => self.end_part(id, keep_ms),
            BatchInput::Complete { job } => self.complete(id, job),
        }
    }
}

impl Rejection {
    /// There is no such batch.
    #[must_use]
    pub fn no_batch() -> Rejection {
        Rejection {
            kind: RejectionKind::NotFound,
            code: "batch_not_found".into(),
            message: "there is no such batch".to_owned(),
        }
    }
}
