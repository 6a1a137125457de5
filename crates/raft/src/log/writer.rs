//! The one writer of a node's log: it gathers what all groups want to write, writes it in one go,
//! syncs once, and then calls back.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::time::Instant;

use super::group::{Entry, GroupState, Place};
use super::record::{
    self, Cut, Forgotten, MAGIC, Mark, Point, Record, SEGMENT_HEADER, StoredEntry, What,
};
use super::{Done, Shared};

/// Something to be written for a group.
pub(super) enum Write {
    Entries(Vec<Entry>),
    Vote(Bytes),
    Truncated(Option<Point>),
    Purged(Point),
    /// All entries of the group, which are to be written once more.
    Carried(Vec<Entry>),
    Forgotten,
    /// Nothing: the log is to be closed.
    Close,
}

pub(super) struct Request {
    pub group: u16,
    /// What the group has found to be committed before.
    pub committed: Option<Point>,
    pub write: Write,
    /// Who waits for it to be durable.
    pub done: Option<Done>,
}

impl Request {
    /// That the log is to be closed.
    pub fn close() -> Request {
        Request { group: 0, committed: None, write: Write::Close, done: None }
    }
}

/// What is known of a segment.
#[derive(Debug, Default)]
pub(super) struct Segment {
    /// The highest index of each group that has entries in it.
    pub highest: HashMap<u16, u64>,
}

impl Segment {
    /// Entries of a group after this one are void: they keep nothing alive.
    fn truncate(&mut self, group: u16, after: Option<Point>) {
        match (self.highest.get_mut(&group), after) {
            (Some(highest), Some(after)) => *highest = after.index.min(*highest),
            (Some(_), None) => drop(self.highest.remove(&group)),
            (None, _) => {}
        }
    }
}

pub(super) struct Writer {
    shared: Arc<Shared>,
    /// All segments, the one that is written last.
    segments: BTreeMap<u64, Segment>,
    /// Bytes in the segment that is written.
    length: u64,
    /// How many of them have been synced.
    durable: u64,
    /// How the groups stand after everything that has been written.
    states: BTreeMap<u16, GroupState>,
}

impl Writer {
    pub fn new(
        shared: Arc<Shared>,
        segments: BTreeMap<u64, Segment>,
        length: u64,
        states: BTreeMap<u16, GroupState>,
    ) -> Writer {
        // What was found at the start has been synced.
        Writer { shared, segments, length, durable: length, states }
    }

    /// Whether the log is to be closed.
    pub fn is_closing(&self) -> bool {
        self.shared.closing.load(Ordering::Acquire)
    }

    /// Writes what was asked for, in order, and says so to those who wait.
    pub fn write(&mut self, requests: Vec<Request>) {
        *self.shared.writing.lock() = Some(Instant::now());
        let mut waiting = Vec::new();
        let written = match self.shared.failure() {
            Some(error) => {
                waiting.extend(requests.into_iter().filter_map(|request| request.done));
                Err(error)
            }
            None => self.write_all(requests, &mut waiting),
        };
        if let Err(error) = &written {
            self.shared.fail(error);
        }
        *self.shared.writing.lock() = None;
        for done in waiting {
            done(written.as_ref().map_or_else(|e| Err(copy(e)), |()| Ok(())));
        }
    }

    fn write_all(&mut self, requests: Vec<Request>, waiting: &mut Vec<Done>) -> io::Result<()> {
        let mut requests = requests.into_iter();
        let result = self.gather(&mut requests, waiting);
        // Should it have failed half-way, the others are told as well.
        waiting.extend(requests.filter_map(|request| request.done));
        result
    }

    fn gather(
        &mut self,
        requests: &mut std::vec::IntoIter<Request>,
        waiting: &mut Vec<Done>,
    ) -> io::Result<()> {
        if self.segments.is_empty() || self.length >= self.shared.options.segment_bytes {
            self.begin_segment()?;
        }
        let segment = self.segment();
        let mut buffer = BytesMut::new();
        let mark = What::Mark(Mark { durable: self.durable });
        record::write(&Record { group: 0, what: Some(mark) }, &mut buffer);
        let mut places = Vec::new();
        let mut purged = false;
        for request in requests.by_ref() {
            let Request { group, committed, write, done } = request;
            waiting.extend(done);
            if let Some(point) = committed {
                self.states.entry(group).or_default().committed = Some(point);
                let what = Some(What::Committed(point));
                record::write(&Record { group: u32::from(group), what }, &mut buffer);
            }
            purged |= matches!(write, Write::Purged(_) | Write::Carried(_) | Write::Forgotten);
            self.add(group, write, segment, &mut buffer, &mut places);
        }
        let files = &self.shared.files;
        files.append(segment, &buffer)?;
        self.length += buffer.len() as u64;
        if !waiting.is_empty() {
            files.sync(segment)?;
            self.durable = self.length;
        }
        self.shared.placed(places);
        if purged {
            self.remove_segments()?;
        }
        Ok(())
    }

