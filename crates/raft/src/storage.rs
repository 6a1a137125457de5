//! A group's part of the log, as openraft wants to see it.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, Range, RangeBounds};

use bellwether_core::placement::FIRST_SHARD;
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use openraft::{OptionalSend, RaftTypeConfig};
use tokio::sync::oneshot;

use crate::codec::{decode_entry, decode_vote, encode_payload, encode_vote, log_id, point};
use crate::log::{self, GroupLog};
use crate::types::{Entry, LogId, Types, Vote};

/// Bytes of entries that are sent to a follower in one message, unless a single one is larger.
const SEND_BYTES_MAX: usize = 1024 * 1024;

/// The log of one group.
#[derive(Clone)]
pub struct LogStore(GroupLog);

impl LogStore {
    /// The log of one group.
    #[must_use]
    pub fn new(log: GroupLog) -> LogStore {
        LogStore(log)
    }

    /// Removes what contradicts the tables, before a group is made of both. A copy that was received and
    /// not yet taken in to its end when the process ended is taken in at the next start, and nobody
    /// may have cut off by then what the log has from a leader that was replaced. Such a log ends in
    /// an older term than the tables, but not before them.
    ///
    /// # Errors
    /// When the log cannot be read or written.
    pub async fn agree_with(&self, applied: Option<LogId>) -> io::Result<()> {
        let (Some(applied), Some(last)) = (applied.as_ref().map(point), self.0.last()) else {
            return Ok(());
        };
        if last.term >= applied.term || last.index < applied.index {
            return Ok(());
        }
        tracing::warn!(group = self.0.number(), ?last, ?applied, "cut off what was never agreed");
        let before = self.0.read(applied.index.saturating_sub(1)..applied.index, usize::MAX)?;
        let after = before.first().map(|entry| entry.point).or(self.0.state().purged);
        self.truncate(after).await
    }

    /// Removes all entries after this one, durably: whatever comes next relies on it.
    async fn truncate(&self, after: Option<log::Point>) -> io::Result<()> {
        let (done, durable) = waiting();
        self.0.truncate(after, done)?;
        durable.await.map_err(io::Error::other)?
    }
}

/// To be called when something is durable, and who waits for that.
fn waiting() -> (log::Done, oneshot::Receiver<io::Result<()>>) {
    let (sender, durable) = oneshot::channel();
    let done = Box::new(move |result| {
        // Nobody waits any more if this fails.
        let _ = sender.send(result);
    });
    (done, durable)
}

fn decoded(entries: Vec<log::Entry>) -> io::Result<Vec<Entry>> {
    entries.into_iter().map(|entry| decode_entry(entry.point, entry.data)).collect()
}

fn whole(range: impl RangeBounds<u64>) -> Range<u64> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(end) => end.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    };
    start..end
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<RB>(&mut self, range: RB) -> io::Result<Vec<Entry>>
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        decoded(self.0.read(whole(range), usize::MAX)?)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        // Everybody needs the first shard before anything else.
        if self.0.number() == FIRST_SHARD {
            return decoded(self.0.read(start..end, SEND_BYTES_MAX)?);
        }
        let (entries, wait) = self.0.to_send(start..end, SEND_BYTES_MAX)?;
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        decoded(entries)
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        self.0.state().vote.map(decode_vote).transpose()
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = LogStore;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        Ok(LogState {
            last_purged_log_id: self.0.state().purged.map(log_id),
            last_log_id: self.0.last().map(log_id),
        })
    }

    async fn get_log_reader(&mut self) -> LogStore {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let (done, durable) = waiting();
        self.0.save_vote(encode_vote(vote), done)?;
        durable.await.map_err(io::Error::other)?
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        if let Some(committed) = committed {
            self.0.save_committed(point(&committed));
        }
        Ok(())
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        Ok(self.0.state().committed.map(log_id))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = <Types as RaftTypeConfig>::Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries = entries
            .into_iter()
            .map(|entry| log::Entry { point: point(&entry.log_id), data: encode_payload(&entry) });
        self.0.append(entries.collect(), Box::new(move |result| callback.io_completed(result)))
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        self.truncate(last.as_ref().map(point)).await
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        self.0.purge(point(&upto))
    }
}
