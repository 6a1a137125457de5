//! The log of a node: one for all groups, so that one sync makes durable what all of them wrote.
//!
//! ```text
//! group 0 ──┐                     ┌─► segment 7   marks, entries, votes of all groups
//! group 1 ──┼─► queue ─► writer ──┤   segment 8   begins with how all groups stand
//! group n ──┘              │      └─► …
//!                          └─► one sync, then everybody is called back
//! ```
//! It knows nothing of Raft: entries and votes are bytes, and the rules about them are those of the
//! crate above. What it promises:
//! - what is called back as durable is there after a crash; nothing else need be;
//! - records of one group take effect in the order in which they were handed over;
//! - a log has no holes, and one that has after a crash is refused, not mended;
//! - the first failed write or sync ends it: nothing is accepted until the process starts anew.
//!
//! Where to start reading: [`Log`], then `writer`, then `recover`.

mod files;
mod group;
mod pace;
mod record;
mod recover;
mod writer;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender};
use parking_lot::Mutex;
use tokio::time::Instant;

pub use files::{Directory, Files, bytes_in};
pub use group::{Entry, GroupState};
pub use record::Point;

use group::{Group, Place};
pub(crate) use pace::Pace;
use record::What;
use writer::{Request, Write, Writer, copy};

/// Called once something is durable, or will never be.
pub type Done = Box<dyn FnOnce(io::Result<()>) + Send>;

/// Called when there is something to write.
pub type Told = Box<dyn Fn() + Send + Sync>;

/// How a log is kept.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// A segment is closed once it has this many bytes.
    pub segment_bytes: u64,
    /// Bytes of entries of a group that are kept in memory; older ones are read from disk.
    pub memory_bytes: usize,
    /// Requests that are written together at most.
    pub gather_max: usize,
    /// A replica that lacks so many bytes of entries is far behind.
    pub far_bytes: u64,
    /// Bytes that such a one is sent at a time, unless a single entry is larger.
    pub far_send: usize,
    /// Bytes a second that all of these are sent together, at least.
    pub pace: u64,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            segment_bytes: 64 * 1024 * 1024,
            memory_bytes: 4 * 1024 * 1024,
            gather_max: 4_096,
            far_bytes: 256 * 1024,
            far_send: 128 * 1024,
            pace: 2 * 1024 * 1024,
        }
    }
}

struct Shared {
    files: Box<dyn Files>,
    options: LogOptions,
    groups: Mutex<BTreeMap<u16, Group>>,
    failure: OnceLock<io::Error>,
    /// How fast replicas that are far behind are sent entries.
    pace: Arc<Pace>,
    /// Since when the writer has been at what it is writing.
    writing: Mutex<Option<Instant>>,
    /// Whether it is to be closed.
    closing: AtomicBool,
    /// Whom to tell that something is to be written, if not the writer's thread.
    told: Option<Told>,
}

impl Shared {
    fn failure(&self) -> Option<io::Error> {
        self.failure.get().map(copy)
    }

    fn fail(&self, error: &io::Error) {
        if self.failure.set(copy(error)).is_ok() {
            tracing::error!(%error, "the log has failed and accepts nothing more");
        }
    }

    /// Notes where entries have been written.
    fn placed(&self, places: Vec<(u16, Point, Place)>) {
        let mut groups = self.groups.lock();
        for (number, point, place) in places {
            if let Some(group) = groups.get_mut(&number) {
                group.written(point, place);
                group.drop_from_memory(self.options.memory_bytes);
            }
        }
    }
}

fn bytes(entries: &[Entry]) -> u64 {
    entries.iter().map(|entry| entry.data.len() as u64).sum()
}

/// How old what there is of a group is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// The group.
    pub group: u16,
    /// Its first entry.
    pub first: u64,
    /// How many segments its oldest entry lies behind the newest of all groups: it keeps them all.
    pub segments: u64,
    /// The last entry that can go if the newest segments are to stay.
    pub old: Option<u64>,
}

