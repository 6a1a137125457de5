//! What an engine offers to the shards of a node, and the figures it reports.

use std::sync::Arc;
use std::time::Duration;

use bellwether_core::waist::{Batch, Family, Shard, StoreError, Term, View};

use crate::answer::answer;

/// Called once with the outcome of a submitted batch.
pub type Done = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// A store of ordered keys with fenced, durable, atomic batches.
///
/// All methods may be called from any thread. The invariants are those of
/// `bellwether_core::waist`; [`crate::conformance`] checks them.
pub trait Engine: Send + Sync + 'static {
    /// Takes a shard over: returns a term higher than any before it, once that term is durable.
    /// From then on every older term is void.
    ///
    /// # Errors
    /// When the engine is closed or has failed.
    fn acquire(&self, shard: Shard) -> Result<Term, StoreError>;

    /// The newest durable state, consistent over all families and shards. Costs an `Arc` clone.
    ///
    /// A view that is held keeps old versions of rows alive, so do not keep one for long. Rows
    /// may share memory with a whole block of the store: copy what is to be kept.
    fn view(&self) -> Arc<dyn View>;

    /// Hands a batch over and returns, normally before it is written.
    ///
    /// `done` is called exactly once: with `Ok` after the batch is durable and visible in
    /// [`Engine::view`], or with the error. Batches of one shard take effect in the order in
    /// which they were submitted, and their callbacks come in that order.
    ///
    /// `done` runs on the engine's writer, or (in memory) on the thread that submits: it must be
    /// short and must not block. It may submit again and may take a view; it must not call
    /// [`Engine::commit`], [`Engine::acquire`] or [`Engine::close`], which wait for the writer.
    ///
    /// Blocks while too much is waiting to be written: that is the backpressure.
    ///
    /// # Panics
    /// On a batch no correct caller builds: a key of another shard, a key the engine reserves
    /// ([`crate::meta_term_key`]), a key or value beyond the sizes that can be stored.
    fn submit(&self, batch: Batch, done: Done);

    /// Hands a batch over and waits until it is durable and visible.
    ///
    /// # Errors
    /// When the batch's term is void, or the engine is closed or has failed.
    fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        let (answering, outcome) = answer();
        self.submit(batch, Box::new(move |result| answering.give(result)));
        outcome.wait().unwrap_or(Err(StoreError::Closed))
    }

    /// The engine's figures, for metrics and for people.
    fn stats(&self) -> EngineStats;

    /// Writes what was submitted, syncs, and stops. Later submits get
    /// [`StoreError::Closed`]; views stay readable. Closing twice is no error.
    ///
    /// # Errors
    /// When what was submitted could not be made durable.
    fn close(&self) -> Result<(), StoreError>;
}

/// What an engine can say about itself. Counters run from the time it was opened.
#[derive(Clone, Debug, Default)]
pub struct EngineStats {
    /// Bytes on disk, journals and log included; a file counts with the blocks it really uses.
    pub disk_bytes: u64,
    /// Bytes of the log that replicas agree on, if there is one.
    pub log_bytes: u64,
    /// Journal files.
    pub journal_count: u64,
    /// Bytes of the journal files.
    pub journal_bytes: u64,
    /// Bytes of blocks in the cache.
    pub cache_bytes: u64,
    /// What the cache may grow to.
    pub cache_bytes_max: u64,
    /// Bytes in memtables, active and sealed.
    pub memtable_bytes: u64,
    /// How long it took to open, recovery included.
    pub open_duration: Duration,
    /// Batches that were applied.
    pub batches: u64,
    /// Batches that were refused because their term was void.
    pub batches_fenced: u64,
    /// Operations that were applied.
    pub ops: u64,
    /// Bytes of keys and values that were applied.
    pub bytes: u64,
    /// Commits, each with one sync; `batches / syncs` says how well gathering works.
    pub syncs: u64,
    /// Time spent in commits (journal append, sync, memtable, stalls), in total.
    pub commit_duration_sum: Duration,
    /// The longest commit.
    pub commit_duration_max: Duration,
    /// The newest commit.
    pub commit_duration_last: Duration,
    /// Bytes submitted and not yet taken by the writer.
    pub queue_bytes: u64,
    /// Submissions not yet taken by the writer.
    pub queue_len: u64,
    /// Ranges dropped.
    pub ranges_dropped: u64,
    /// Memtables rotated early because they kept old journals alive.
    pub memtables_rotated: u64,
    /// Compactions finished.
    pub compactions: u64,
    /// Why the engine takes nothing any more, if so.
    pub failure: Option<String>,
    /// Figures per family, in the order of [`Family::ALL`].
    pub families: Vec<FamilyStats>,
}

/// Figures of one family.
#[derive(Clone, Debug)]
pub struct FamilyStats {
    /// Which one.
    pub family: Family,
    /// Bytes of its tables on disk.
    pub disk_bytes: u64,
    /// Its tables.
    pub tables: u64,
    /// Sorted runs in its first level; writes slow down when they pile up.
    pub l0_runs: u64,
    /// Memtables waiting to be written out.
    pub memtables_sealed: u64,
    /// Bytes of its active memtable.
    pub memtable_bytes: u64,
    /// Rows, roughly; deleted and overwritten ones may be counted.
    pub rows_approximate: u64,
}