    fn segment(&self) -> u64 {
        self.segments.last_key_value().map_or(0, |(number, _)| *number)
    }

    /// Adds the records of a request to what is to be written.
    fn add(
        &mut self,
        group: u16,
        write: Write,
        segment: u64,
        buffer: &mut BytesMut,
        places: &mut Vec<(u16, Point, Place)>,
    ) {
        if let Write::Close = write {
            return;
        }
        let state = self.states.entry(group).or_default();
        let what = match write {
            Write::Entries(entries) => {
                for Entry { point, data } in entries {
                    let what = What::Entry(StoredEntry { point: Some(point), data });
                    self.add_entry(group, point, what, segment, buffer, places);
                }
                return;
            }
            Write::Carried(entries) => {
                for known in self.segments.values_mut() {
                    known.highest.remove(&group);
                }
                // The last one first: if only some of them become durable, those before are where
                // they were, and older ones are still in older segments.
                for Entry { point, data } in entries.into_iter().rev() {
                    let what = What::Carried(StoredEntry { point: Some(point), data });
                    self.add_entry(group, point, what, segment, buffer, places);
                }
                return;
            }
            Write::Vote(vote) => {
                state.vote = Some(vote.clone());
                What::Vote(vote)
            }
            Write::Truncated(after) => {
                for segment in self.segments.values_mut() {
                    segment.truncate(group, after);
                }
                What::Truncated(Cut { after })
            }
            Write::Purged(point) => {
                state.purged = Some(point);
                What::Purged(point)
            }
            Write::Close => return, // Dealt with above.
            Write::Forgotten => {
                self.states.remove(&group);
                for segment in self.segments.values_mut() {
                    segment.highest.remove(&group);
                }
                What::Forgotten(Forgotten {})
            }
        };
        record::write(&Record { group: u32::from(group), what: Some(what) }, buffer);
    }

    fn add_entry(
        &mut self,
        group: u16,
        point: Point,
        what: What,
        segment: u64,
        buffer: &mut BytesMut,
        places: &mut Vec<(u16, Point, Place)>,
    ) {
        let before = buffer.len();
        let at = self.length + before as u64;
        record::write(&Record { group: u32::from(group), what: Some(what) }, buffer);
        let length = (buffer.len() - before) as u32;
        places.push((group, point, Place { segment, at, length }));
        if let Some(segment) = self.segments.get_mut(&segment) {
            let highest = segment.highest.entry(group).or_insert(point.index);
            *highest = point.index.max(*highest);
        }
    }

    /// Begins a segment with all that is to be known if it is the oldest one day.
    fn begin_segment(&mut self) -> io::Result<()> {
        let number = self.segments.last_key_value().map_or(1, |(number, _)| number + 1);
        let mut buffer = BytesMut::new();
        buffer.put_slice(MAGIC);
        buffer.put_u64_le(number);
        debug_assert_eq!(buffer.len() as u64, SEGMENT_HEADER);
        for (group, state) in &self.states {
            let whats = [
                state.vote.clone().map(What::Vote),
                state.purged.map(What::Purged),
                state.committed.map(What::Committed),
            ];
            for what in whats.into_iter().flatten() {
                record::write(&Record { group: u32::from(*group), what: Some(what) }, &mut buffer);
            }
        }
        let files = &self.shared.files;
        if let Some((last, _)) = self.segments.last_key_value() {
            files.finish(*last)?; // What is in it and nobody waited for must not be missing before this.
        }
        files.create(number)?;
        files.append(number, &buffer)?;
        files.sync(number)?;
        self.length = buffer.len() as u64;
        self.durable = self.length;
        self.segments.insert(number, Segment::default());
        Ok(())
    }

    /// Removes the oldest segments that nobody needs.
    fn remove_segments(&mut self) -> io::Result<()> {
        while self.segments.len() > 1 {
            let Some((number, segment)) = self.segments.first_key_value() else { break };
            let needed = segment.highest.iter().any(|(group, highest)| {
                let purged = self.states.get(group).and_then(|state| state.purged);
                purged.is_none_or(|purged| purged.index < *highest)
            });
            if needed {
                break;
            }
            let number = *number;
            // The next one must tell of the purge by itself.
            self.shared.files.sync(self.segment())?;
            self.shared.files.remove(number)?;
            self.segments.remove(&number);
        }
        Ok(())
    }
}

/// An error for each of those who wait.
pub(super) fn copy(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}
