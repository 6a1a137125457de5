//! What is asked of a shard about a batch.

use bellwether_core::id::BatchId;
use bellwether_core::record;
use bellwether_core::turn::BatchInput;
use bellwether_protocol::node::v1::{self, batch::What, batch_end::Completion};

use super::{WireError, all_stored, encode_all, job, read_stored, required};

/// An input about a batch as a message.
pub(super) fn encode(batch: BatchId, input: &BatchInput) -> v1::Batch {
    let what = match input {
        BatchInput::Begin { row } => What::Begin(record::encode(row.as_ref())),
        BatchInput::Receive { chunk, items } => {
            What::Receive(v1::BatchReceive { chunk: Some(*chunk), items: encode_all(items) })
        }
        BatchInput::Accept { actor, hash } => {
            What::Accept(v1::BatchAccept { actor: Some(actor.clone()), hash: Some(hash.clone()) })
        }
        BatchInput::Discard { only_if_stale } => {
            What::Discard(v1::BatchDiscard { only_if_stale: Some(*only_if_stale) })
        }
        BatchInput::Expanded { upto } => What::Expanded(v1::BatchExpanded { upto: Some(*upto) }),
        BatchInput::Cancel { actor, note } => {
            What::Cancel(v1::BatchCancel { actor: Some(actor.clone()), note: Some(note.clone()) })
        }
        BatchInput::GiveUp { made } => What::GiveUp(v1::BatchGiveUp { made: made.clone() }),
        BatchInput::End { completion } => {
            let completion = match completion {
                None => Completion::None(v1::Nothing {}),
                Some(Ok(run)) => Completion::Run(*run),
                Some(Err(error)) => Completion::Error(error.clone()),
            };
            What::End(v1::BatchEnd { completion: Some(completion) })
        }
        BatchInput::PartsTold => What::PartsTold(v1::Nothing {}),
        BatchInput::Members { chunk, definitions } => What::Members(v1::BatchMembers {
            chunk: Some(*chunk),
            definitions: encode_all(definitions),
        }),
        BatchInput::CancelMembers { actor } => {
            What::CancelMembers(v1::BatchCancelMembers { actor: Some(actor.clone()) })
        }
        BatchInput::PartEnd { keep_ms } => {
            What::PartEnd(v1::BatchPartEnd { keep_ms: Some(*keep_ms) })
        }
        BatchInput::Complete { job } => What::Complete(v1::BatchComplete { job: Some(job.0) }),
    };
    v1::Batch { batch: Some(batch.0), what: Some(what) }
}

/// The batch, and what is asked about it.
pub(super) fn decode(asked: v1::Batch) -> Result<(BatchId, BatchInput), WireError> {
    let batch = required("Batch.batch", asked.batch).map(BatchId)?;
    let input = match asked.what.ok_or(WireError::UnknownKind("Batch.what"))? {
        What::Begin(row) => BatchInput::Begin { row: Box::new(read_stored("Batch.begin", row)?) },
        What::Receive(receive) => BatchInput::Receive {
            chunk: required("BatchReceive.chunk", receive.chunk)?,
            items: all_stored("BatchReceive.items", receive.items)?,
        },
        What::Accept(accept) => BatchInput::Accept {
            actor: required("BatchAccept.actor", accept.actor)?,
            hash: required("BatchAccept.hash", accept.hash)?,
        },
        What::Discard(discard) => BatchInput::Discard {
            only_if_stale: required("BatchDiscard.only_if_stale", discard.only_if_stale)?,
        },
        What::Expanded(expanded) => {
            BatchInput::Expanded { upto: required("BatchExpanded.upto", expanded.upto)? }
        }
        What::Cancel(cancel) => BatchInput::Cancel {
            actor: required("BatchCancel.actor", cancel.actor)?,
            note: required("BatchCancel.note", cancel.note)?,
        },
        What::GiveUp(give_up) => BatchInput::GiveUp { made: give_up.made },
        What::End(end) => {
            let completion = end.completion.ok_or(WireError::UnknownKind("BatchEnd.completion"))?;
            let completion = match completion {
                Completion::None(_) => None,
                Completion::Run(run) => Some(Ok(run)),
                Completion::Error(error) => Some(Err(error)),
            };
            BatchInput::End { completion }
        }
        What::PartsTold(_) => BatchInput::PartsTold,
        What::Members(members) => BatchInput::Members {
            chunk: required("BatchMembers.chunk", members.chunk)?,
            definitions: all_stored("BatchMembers.definitions", members.definitions)?,
        },
        What::CancelMembers(cancel) => {
            BatchInput::CancelMembers { actor: required("BatchCancelMembers.actor", cancel.actor)? }
        }
        What::PartEnd(end) => {
            BatchInput::PartEnd { keep_ms: required("BatchPartEnd.keep_ms", end.keep_ms)? }
        }
        What::Complete(complete) => {
            BatchInput::Complete { job: job("BatchComplete.job", complete.job)? }
        }
    };
    Ok((batch, input))
}
