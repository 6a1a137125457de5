//! What a shard has coming up: the near part of the due index in a [`Wheel`], the rest on disk.
//!
//! Invariant: every stored entry below `bound` is in the wheel, and none at or above it is. New
//! entries below the bound go into the wheel as they are planned; the bound moves on as the wheel
//! empties, and back if the wheel gets too full. So memory is bounded by what fits the wheel, not
//! by the number of jobs, and reading goes on from where it ended.
//!
//! The stored index is the truth. The agenda is a cache of its head that is built again whenever
//! the shard is taken over.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;

use crate::key::{self, DueKey};
use crate::time::{MINUTE_MS, TIME_MAX, Time};
use crate::waist::{Family, Shard, StoreError, View};
use crate::wheel::Wheel;

/// How far ahead the index is read.
const HORIZON_MS: u64 = 2 * MINUTE_MS;
/// Entries read at once.
const CHUNK: usize = 2_048;

/// The upcoming entries of one shard.
#[derive(Debug)]
pub struct Agenda {
    shard: Shard,
    wheel: Wheel<(DueKey, Bytes)>,
    /// Entries that have come up and wait to be taken, in order.
    up: VecDeque<(DueKey, Bytes)>,
    /// Entries in the wheel that are no longer stored.
    removed: BTreeSet<DueKey>,
    bound: Bytes,
    /// The first stored entry at or above the bound, as far as is known.
    beyond: Option<Time>,
    entries_max: usize,
}

impl Agenda {
    /// The agenda of a shard whose stored entries all are at `from` or later. It must be loaded
    /// before it is used.
    #[must_use]
    pub fn new(shard: Shard, from: Time, now: Time, entries_max: usize) -> Agenda {
        Agenda {
            shard,
            wheel: Wheel::new(now),
            up: VecDeque::new(),
            removed: BTreeSet::new(),
            bound: key::due_range(shard, from, from).0,
            beyond: Some(from),
            entries_max,
        }
    }

    /// How many entries are held in memory.
    #[must_use]
    pub fn len(&self) -> usize {
        self.wheel.len() + self.up.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An entry was stored.
    pub fn plan(&mut self, entry: DueKey, value: Bytes) {
        if entry.key(self.shard) >= self.bound {
            self.beyond = Some(self.beyond.map_or(entry.time, |known| known.min(entry.time)));
            return;
        }
        if self.removed.remove(&entry) {
            return; // It had been removed and is stored again, as it was: still in the wheel.
        }
        self.wheel.insert(entry.time, (entry, value));
        if self.wheel.len() > 2 * self.entries_max {
            self.spill();
        }
    }

    /// Puts back the last of what was taken, in order: it is taken first the next time.
    pub fn put_back(&mut self, entries: impl DoubleEndedIterator<Item = (DueKey, Bytes)>) {
        for entry in entries.rev() {
            self.up.push_front(entry);
        }
    }

    /// An entry was removed from the store.
    pub fn unplan(&mut self, entry: DueKey) {
        if entry.key(self.shard) < self.bound {
            self.removed.insert(entry);
        }
    }

    /// Lets go of the later part of an overfull wheel: it is on disk.
    fn spill(&mut self) {
        let mut all = self.wheel.drain();
        all.sort_unstable_by_key(|(_, (entry, _))| *entry);
        let rest = all.split_off(self.entries_max.min(all.len()));
        for (time, entry) in all {
            self.wheel.insert(time, entry);
        }
        if let Some((time, (entry, _))) = rest.first() {
            self.bound = entry.key(self.shard);
            self.beyond = Some(*time);
            for (_, (entry, _)) in &rest {
                self.removed.remove(entry);
            }
        }
    }

    /// Whether [`Agenda::load`] has something to do.
    #[must_use]
    pub fn wants_load(&self, now: Time) -> bool {
        self.beyond.is_some_and(|time| time <= now.plus_ms(HORIZON_MS))
            && self.len() < self.entries_max / 2
    }

    /// Reads on in the index, up to the horizon or until the wheel is full. The view must show
    /// everything that was planned.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn load(&mut self, view: &dyn View, now: Time) -> Result<(), StoreError> {
        // Up to and including the horizon: what wakes the shard must also be read.
        let horizon = now.plus_ms(HORIZON_MS + 1);
        let (horizon_key, end) = key::due_range(self.shard, horizon, TIME_MAX.plus_ms(1));
        while self.bound < horizon_key && self.len() < self.entries_max {
            let mut read = 0;
            let mut last = None;
            for row in view.scan(Family::Due, &self.bound, &horizon_key).take(CHUNK) {
                let (key, value) = row?;
                let entry = DueKey::read(&key)?;
                self.wheel.insert(entry.time, (entry, value));
                last = Some(key);
                read += 1;
            }
            self.bound = match last {
                Some(key) if read == CHUNK => {
                    let mut after = key.to_vec();
                    after.push(0);
                    after.into()
                }
                _ => horizon_key.clone(),
            };
        }
        // Keys end at most 13 bytes after the time; this is after all of them.
        let mut after_all = end.to_vec();
        after_all.push(u8::MAX);
        self.beyond = match view.scan(Family::Due, &self.bound, &after_all).next() {
            Some(row) => Some(DueKey::read(&row?.0)?.time),
            None => None,
        };
        Ok(())
    }

