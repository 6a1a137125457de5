//! The engine on disk, on one LSM database per node.
//!
//! ```text
//! submit ─► queue ─► writer ──► database (journal, memtables, tables)
//!                      │  └───► view, published after each synced commit ─► readers
//!                      └──────► upkeep: drop ranges, free journals, watch slow commits
//! ```
//! Invariants:
//! - one thread writes rows, so terms need no lock and batches keep their order;
//! - a view is published only after the commit it shows was synced;
//! - the first failed write ends the engine: everything waiting and to come gets
//!   `StoreError::Failed`, until the process is started anew and recovers from the journal.
//!
//! What it does not do: retry, repair, or replicate.
//!
//! Where to start reading: `writer`, then `database`.

mod database;
mod directory;
mod journal;
mod options;
mod queue;
mod replicated;
mod shared;
mod upkeep;
mod view;
mod writer;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use bellwether_core::waist::{Batch, Shard, StoreError, Term, View};
use parking_lot::Mutex;

use self::database::Database;
pub use self::directory::OpenError;
pub use self::options::DiskOptions;
use self::queue::Request;
pub use self::replicated::{Applied, AppliedDone, Replicated, position_key};
use self::shared::Shared;
use self::upkeep::Upkeep;
use self::writer::Writer;
use crate::engine::{Done, Engine, EngineStats};
use crate::rules::assert_batch;

/// A store in a directory of this machine.
pub struct DiskEngine {
    shared: Arc<Shared>,
    /// The writer and upkeep, until they are joined. Upkeep ends when the writer has.
    threads: Mutex<Vec<JoinHandle<()>>>,
    #[cfg(test)]
    tasks: Mutex<Option<crossbeam_channel::Sender<upkeep::Task>>>,
}

impl DiskEngine {
    /// Opens the store in a directory, creating it if need be, and recovers what a crash left.
    ///
    /// # Errors
    /// When the directory is in use, of an unknown format, damaged, or cannot be read or written.
    pub fn open(options: DiskOptions) -> Result<Self, OpenError> {
        let opening = Instant::now();
        let dir = options.dir.clone();
        let database = Database::open(&options)?;
        let shared = Arc::new(Shared::new(database, options, opening));
        let (tasks, inbox) = crossbeam_channel::unbounded();
        let upkeep = Upkeep::new(Arc::clone(&shared));
        let writer = Writer::new(Arc::clone(&shared), tasks.clone());
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
            thread.map_err(|source| OpenError::Io { dir: dir.clone(), source })
        };
        let upkeep = spawn("store-upkeep", Box::new(move || upkeep.run(&inbox)))?;
        let writer = spawn("store-writer", Box::new(move || writer.run()))?;
        Ok(Self {
            shared,
            threads: Mutex::new(vec![writer, upkeep]),
            #[cfg(test)]
            tasks: Mutex::new(Some(tasks)),
        })
    }

    /// Applies something that was decided and made durable elsewhere, and stores `position` with it:
    /// how far that has come. `done` is called as with [`Engine::submit`], in order for each shard.
    pub fn apply(&self, shard: Shard, what: Replicated, position: bytes::Bytes, done: AppliedDone) {
        if let Replicated::Write(batch) = &what {
            assert_batch(batch);
        }
        let apply = replicated::Apply { shard, what, position, done };
        self.push(Request::Apply(Box::new(apply)));
    }

    /// Makes everything durable that anybody was told of before this was called.
    ///
    /// # Errors
    /// When it could not be made durable: then the engine has failed.
    pub fn persist(&self) -> Result<(), StoreError> {
        self.shared.database.sync().inspect_err(|error| self.shared.fail(error))
    }

    /// Why nothing can be stored any more until the process is started anew, if that is so.
    #[must_use]
    pub fn failure(&self) -> Option<StoreError> {
        self.shared.failure()
    }

    /// About how many bytes of tables each of some shards has on disk. What is not in a table yet, but
    /// in a journal, is not counted.
    #[must_use]
    pub fn bytes_by_shard(&self, shards: &BTreeSet<Shard>) -> BTreeMap<Shard, u64> {
        self.shared.database.bytes_by_shard(shards)
    }

    fn push(&self, request: Request) {
        if let Err(request) = self.shared.queue.push(request) {
            request.refuse(self.shared.refusal());
        }
    }
}

impl Engine for DiskEngine {
    fn acquire(&self, shard: Shard) -> Result<Term, StoreError> {
        let (sender, term) = crossbeam_channel::bounded(1);
        self.push(Request::Acquire(shard, sender));
        term.recv().unwrap_or_else(|_| Err(self.shared.refusal()))
    }

    fn view(&self) -> Arc<dyn View> {
        self.shared.view()
    }

    fn submit(&self, batch: Batch, done: Done) {
        assert_batch(&batch);
        self.push(Request::Write(batch, done));
    }

    fn stats(&self) -> EngineStats {
        self.shared.stats()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.shared.queue.close();
        #[cfg(test)]
        drop(self.tasks.lock().take());
        let threads = std::mem::take(&mut *self.threads.lock());
        let first_close = !threads.is_empty();
        for thread in threads {
            // Its panics were turned into a failure where they happened.
            let _ = thread.join();
        }
        if let Some(error) = self.shared.failure() {
            return Err(error);
        }
        if first_close {
            self.shared.database.sync()?;
        }
        Ok(())
    }
}

impl Drop for DiskEngine {
    fn drop(&mut self) {
        // A failure has been logged where it happened; there is nobody left to tell.
        let _ = self.close();
    }
}
