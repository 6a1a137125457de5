//! The thread beside the writer: it drops ranges, writes out memtables that keep old journals
//! alive, and watches over commits that take too long.
//!
//! It writes no rows of its own but the marker of [`Database::touch`], and decides nothing that
//! a batch depends on.
//!
//! [`Database::touch`]: super::database::Database::touch

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bellwether_core::waist::{Family, StoreError};
use bytes::Bytes;
use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::shared::Shared;

/// How often the watch goes round. Costs a few microseconds.
const ROUND: Duration = Duration::from_millis(250);

/// How far journals may exceed their limit before empty memtables are suspected.
const PINNED_SLACK_BYTES: u64 = 64 << 20;

/// Work for this thread.
pub(super) enum Task {
    DropRange {
        family: Family,
        from: Bytes,
        to: Bytes,
    },
    /// Go round now: a test wants to see what that does.
    #[cfg(test)]
    Round(crossbeam_channel::Sender<()>),
}

/// The thread's own state.
pub(super) struct Upkeep {
    shared: Arc<Shared>,
    /// For each family, the memtable seen last and how much had been written before it.
    memtables: [Option<(u64, u64)>; Family::ALL.len()],
    /// Journal bytes found at opening, which count as written.
    bytes_recovered: u64,
    /// What had been written a round ago.
    bytes_last_round: u64,
    /// What had been written when empty memtables were touched last.
    bytes_touched: Option<u64>,
    /// The slow commit that was warned about last: when it began, and its age then.
    warned: Option<(u64, Duration)>,
}

impl Upkeep {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let (_, bytes_recovered) = shared.database.journals();
        Self {
            shared,
            memtables: [None; Family::ALL.len()],
            bytes_recovered,
            bytes_last_round: 0,
            bytes_touched: None,
            warned: None,
        }
    }

    /// Runs until all senders of tasks are gone.
    pub(super) fn run(mut self, tasks: &Receiver<Task>) {
        loop {
            let result = match tasks.recv_timeout(ROUND) {
                Ok(Task::DropRange { family, from, to }) => self.drop_range(family, &from, &to),
                #[cfg(test)]
                Ok(Task::Round(done)) => {
                    let result = self.round();
                    let _ = done.send(());
                    result
                }
                Err(RecvTimeoutError::Timeout) => self.round(),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if let Err(error) = result {
                self.shared.fail(&error);
                return;
            }
        }
    }

    fn round(&mut self) -> Result<(), StoreError> {
        self.watch_commit();
        self.rotate_laggards()?;
        self.touch_empty()
    }

    fn drop_range(&self, family: Family, from: &[u8], to: &[u8]) -> Result<(), StoreError> {
        let database = &self.shared.database;
        if database.drop_range(family, from, to)? {
            database.touch(family)?;
        }
        let counter = &self.shared.counters.ranges_dropped;
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Writes out every memtable that has kept the journal for too long.
    fn rotate_laggards(&mut self) -> Result<(), StoreError> {
        let written = self.bytes_recovered + self.shared.counters.bytes_written();
        for family in Family::ALL {
            let seen = &mut self.memtables[family as usize];
            let Some(memtable) = self.shared.database.memtable(family) else {
                *seen = None;
                continue;
            };
            let since = match *seen {
                Some((id, since)) if id == memtable => since,
                _ => self.bytes_last_round,
            };
            *seen = Some((memtable, since));
            if written.saturating_sub(since) < self.shared.options.journal_lag_bytes {
                continue;
            }
            if self.shared.database.rotate(family)? {
                tracing::debug!(family = family.name(), "wrote out a memtable to free journals");
                let counter = &self.shared.counters.memtables_rotated;
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.bytes_last_round = written;
        Ok(())
    }

    /// Lifts families without a memtable when the journals are far larger than they should be.
    fn touch_empty(&mut self) -> Result<(), StoreError> {
        let limit = self.shared.options.journal_bytes + PINNED_SLACK_BYTES;
        let (count, bytes) = self.shared.database.journals();
        if bytes <= limit {
            return Ok(());
        }
        let written = self.shared.counters.bytes_written();
        if self.bytes_touched.is_some_and(|then| written.saturating_sub(then) < PINNED_SLACK_BYTES)
        {
            return Ok(());
        }
        self.bytes_touched = Some(written);
        tracing::info!(
            count,
            bytes,
            "journals exceed their limit; writing marker rows to free them"
        );
        for family in Family::ALL {
            if self.shared.database.memtable(family).is_none() {
                self.shared.database.touch(family)?;
            }
        }
        Ok(())
    }

    /// Warns about a commit that takes too long, and again each time its age has doubled.
    fn watch_commit(&mut self) {
        let Some(commit) = self.shared.counters.running_commit() else {
            self.warned = None;
            return;
        };
        let due = match self.warned {
            Some((began, age)) if began == commit.began => age * 2,
            _ => self.shared.options.slow_commit,
        };
        if commit.elapsed < due {
            return;
        }
        self.warned = Some((commit.began, commit.elapsed));
        let database = &self.shared.database;
        let (journals, journal_bytes) = database.journals();
        let families = Family::ALL.map(|f| database.family_stats(f));
        let worst = families.iter().max_by_key(|f| (f.memtables_sealed, f.l0_runs));
        tracing::warn!(
            seconds = commit.elapsed.as_secs_f64(),
            ops = commit.ops,
            bytes = commit.bytes,
            journals,
            journal_bytes,
            family = worst.map_or("", |f| f.family.name()),
            l0_runs = worst.map_or(0, |f| f.l0_runs),
            memtables_sealed = worst.map_or(0, |f| f.memtables_sealed),
            "a commit of the store is slow: the disk is busy, or compaction cannot keep up"
        );
        self.release_if_stuck();
    }

    /// A commit waits for background work; if that has died, it waits for ever. Then the shards
    /// must be told, since they wait for the commit.
    fn release_if_stuck(&self) {
        let Some(error) = self.shared.database.failure() else {
            return;
        };
        self.shared.fail(&error);
    }
}
