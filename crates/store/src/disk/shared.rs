//! What the engine's threads share: the published view, the queue, the counters, the verdict.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bellwether_core::waist::{Family, StoreError};
use parking_lot::Mutex;

use super::database::Database;
use super::options::DiskOptions;
use super::queue::Queue;
use super::view::DiskView;
use super::writer::Reply;
use crate::engine::EngineStats;

pub(super) struct Shared {
    pub(super) database: Arc<Database>,
    pub(super) queue: Queue,
    pub(super) counters: Counters,
    pub(super) options: DiskOptions,
    /// Answers owed for the commit that is being written.
    pub(super) in_flight: Mutex<Vec<Reply>>,
    view: ArcSwap<DiskView>,
    failure: OnceLock<StoreError>,
    open_duration: Duration,
}

impl Shared {
    pub(super) fn new(database: Arc<Database>, options: DiskOptions, opening: Instant) -> Self {
        let view = DiskView::now(&database);
        Self {
            database,
            queue: Queue::new(options.queue_bytes_max),
            counters: Counters::new(),
            options,
            in_flight: Mutex::default(),
            view: ArcSwap::from_pointee(view),
            failure: OnceLock::new(),
            open_duration: opening.elapsed(),
        }
    }

    pub(super) fn view(&self) -> Arc<DiskView> {
        self.view.load_full()
    }

    pub(super) fn publish(&self, view: DiskView) {
        self.view.store(Arc::new(view));
    }

    pub(super) fn commit_limits(&self) -> (usize, usize) {
        (self.options.commit_ops_max, self.options.commit_bytes_max)
    }

    /// Why requests are refused.
    pub(super) fn refusal(&self) -> StoreError {
        self.failure.get().cloned().unwrap_or(StoreError::Closed)
    }

    pub(super) fn failure(&self) -> Option<StoreError> {
        self.failure.get().cloned()
    }

    /// Ends the engine: this error is the answer to everything that waits and everything to come,
    /// whatever the writer was doing. The doors are closed first, so that a callback that submits
    /// again is refused; then answers go out in the order of submission.
    pub(super) fn fail(&self, error: &StoreError) {
        if self.failure.set(error.clone()).is_ok() {
            tracing::error!(
                dir = %self.options.dir.display(), %error,
                "the store has failed; nothing is accepted until the server is started anew"
            );
        }
        let waiting = self.queue.abandon();
        let in_flight = std::mem::take(&mut *self.in_flight.lock());
        in_flight.into_iter().for_each(|reply| reply.settle(Err(error.clone())));
        waiting.into_iter().for_each(|request| request.refuse(error.clone()));
    }

    pub(super) fn stats(&self) -> EngineStats {
        let database = &self.database;
        let families: Vec<_> = Family::ALL.map(|f| database.family_stats(f)).to_vec();
        let (journal_count, journal_bytes) = database.journals();
        let (queue_len, queue_bytes) = self.queue.depth();
        let tables_bytes: u64 = families.iter().map(|f| f.disk_bytes).sum();
        let mut stats = EngineStats {
            disk_bytes: tables_bytes + journal_bytes,
            journal_count,
            journal_bytes,
            cache_bytes: database.fjall().cache_size(),
            cache_bytes_max: database.fjall().cache_capacity(),
            memtable_bytes: database.fjall().write_buffer_size(),
            open_duration: self.open_duration,
            queue_len: queue_len as u64,
            queue_bytes: queue_bytes as u64,
            compactions: database.fjall().compactions_completed() as u64,
            failure: self.failure.get().map(ToString::to_string),
            families,
            ..EngineStats::default()
        };
        self.counters.report(&mut stats);
        stats
    }
}

/// Counters, written by the writer and by upkeep, read by anybody.
pub(super) struct Counters {
    epoch: Instant,
    batches: AtomicU64,
    batches_fenced: AtomicU64,
    ops: AtomicU64,
    bytes: AtomicU64,
    syncs: AtomicU64,
    commit_sum: AtomicU64,
    commit_max: AtomicU64,
    commit_last: AtomicU64,
    /// When the running commit began, in nanoseconds since `epoch`; zero if none runs.
    commit_began: AtomicU64,
    commit_ops: AtomicU64,
    commit_bytes: AtomicU64,
    pub(super) ranges_dropped: AtomicU64,
    pub(super) memtables_rotated: AtomicU64,
}

/// The commit that is being written right now.
pub(super) struct RunningCommit {
    pub(super) began: u64,
    pub(super) elapsed: Duration,
    pub(super) ops: u64,
    pub(super) bytes: u64,
}

impl Counters {
    fn new() -> Self {
        Self {
            epoch: Instant::now(),
            batches: AtomicU64::new(0),
            batches_fenced: AtomicU64::new(0),
            ops: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            commit_sum: AtomicU64::new(0),
            commit_max: AtomicU64::new(0),
            commit_last: AtomicU64::new(0),
            commit_began: AtomicU64::new(0),
            commit_ops: AtomicU64::new(0),
            commit_bytes: AtomicU64::new(0),
            ranges_dropped: AtomicU64::new(0),
            memtables_rotated: AtomicU64::new(0),
        }
    }

    pub(super) fn commit_begins(&self, ops: u64, bytes: u64) {
        self.commit_ops.store(ops, Ordering::Relaxed);
        self.commit_bytes.store(bytes, Ordering::Relaxed);
        let now = nanos(self.epoch.elapsed()).max(1);
        self.commit_began.store(now, Ordering::Release);
    }

    pub(super) fn commit_ends(&self, duration: Duration) {
        self.commit_began.store(0, Ordering::Release);
        let duration = nanos(duration);
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.commit_sum.fetch_add(duration, Ordering::Relaxed);
        self.commit_max.fetch_max(duration, Ordering::Relaxed);
        self.commit_last.store(duration, Ordering::Relaxed);
    }

    pub(super) fn applied(&self, batches: u64, fenced: u64, ops: u64, bytes: u64) {
        self.batches.fetch_add(batches, Ordering::Relaxed);
        self.batches_fenced.fetch_add(fenced, Ordering::Relaxed);
        self.ops.fetch_add(ops, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes written to the journal since the engine was opened, roughly.
    pub(super) fn bytes_written(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn running_commit(&self) -> Option<RunningCommit> {
        let began = self.commit_began.load(Ordering::Acquire);
        (began > 0).then(|| RunningCommit {
            began,
            elapsed: self.epoch.elapsed().saturating_sub(Duration::from_nanos(began)),
            ops: self.commit_ops.load(Ordering::Relaxed),
            bytes: self.commit_bytes.load(Ordering::Relaxed),
        })
    }

    fn report(&self, stats: &mut EngineStats) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        stats.batches = read(&self.batches);
        stats.batches_fenced = read(&self.batches_fenced);
        stats.ops = read(&self.ops);
        stats.bytes = read(&self.bytes);
        stats.syncs = read(&self.syncs);
        stats.commit_duration_sum = Duration::from_nanos(read(&self.commit_sum));
        stats.commit_duration_max = Duration::from_nanos(read(&self.commit_max));
        stats.commit_duration_last = Duration::from_nanos(read(&self.commit_last));
        stats.ranges_dropped = read(&self.ranges_dropped);
        stats.memtables_rotated = read(&self.memtables_rotated);
    }
}

/// Enough for 500 years.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
