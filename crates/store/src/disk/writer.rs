//! The one thread that writes: it gathers what all shards submitted, commits it with one sync,
//! publishes a new view, and then calls back.
//!
//! ```text
//! take ─► check terms ─► journal + fdatasync ─► memtables ─► publish view ─► call back
//!   ▲                                                                           │
//!   └──────────────── meanwhile the queue gathers the next commit ──────────────┘
//! ```
//! Terms are authoritative here: no other thread raises one or writes a row. A commit that fails
//! ends the engine, because after a failed sync nobody knows what the disk holds.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use bellwether_core::waist::{Batch, Family, Op, Shard, StoreError, Term};
use bytes::Bytes;
use crossbeam_channel::Sender;
use fjall::OwnedWriteBatch;

use super::database::write_error;
use super::queue::Request;
use super::replicated::{Applied, Apply, Replicated, position_key};
use super::shared::Shared;
use super::upkeep::Task;
use super::view::{DiskView, read_error};
use crate::engine::Done;
use crate::rules::{batch_bytes, check_fence, decode_term, encode_term, meta_term_key, ops_bytes};

/// An answer that waits for the commit.
pub(super) enum Reply {
    Write(Done, Result<(), StoreError>),
    Acquire(Sender<Result<Term, StoreError>>, Term),
    Apply(super::replicated::AppliedDone, Applied),
}

impl Reply {
    /// Answers, given the outcome of the commit. A callback that panics must not stop the
    /// writer, on which all shards depend.
    pub(super) fn settle(self, committed: Result<(), StoreError>) {
        let call = || match self {
            Reply::Write(done, verdict) => done(committed.and(verdict)),
            Reply::Acquire(sender, term) => {
                // Nobody waits any more if this fails.
                let _ = sender.send(committed.map(|()| term));
            }
            Reply::Apply(done, applied) => done(committed.map(|()| applied)),
        };
        if catch_unwind(AssertUnwindSafe(call)).is_err() {
            tracing::error!("a callback of the store panicked");
        }
    }
}

/// A key and its new value, or none if it is deleted.
struct Change {
    family: Family,
    key: Bytes,
    value: Option<Bytes>,
}

/// What becomes durable together.
struct Commit {
    rows: Vec<Change>,
    replies: Vec<Reply>,
    drops: Vec<Task>,
    batches: u64,
    fenced: u64,
    bytes: u64,
}