/// The log of a node.
pub struct Log {
    shared: Arc<Shared>,
    queue: Mutex<Option<Sender<Request>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Log {
    /// Opens a log and starts its writer.
    ///
    /// # Errors
    /// When it is damaged, or cannot be read or written.
    pub fn open(files: impl Files, options: LogOptions) -> io::Result<Log> {
        let (log, mut pump) = Log::with_pump(files, options)?;
        let writer = std::thread::Builder::new().name("raft-log".to_owned());
        let thread = writer.spawn(move || while pump.wait() {})?;
        *log.thread.lock() = Some(thread);
        Ok(log)
    }

    /// Opens a log whose writer is driven by the caller.
    ///
    /// # Errors
    /// When it is damaged, or cannot be read.
    pub fn with_pump(files: impl Files, options: LogOptions) -> io::Result<(Log, Pump)> {
        Log::pumped(Box::new(files), options, None)
    }

    /// The same for a caller who wants to be told when there is something to write.
    ///
    /// # Errors
    /// When it is damaged, or cannot be read.
    pub fn with_pump_told(
        files: impl Files,
        options: LogOptions,
        told: Told,
    ) -> io::Result<(Log, Pump)> {
        Log::pumped(Box::new(files), options, Some(told))
    }

    fn pumped(
        files: Box<dyn Files>,
        options: LogOptions,
        told: Option<Told>,
    ) -> io::Result<(Log, Pump)> {
        let found = recover::recover(&*files)?;
        let states =
            found.groups.iter().map(|(number, group)| (*number, group.state.clone())).collect();
        let groups = Mutex::new(found.groups);
        let shared = Arc::new(Shared {
            files,
            pace: Arc::new(Pace::new(Instant::now(), options.pace)),
            options,
            groups,
            failure: OnceLock::new(),
            writing: Mutex::default(),
            closing: AtomicBool::new(false),
            told,
        });
        let writer = Writer::new(shared.clone(), found.segments, found.length, states);
        let (sender, queue) = crossbeam_channel::unbounded();
        let gather_max = shared.options.gather_max;
        let log = Log { shared, queue: Mutex::new(Some(sender)), thread: Mutex::default() };
        Ok((log, Pump { writer, queue, gather_max }))
    }

    /// The numbers of all groups that have something in the log.
    #[must_use]
    pub fn groups(&self) -> Vec<u16> {
        self.shared.groups.lock().keys().copied().collect()
    }

    /// Why nothing is accepted any more, if that is so.
    #[must_use]
    pub fn failure(&self) -> Option<io::Error> {
        self.shared.failure()
    }

    /// For how long what is being written has been, if anything is.
    pub(crate) fn writing_for(&self, now: Instant) -> Option<Duration> {
        self.shared.writing.lock().map(|since| now.saturating_duration_since(since))
    }

    /// How old what there is of each group is, and what of it can go if so many segments are to stay.
    #[must_use]
    pub fn loads(&self, keep: u64) -> Vec<Load> {
        let groups = self.shared.groups.lock();
        let newest = groups.values().filter_map(Group::newest_segment).max().unwrap_or(0);
        let load = |(number, group): (&u16, &Group)| Load {
            group: *number,
            first: group.range().start,
            segments: group.oldest_segment().map_or(0, |oldest| newest.saturating_sub(oldest)),
            old: group.last_before((newest + 1).saturating_sub(keep)),
        };
        groups.iter().map(load).collect()
    }

    /// How fast whoever is behind is sent what they lack.
    pub(crate) fn pace(&self) -> Arc<Pace> {
        self.shared.pace.clone()
    }

    /// The log of one group.
    ///
    /// # Errors
    /// When the log is closed.
    pub fn group(&self, number: u16) -> io::Result<GroupLog> {
        let queue = self.queue.lock().clone().ok_or_else(closed)?;
        self.shared.groups.lock().entry(number).or_default();
        Ok(GroupLog { shared: self.shared.clone(), queue, number })
    }

    /// The log of a group that is in it. One that was forgotten is not made anew.
    ///
    /// # Errors
    /// When the log is closed.
    pub fn existing(&self, number: u16) -> io::Result<Option<GroupLog>> {
        let queue = self.queue.lock().clone().ok_or_else(closed)?;
        let exists = self.shared.groups.lock().contains_key(&number);
        Ok(exists.then(|| GroupLog { shared: self.shared.clone(), queue, number }))
    }

    /// Forgets a group that has left this node; `done` is called when that is durable. Nobody may
    /// write for it any more.
    ///
    /// # Errors
    /// When the log is closed.
    pub fn forget(&self, number: u16, done: Done) -> io::Result<()> {
        let log = self.group(number)?;
        self.shared.groups.lock().remove(&number);
        log.ask(Write::Forgotten, Some(done))
    }

    /// Writes everything that was asked for before, and takes nothing more. Groups that have not
    /// stopped hear that it is closed.
    pub fn close(&self) {
        if let Some(queue) = self.queue.lock().take() {
            self.shared.closing.store(true, Ordering::Release);
            let _ = queue.send(Request::close());
        }
        if let Some(thread) = self.thread.lock().take() {
            // Its panic has been told where it happened.
            let _ = thread.join();
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        drop(self.queue.lock().take());
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the log is closed")
}

/// Drives the writer of a log.
pub struct Pump {
    writer: Writer,
    queue: Receiver<Request>,
    gather_max: usize,
}

impl Pump {
    /// Waits for something to write, and writes it with all that has come meanwhile. False once
    /// nobody can ask any more, or the log is closed.
    pub fn wait(&mut self) -> bool {
        let Ok(first) = self.queue.recv() else {
            return false;
        };
        self.write(first);
        !self.writer.is_closing()
    }

    /// Writes what has come, if anything has.
    pub fn turn(&mut self) -> bool {
        let Ok(first) = self.queue.try_recv() else {
            return false;
        };
        self.write(first);
        true
    }

    fn write(&mut self, first: Request) {
        let more = self.queue.try_iter().take(self.gather_max - 1);
        let requests = std::iter::once(first).chain(more).collect();
        self.writer.write(requests);
    }
}

/// The log of one group. Cheap to clone.
#[derive(Clone)]
pub struct GroupLog {
    shared: Arc<Shared>,
    queue: Sender<Request>,
    number: u16,
}

impl GroupLog {
    /// What the group remembers besides its entries.
    #[must_use]
    pub fn state(&self) -> GroupState {
        self.with(|group| group.state.clone())
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The last entry, or the last that was purged.
    #[must_use]
    pub fn last(&self) -> Option<Point> {
        self.with(|group| group.last())
    }

    /// The indexes of all entries.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.with(|group| group.range())
    }

    /// Looks at the group. One that was forgotten meanwhile has nothing, and must not be there again.
    fn with<T>(&self, look: impl FnOnce(&mut Group) -> T) -> T {
        match self.shared.groups.lock().get_mut(&self.number) {
            Some(group) => look(group),
            None => look(&mut Group::default()),
        }
    }

    /// What is written of a group that was forgotten would bring it back.
    fn must_be_there(&self) -> io::Result<()> {
        match self.shared.groups.lock().contains_key(&self.number) {
            true => Ok(()),
            false => Err(io::Error::other(format!("group {} was forgotten", self.number))),
        }
    }

    fn ask(&self, write: Write, done: Option<Done>) -> io::Result<()> {
        let committed = match self.shared.groups.lock().get_mut(&self.number) {
            Some(group) => group.unwritten.take(),
            None => None, // It is being forgotten.
        };
        let request = Request { group: self.number, committed, write, done };
        match self.queue.send(request) {
            Ok(()) => {
                if let Some(told) = &self.shared.told {
                    told();
                }
                Ok(())
            }
            Err(refused) => {
                if let Some(done) = refused.0.done {
                    done(Err(closed()));
                }
                Err(closed())
            }
        }
    }

    /// Adds entries. They can be read at once; `done` is called when they are durable.
    ///
    /// # Errors
    /// When they do not follow the last one, or the log has failed.
    pub fn append(&self, entries: Vec<Entry>, done: Done) -> io::Result<()> {
        if let Some(error) = self.shared.failure() {
            return Err(error);
        }
        let now = Instant::now();
        self.must_be_there()?;
        self.with(|group| {
            group.waits_since.get_or_insert(now);
            entries
                .iter()
                .try_for_each(|entry| group.push(entry.point, Some(entry.data.clone()), None))
        })?;
        self.shared.pace.added(now, bytes(&entries));
        self.ask(Write::Entries(entries), Some(done))
    }

    /// Removes all entries after this one; `done` is called when that is durable.
    ///
    /// # Errors
    /// When the log is closed.
    pub fn truncate(&self, after: Option<Point>, done: Done) -> io::Result<()> {
        self.change(Some(done), |group| {
            group.truncate(after);
            Some(Write::Truncated(after))
        })
    }

    /// Removes all entries up to this one.
    ///
    /// # Errors
    /// When the log is closed.
    pub fn purge(&self, upto: Point) -> io::Result<()> {
        self.change(None, |group| {
            group.purge(upto);
            Some(Write::Purged(upto))
        })
    }

    /// Writes all entries once more, into the newest segment, so that they keep no older ones, unless
    /// they are more than so many bytes or some are on their way. For a group that cannot purge
    /// what it has, because it is not committed, and that stands still. Blocks.
    ///
    /// # Errors
    /// When they cannot be read, or the log is closed.
    pub fn carry(&self, bytes_max: u64) -> io::Result<()> {
        let Some(places) = self.with(|group| group.places()) else { return Ok(()) };
        let bytes: u64 = places.iter().map(|(_, place)| u64::from(place.length)).sum();
        if places.is_empty() || bytes > bytes_max {
            return Ok(());
        }
        let entries = self.read(0..u64::MAX, usize::MAX)?;
        self.change(None, |group| {
            let same = group.places().is_some_and(|now| now == places);
            (same && entries.len() == places.len()).then(|| Write::Carried(entries))
        })
    }

    /// Changes the group and asks for it to be written, both at once: what is written of it has the
    /// order in which it happened. If there is nothing to be written, nobody is called back.
    fn change(
        &self,
        done: Option<Done>,
        change: impl FnOnce(&mut Group) -> Option<Write>,
    ) -> io::Result<()> {
        {
            let mut groups = self.shared.groups.lock();
            let Some(group) = groups.get_mut(&self.number) else { return Ok(()) };
            let Some(write) = change(group) else { return Ok(()) };
            let committed = group.unwritten.take();
            let request = Request { group: self.number, committed, write, done };
            self.queue.send(request).map_err(|_| closed())?;
        }
        if let Some(told) = &self.shared.told {
            told();
        }
        Ok(())
    }

    /// Remembers a vote; `done` is called when it is durable.
    ///
    /// # Errors
    /// When the log is closed.
    pub fn save_vote(&self, vote: Bytes, done: Done) -> io::Result<()> {
        self.must_be_there()?;
        self.with(|group| group.state.vote = Some(vote.clone()));
        self.ask(Write::Vote(vote), Some(done))
    }

    /// Remembers what is committed, and writes it with whatever the group writes next. Nobody needs
    /// it: whoever leads knows. So it is not worth waking the writer.
    pub fn save_committed(&self, point: Point) {
        self.with(|group| {
            group.state.committed = Some(point);
            group.unwritten = Some(point);
            group.waits_since =
                group.last().filter(|last| last.index > point.index).map(|_| Instant::now());
        });
    }

    /// The entries of a range that are there, at most so many bytes of them but one at least.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn read(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<Entry>> {
        let found = self.with(|group| group.find(range));
        let mut entries: Vec<Entry> = Vec::with_capacity(found.len());
        let mut bytes = 0;
        for (point, data) in found {
            let Some(data) = self.data(point, data)? else { break };
            bytes += data.len();
            if bytes > bytes_max && !entries.is_empty() {
                break;
            }
            entries.push(Entry { point, data });
        }
        Ok(entries)
    }

    /// What an entry says that was found in memory or somewhere on disk. Meanwhile it may have been written
    /// elsewhere, or been removed, and its segment with it: `None` if it is gone.
    fn data(&self, point: Point, mut found: Result<Bytes, Place>) -> io::Result<Option<Bytes>> {
        loop {
            let place = match found {
                Ok(data) => return Ok(Some(data)),
                Err(place) => place,
            };
            match self.fetch(point, place) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let now = self.with(|group| group.find(point.index..point.index + 1));
                    match now.into_iter().next() {
                        Some((same, now)) if same == point && now != Err(place) => found = now,
                        Some((same, _)) if same == point => return Err(error),
                        _ => return Ok(None),
                    }
                }
                other => return other.map(Some),
            }
        }
    }

