//! What waits for the writer, bounded in bytes.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::thread::{self, ThreadId};

use bellwether_core::waist::{Batch, Shard, StoreError, Term};
use crossbeam_channel::Sender;
use parking_lot::{Condvar, Mutex};

use super::replicated::Apply;
use crate::engine::Done;
use crate::rules::batch_bytes;

/// Something the writer is asked to do.
pub(super) enum Request {
    /// Write a batch, then call.
    Write(Batch, Done),
    /// Raise a shard's term, then send it.
    Acquire(Shard, Sender<Result<Term, StoreError>>),
    /// Apply something that was decided elsewhere, then call.
    Apply(Box<Apply>),
}

impl Request {
    fn bytes(&self) -> usize {
        match self {
            Request::Write(batch, _) => batch_bytes(batch),
            Request::Acquire(..) => 64,
            Request::Apply(apply) => apply.bytes(),
        }
    }

    fn ops(&self) -> usize {
        match self {
            Request::Write(batch, _) => batch.ops.len(),
            Request::Acquire(..) => 1,
            Request::Apply(apply) => apply.ops(),
        }
    }

    /// Answers without doing it.
    pub(super) fn refuse(self, error: StoreError) {
        match self {
            Request::Write(_, done) => done(Err(error)),
            Request::Acquire(_, sender) => {
                // Nobody waits any more if this fails.
                let _ = sender.send(Err(error));
            }
            Request::Apply(apply) => (apply.done)(Err(error)),
        }
    }
}

/// A queue with one consumer.
pub(super) struct Queue {
    bytes_max: usize,
    waiting: Mutex<Waiting>,
    filled: Condvar,
    drained: Condvar,
    consumer: OnceLock<ThreadId>,
}

#[derive(Default)]
struct Waiting {
    requests: VecDeque<(Request, usize)>,
    bytes: usize,
    closed: bool,
}

impl Queue {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            waiting: Mutex::default(),
            filled: Condvar::new(),
            drained: Condvar::new(),
            consumer: OnceLock::new(),
        }
    }

    /// Adds a request, after waiting for room; gives it back if the queue is closed.
    ///
    /// The consumer itself never waits for room, since it alone makes any.
    pub(super) fn push(&self, request: Request) -> Result<(), Request> {
        let bytes = request.bytes();
        let may_wait = self.consumer.get() != Some(&thread::current().id());
        let mut waiting = self.waiting.lock();
        while may_wait && !waiting.closed && waiting.bytes >= self.bytes_max {
            self.drained.wait(&mut waiting);
        }
        if waiting.closed {
            return Err(request);
        }
        waiting.bytes += bytes;
        waiting.requests.push_back((request, bytes));
        drop(waiting);
        self.filled.notify_one();
        Ok(())
    }

    /// Takes what waits, oldest first, up to the limits but one request at least. Waits until
    /// there is something; `None` once the queue is closed and empty.
    pub(super) fn take(&self, ops_max: usize, bytes_max: usize) -> Option<Vec<Request>> {
        self.consumer.get_or_init(|| thread::current().id());
        let mut waiting = self.waiting.lock();
        while waiting.requests.is_empty() {
            if waiting.closed {
                return None;
            }
            self.filled.wait(&mut waiting);
        }
        let (mut taken, mut ops, mut bytes_taken) = (Vec::new(), 0, 0);
        while let Some((request, bytes)) = waiting.requests.pop_front() {
            if !taken.is_empty()
                && (ops + request.ops() > ops_max || bytes_taken + bytes > bytes_max)
            {
                waiting.requests.push_front((request, bytes));
                break;
            }
            ops += request.ops();
            bytes_taken += bytes;
            taken.push(request);
        }
        waiting.bytes -= bytes_taken;
        drop(waiting);
        self.drained.notify_all();
        Some(taken)
    }

    /// Refuses everything from now on; what waits can still be taken.
    pub(super) fn close(&self) {
        self.waiting.lock().closed = true;
        self.filled.notify_all();
        self.drained.notify_all();
    }

    /// Closes and empties the queue.
    pub(super) fn abandon(&self) -> Vec<Request> {
        let mut waiting = self.waiting.lock();
        waiting.closed = true;
        waiting.bytes = 0;
        let requests = std::mem::take(&mut waiting.requests);
        drop(waiting);
        self.filled.notify_all();
        self.drained.notify_all();
        requests.into_iter().map(|(request, _)| request).collect()
    }

    /// How many wait, and their bytes.
    pub(super) fn depth(&self) -> (usize, usize) {
        let waiting = self.waiting.lock();
        (waiting.requests.len(), waiting.bytes)
    }
}