/// The writer's own state.
pub(super) struct Writer {
    shared: Arc<Shared>,
    upkeep: Sender<Task>,
    terms: HashMap<Shard, Term>,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, upkeep: Sender<Task>) -> Self {
        Self { shared, upkeep, terms: HashMap::new() }
    }

    /// Runs until the queue is closed and empty, or the engine fails.
    pub(super) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let outcome = catch_unwind(AssertUnwindSafe(|| self.work()));
        let error = match outcome {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(_) => StoreError::Failed("the writer of the store panicked".to_owned()),
        };
        shared.fail(&error);
    }

    fn work(&mut self) -> Result<(), StoreError> {
        let (ops_max, bytes_max) = self.shared.commit_limits();
        while let Some(requests) = self.shared.queue.take(ops_max, bytes_max) {
            let commit = self.gather(requests)?;
            self.write(commit)?;
        }
        Ok(())
    }

    /// Checks terms and builds one write batch of everything that passes.
    fn gather(&mut self, requests: Vec<Request>) -> Result<Commit, StoreError> {
        let mut commit = Commit {
            rows: Vec::new(),
            replies: Vec::with_capacity(requests.len()),
            drops: Vec::new(),
            batches: 0,
            fenced: 0,
            bytes: 0,
        };
        let mut requests = requests.into_iter();
        while let Some(request) = requests.next() {
            let gathered = match request {
                Request::Write(batch, done) => self.gather_write(&mut commit, batch, done),
                Request::Acquire(shard, sender) => self.gather_acquire(&mut commit, shard, sender),
                Request::Apply(apply) => self.gather_apply(&mut commit, *apply),
            };
            if let Err(error) = gathered {
                let replies = std::mem::take(&mut commit.replies);
                replies.into_iter().for_each(|r| r.settle(Err(error.clone())));
                requests.for_each(|r| r.refuse(error.clone()));
                return Err(error);
            }
        }
        Ok(commit)
    }

    fn gather_write(
        &mut self,
        commit: &mut Commit,
        batch: Batch,
        done: Done,
    ) -> Result<(), StoreError> {
        let newest = match self.term(batch.shard) {
            Ok(term) => term,
            Err(error) => {
                commit.replies.push(Reply::Write(done, Ok(())));
                return Err(error);
            }
        };
        let verdict = check_fence(&batch, newest);
        if verdict.is_ok() {
            commit.batches += 1;
            commit.bytes += batch_bytes(&batch) as u64;
            Self::add_ops(commit, batch.ops);
        } else {
            commit.fenced += 1;
        }
        commit.replies.push(Reply::Write(done, verdict));
        Ok(())
    }

    fn add_ops(commit: &mut Commit, ops: Vec<Op>) {
        commit.rows.reserve(ops.len());
        for op in ops {
            let (family, key, value) = match op {
                Op::Put { family, key, value } => (family, key, Some(value)),
                Op::Delete { family, key } => (family, key, None),
                Op::DropRange { family, from, to } => {
                    commit.drops.push(Task::DropRange { family, from, to });
                    continue;
                }
            };
            commit.rows.push(Change { family, key, value });
        }
    }

    fn gather_acquire(
        &mut self,
        commit: &mut Commit,
        shard: Shard,
        sender: Sender<Result<Term, StoreError>>,
    ) -> Result<(), StoreError> {
        let term = match self.term(shard) {
            Ok(term) => term + 1,
            Err(error) => {
                commit.replies.push(Reply::Acquire(sender, 0));
                return Err(error);
            }
        };
        commit.rows.push(Change {
            family: Family::Meta,
            key: meta_term_key(shard),
            value: Some(encode_term(term)),
        });
        commit.replies.push(Reply::Acquire(sender, term));
        self.terms.insert(shard, term);
        Ok(())
    }

    /// Something that was decided elsewhere, with its position in one commit: whether it changes
    /// anything or not, it has been applied.
    fn gather_apply(&mut self, commit: &mut Commit, apply: Apply) -> Result<(), StoreError> {
        let Apply { shard, what, position, done } = apply;
        let newest = match self.term(shard) {
            Ok(term) => term,
            Err(error) => {
                commit.replies.push(Reply::Apply(done, Applied::Done));
                return Err(error);
            }
        };
        let applied = match what {
            Replicated::Nothing => Applied::Done,
            Replicated::Acquire => {
                let term = newest + 1;
                commit.rows.push(Change {
                    family: Family::Meta,
                    key: meta_term_key(shard),
                    value: Some(encode_term(term)),
                });
                self.terms.insert(shard, term);
                Applied::Acquired(term)
            }
            Replicated::Load(ops) => {
                commit.bytes += ops_bytes(&ops) as u64;
                Self::add_ops(commit, ops);
                self.terms.remove(&shard); // It may be among the rows.
                Applied::Done
            }
            Replicated::Write(batch) => match check_fence(&batch, newest) {
                Ok(()) => {
                    commit.batches += 1;
                    commit.bytes += batch_bytes(&batch) as u64;
                    Self::add_ops(commit, batch.ops);
                    Applied::Done
                }
                Err(_) => {
                    commit.fenced += 1;
                    Applied::Fenced { newest }
                }
            },
        };
        let (family, key) = (Family::Meta, position_key(shard));
        commit.rows.push(Change { family, key, value: Some(position) });
        commit.replies.push(Reply::Apply(done, applied));
        Ok(())
    }

    /// The newest term of a shard, read from disk the first time.
    fn term(&mut self, shard: Shard) -> Result<Term, StoreError> {
        if let Some(term) = self.terms.get(&shard) {
            return Ok(*term);
        }
        let meta = self.shared.database.keyspace(Family::Meta);
        let stored = meta.get(meta_term_key(shard)).map_err(read_error)?;
        let term = stored.map_or(Ok(0), |value| decode_term(shard, &value))?;
        self.terms.insert(shard, term);
        Ok(term)
    }

    /// Puts rows into the order of their keys, which the memtables take in much faster, and leaves
    /// out what a later write to the same key makes void. The sort is stable, so the later write
    /// stays the later one.
    fn write_batch(&self, mut rows: Vec<Change>) -> OwnedWriteBatch {
        rows.sort_by(|a, b| (a.family, &a.key).cmp(&(b.family, &b.key)));
        let mut batch = self.shared.database.batch(rows.len());
        let mut rows = rows.into_iter().peekable();
        while let Some(Change { family, key, value }) = rows.next() {
            let next = rows.peek();
            if next.is_some_and(|next| next.family == family && next.key == key) {
                continue;
            }
            let keyspace = self.shared.database.keyspace(family);
            match value {
                Some(value) => batch.insert(keyspace, key, value),
                None => batch.remove(keyspace, key),
            }
        }
        batch
    }

    fn write(&mut self, commit: Commit) -> Result<(), StoreError> {
        let shared = &self.shared;
        let ops = commit.rows.len() as u64;
        // Kept where they are found should this commit panic or never come back.
        *shared.in_flight.lock() = commit.replies;
        let result = if ops == 0 {
            Ok(())
        } else {
            let batch = self.write_batch(commit.rows);
            let started = Instant::now();
            shared.counters.commit_begins(ops, commit.bytes);
            let result = batch.commit().map_err(write_error);
            shared.counters.commit_ends(started.elapsed());
            result
        };
        // The caller ends the engine, which answers what is in flight.
        result?;
        shared.counters.applied(commit.batches, commit.fenced, ops, commit.bytes);
        if ops > 0 {
            shared.publish(DiskView::now(&shared.database));
        }
        for task in commit.drops {
            // If upkeep has stopped, the range stays, as the waist allows.
            let _ = self.upkeep.send(task);
        }
        let replies = std::mem::take(&mut *shared.in_flight.lock());
        replies.into_iter().for_each(|r| r.settle(Ok(())));
        Ok(())
    }
}