    /// The entries of a range that a replica is sent next, and how long to wait with that: not at all,
    /// unless it is far behind, and the others do well without it.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn to_send(
        &self,
        range: Range<u64>,
        bytes_max: usize,
    ) -> io::Result<(Vec<Entry>, Duration)> {
        let (options, now) = (&self.shared.options, Instant::now());
        let is_paced = self.with(|group| {
            group.has_after(range.start, options.far_bytes) && !group.waits_long(now)
        });
        if !is_paced {
            return Ok((self.read(range, bytes_max)?, Duration::ZERO));
        }
        let entries = self.read(range, options.far_send)?;
        let wait = self.shared.pace.wait(now, bytes(&entries));
        Ok((entries, wait))
    }

    fn fetch(&self, point: Point, place: Place) -> io::Result<Bytes> {
        let length = place.length as usize;
        let bytes = self.shared.files.read_at(place.segment, place.at, length)?;
        match record::read(&bytes) {
            Some((
                record::Record { what: Some(What::Entry(entry) | What::Carried(entry)), .. },
                _,
            )) if entry.point == Some(point) => Ok(entry.data),
            _ => {
                let text = format!(
                    "the log is damaged in segment {:016x} at byte {}: entry {} is not there",
                    place.segment, place.at, point.index
                );
                let error = io::Error::new(io::ErrorKind::InvalidData, text);
                self.shared.fail(&error);
                Err(error)
            }
        }
    }
}