    /// Takes up to `limit` entries that are due at `now`, in the order of their times.
    pub fn take_due(&mut self, now: Time, limit: usize) -> Vec<(DueKey, Bytes)> {
        if self.wheel.next().is_some_and(|next| next <= now) {
            let mut out = Vec::new();
            self.wheel.advance(now, &mut out);
            let in_order = self.up.back().map(|(last, _)| *last);
            self.up.extend(out.into_iter().map(|(_, entry)| entry));
            if self.up.len() > 1 {
                self.up.make_contiguous().sort_unstable_by_key(|(entry, _)| *entry);
            }
            debug_assert!(in_order.is_none() || !self.up.is_empty());
        }
        let mut taken = Vec::new();
        while taken.len() < limit {
            let Some((entry, value)) = self.up.pop_front() else {
                break;
            };
            if !self.removed.remove(&entry) {
                taken.push((entry, value));
            }
        }
        taken
    }

    /// When there is something to do next: an entry that comes up, or one to be read in.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        if let Some((entry, _)) = self.up.front() {
            return Some(entry.time);
        }
        let load = if self.wheel.len() < self.entries_max / 2 {
            self.beyond.map(|time| time.minus_ms(HORIZON_MS))
        } else {
            None
        };
        [self.wheel.next(), load].into_iter().flatten().min()
    }

    /// A time before which no stored entry lies, at `now`: where reading can start again.
    #[must_use]
    pub fn earliest(&self, now: Time) -> Time {
        let up = self.up.front().map(|(entry, _)| entry.time);
        [up, self.wheel.next(), self.beyond].into_iter().flatten().fold(now, Time::min)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::id::JobId;
    use crate::key::DueKind;
    use crate::waist::Rows;

    /// A due index in memory.
    #[derive(Default)]
    struct Index(BTreeMap<Bytes, Bytes>);

    impl View for Index {
        fn get(&self, _: Family, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
            Ok(self.0.get(key).cloned())
        }
        fn scan<'a>(&'a self, _: Family, from: &[u8], to: &[u8]) -> Rows<'a> {
            let (from, to) = (Bytes::copy_from_slice(from), Bytes::copy_from_slice(to));
            Box::new(self.0.range(from..to).map(|(k, v)| Ok((k.clone(), v.clone()))))
        }
        fn scan_back<'a>(&'a self, family: Family, from: &[u8], to: &[u8]) -> Rows<'a> {
            let mut rows: Vec<_> = self.scan(family, from, to).collect();
            rows.reverse();
            Box::new(rows.into_iter())
        }
    }

    fn entry(ms: i64, job: u64) -> DueKey {
        DueKey { time: Time(ms), kind: DueKind::Tick, job: JobId(job), n: 0 }
    }

    proptest! {
        /// Whatever is planned and not unplanned comes up exactly once, in order, at its time,
        /// however small the wheel is.
        #[test]
        fn nothing_is_lost_doubled_or_early(
            stored in prop::collection::vec(0i64..2_000_000, 0..300),
            steps in prop::collection::vec((0i64..900_000, 0i64..200_000, 0u8..4), 1..100),
            entries_max in 4usize..64,
        ) {
            let mut index = Index::default();
            for (number, ms) in stored.iter().enumerate() {
                index.0.insert(entry(*ms, number as u64).key(0), Bytes::new());
            }
            let mut now = 0;
            let mut next_job = 1_000_000;
            let mut agenda = Agenda::new(0, Time(0), Time(now), entries_max);
            for (delay, step, what) in steps {
                if what < 2 {
                    let new = entry(now + delay, next_job);
                    next_job += 1;
                    index.0.insert(new.key(0), Bytes::new());
                    agenda.plan(new, Bytes::new());
                } else if what == 2 && let Some(key) = index.0.keys().last().cloned() {
                    agenda.unplan(DueKey::read(&key).unwrap());
                    index.0.remove(&key);
                }
                now += step;
                loop {
                    if agenda.wants_load(Time(now)) {
                        agenda.load(&index, Time(now)).unwrap();
                    }
                    let taken = agenda.take_due(Time(now), 7);
                    if taken.is_empty() && !agenda.wants_load(Time(now)) {
                        break;
                    }
                    for (due, _) in taken {
                        prop_assert!(due.time <= Time(now));
                        let first = index.0.keys().next().cloned();
                        prop_assert_eq!(first, Some(due.key(0)), "in order, and still stored");
                        index.0.remove(&due.key(0));
                    }
                }
                let first = index.0.keys().next().map(|key| DueKey::read(key).unwrap().time);
                prop_assert!(first.is_none_or(|first| first > Time(now)));
                prop_assert!(first.is_none_or(|first| agenda.earliest(Time(now)) <= first));
                let wake = agenda.next_wake();
                prop_assert!(first.is_none() || wake.is_some_and(|wake| Some(wake) <= first));
            }
        }
    }

    #[test]
    fn r14_an_empty_agenda_never_wakes() {
        let index = Index::default();
        let mut agenda = Agenda::new(0, Time(0), Time(5), 100);
        agenda.load(&index, Time(5)).unwrap();
        assert_eq!(agenda.next_wake(), None);
        assert!(!agenda.wants_load(Time(1_000_000_000)));
    }

    #[test]
    fn r4_an_earlier_entry_added_later_moves_the_wake_up_forward() {
        let index = Index::default();
        let mut agenda = Agenda::new(0, Time(0), Time(0), 100);
        agenda.load(&index, Time(0)).unwrap();
        agenda.plan(entry(10_000, 1), Bytes::new());
        let late = agenda.next_wake().unwrap();
        agenda.plan(entry(1_000, 2), Bytes::new());
        let early = agenda.next_wake().unwrap();
        assert!(early <= Time(1_000) && late > Time(1_000), "{early:?} {late:?}");
    }
}
