//! The log of one group, in memory: what is in it, and where on disk.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::record::Point;

/// How long entries may take to be committed, if most nodes are up.
const LONG: Duration = Duration::from_secs(1);

/// An entry of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its place.
    pub point: Point,
    /// What it says, in the caller's encoding.
    pub data: Bytes,
}

/// What a group has to remember besides its entries.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupState {
    /// Whom it has voted for, in the caller's encoding.
    pub vote: Option<Bytes>,
    /// The last entry known to be committed.
    pub committed: Option<Point>,
    /// The last entry that was purged.
    pub purged: Option<Point>,
}

/// Where a record lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub segment: u64,
    pub at: u64,
    pub length: u32,
}

#[derive(Debug)]
struct Slot {
    point: Point,
    /// Where it has been written; `None` while it is on its way.
    place: Option<Place>,
    /// Itself, unless it has been dropped from memory.
    data: Option<Bytes>,
    bytes: usize,
}

impl Slot {
    /// Bytes on disk.
    fn size(&self) -> u64 {
        self.place.map_or(self.bytes as u64, |place| u64::from(place.length))
    }
}

/// The log of one group.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub state: GroupState,
    /// What is committed, if that is yet to be written: with whatever comes next.
    pub unwritten: Option<Point>,
    /// Since when there are entries that are yet to be committed, and none is.
    pub waits_since: Option<Instant>,
    slots: VecDeque<Slot>,
    /// Index of the first slot, if there is any.
    first: u64,
    /// Bytes of entries in memory.
    cached: usize,
    /// Slots before this have been dropped from memory.
    dropped: usize,
}

fn hole(expected: u64, found: u64) -> io::Error {
    io::Error::other(format!("the log has a hole: {expected} is missing, {found} follows"))
}

impl Group {
    /// The last entry, or the last that was purged.
    pub fn last(&self) -> Option<Point> {
        self.slots.back().map(|slot| slot.point).or(self.state.purged)
    }

    /// The indexes of all entries.
    pub fn range(&self) -> Range<u64> {
        self.first..self.first + self.slots.len() as u64
    }

    /// Adds an entry. One that is not the next is refused: a log has no holes.
    pub fn push(
        &mut self,
        point: Point,
        data: Option<Bytes>,
        place: Option<Place>,
    ) -> io::Result<()> {
        if self.slots.is_empty() {
            self.first = point.index;
        } else if point.index != self.range().end {
            return Err(hole(self.range().end, point.index));
        }
        let bytes = data.as_ref().map_or(0, Bytes::len);
        self.cached += bytes;
        self.slots.push_back(Slot { point, place, data, bytes });
        Ok(())
    }

    /// Notes where an entry has been written, unless it was cut off or replaced since.
    pub fn written(&mut self, point: Point, place: Place) {
        if let Some(at) = self.position(point.index)
            && self.slots[at].point == point
        {
            self.slots[at].place = Some(place);
        }
    }

    /// An entry was found where it has been carried. Of several, the last one comes first.
    pub fn carried(&mut self, point: Point, place: Place) {
        if self.position(point.index).is_some() {
            self.written(point, place);
        } else if self.slots.is_empty() || point.index + 1 == self.first {
            self.first = point.index;
            self.slots.push_front(Slot { point, place: Some(place), data: None, bytes: 0 });
        }
    }

    /// All entries and where they are; `None` while some are on their way.
    pub fn places(&self) -> Option<Vec<(Point, Place)>> {
        self.slots.iter().map(|slot| Some((slot.point, slot.place?))).collect()
    }

    fn position(&self, index: u64) -> Option<usize> {
        self.range().contains(&index).then(|| (index - self.first) as usize)
    }

    /// Removes all entries after this one.
    pub fn truncate(&mut self, after: Option<Point>) {
        let keep = match after {
            Some(point) if point.index >= self.first => {
                (point.index - self.first + 1).min(self.slots.len() as u64) as usize
            }
            _ => 0,
        };
        for slot in self.slots.drain(keep..) {
            self.cached -= if slot.data.is_some() { slot.bytes } else { 0 };
        }
        self.dropped = self.dropped.min(keep);
    }

    /// Removes all entries up to this one.
    pub fn purge(&mut self, upto: Point) {
        while let Some(slot) = self.slots.front() {
            if slot.point.index > upto.index {
                break;
            }
            self.cached -= if slot.data.is_some() { slot.bytes } else { 0 };
            self.slots.pop_front();
            self.first += 1;
            self.dropped = self.dropped.saturating_sub(1);
        }
        if self.slots.is_empty() {
            self.first = upto.index + 1;
        }
        self.state.purged = Some(upto);
    }

    /// Whether there are so many bytes of entries after this one.
    pub fn has_after(&self, index: u64, bytes: u64) -> bool {
        let after = (self.range().end.saturating_sub(index + 1) as usize).min(self.slots.len());
        let mut sizes = self.slots.iter().rev().take(after).map(Slot::size);
        let mut sum = 0;
        sizes.any(|size| {
            sum += size;
            sum >= bytes
        })
    }

    /// Whether entries have been there for long without one of them being committed: so whoever is
    /// behind is needed.
    pub fn waits_long(&self, now: Instant) -> bool {
        self.waits_since.is_some_and(|since| now.saturating_duration_since(since) > LONG)
    }

    /// The last entry that lies in a segment before this one.
    pub fn last_before(&self, segment: u64) -> Option<u64> {
        let is_before =
            |slot: &Slot| slot.place.as_ref().is_some_and(|place| place.segment < segment);
        let before = self.slots.partition_point(is_before) as u64;
        before.checked_sub(1).map(|at| self.first + at)
    }

    /// The segment of the oldest entry that has been written.
    pub fn oldest_segment(&self) -> Option<u64> {
        self.slots.front()?.place.map(|place| place.segment)
    }

    /// The segment of the newest entry that has been written.
    pub fn newest_segment(&self) -> Option<u64> {
        self.slots.iter().rev().find_map(|slot| slot.place).map(|place| place.segment)
    }

    /// Drops the oldest entries from memory that have been written, until what is left is small
    /// enough.
    pub fn drop_from_memory(&mut self, bytes_max: usize) {
        while self.cached > bytes_max && self.dropped < self.slots.len() {
            let slot = &mut self.slots[self.dropped];
            if slot.place.is_none() {
                return;
            }
            if slot.data.take().is_some() {
                self.cached -= slot.bytes;
            }
            self.dropped += 1;
        }
    }

    /// The entries of a range that are there: in memory, or where they are on disk.
    pub fn find(&self, range: Range<u64>) -> Vec<(Point, Result<Bytes, Place>)> {
        let from = range.start.max(self.first);
        let to = range.end.min(self.range().end);
        let slots = (from..to).filter_map(|index| self.slots.get((index - self.first) as usize));
        slots
            .filter_map(|slot| {
                let found = match (&slot.data, slot.place) {
                    (Some(data), _) => Ok(data.clone()),
                    (None, Some(place)) => Err(place),
                    (None, None) => return None,
                };
                Some((slot.point, found))
            })
            .collect()
    }

    /// Checks that what was read from disk is whole.
    pub fn check(&self) -> io::Result<()> {
        match self.state.purged {
            Some(purged) if !self.slots.is_empty() && self.first != purged.index + 1 => {
                Err(hole(purged.index + 1, self.first))
            }
            _ => Ok(()),
        }
    }
}
