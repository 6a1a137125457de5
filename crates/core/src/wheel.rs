//! A hierarchical timing wheel: what is due in the near future, in constant time per entry (R101).
//!
//! Six levels of 64 slots. A slot of the lowest level is one millisecond, a slot of each level
//! above spans all 64 of the one below. An entry goes into the slot that its time falls into at the
//! highest level where that differs from the present; when the present reaches such a slot, its
//! entries move down. So an entry is touched at most six times, however many there are. A bitmap a
//! level says which slots are occupied, so that finding the next one is a matter of a few
//! instructions and an idle wheel costs nothing.
//!
//! The wheel has no clock. It is told the present, which must not go back; entries in the past are
//! handed out with the next ones.

use crate::time::Time;

const LEVELS: usize = 6;
const SLOT_BITS: usize = 6;
const SLOTS: usize = 1 << SLOT_BITS;

/// A wheel of entries of type `T`.
#[derive(Debug)]
pub struct Wheel<T> {
    /// All entries up to here have been handed out or are in `late`.
    present_ms: u64,
    levels: Vec<Level<T>>,
    /// Entries that were in the past when they were added.
    late: Vec<(Time, T)>,
    /// The earliest of these.
    late_first: Time,
    /// Entries beyond the highest level.
    far: Vec<(Time, T)>,
    len: usize,
}

#[derive(Debug)]
struct Level<T> {
    occupied: u64,
    slots: [Vec<(Time, T)>; SLOTS],
}

impl<T> Wheel<T> {
    /// An empty wheel that stands at `present`.
    #[must_use]
    pub fn new(present: Time) -> Wheel<T> {
        let level = || Level { occupied: 0, slots: std::array::from_fn(|_| Vec::new()) };
        Wheel {
            present_ms: to_ms(present),
            levels: (0..LEVELS).map(|_| level()).collect(),
            late: Vec::new(),
            late_first: Time(i64::MAX),
            far: Vec::new(),
            len: 0,
        }
    }

    /// How many entries it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an entry.
    pub fn insert(&mut self, time: Time, entry: T) {
        self.len += 1;
        self.place(time, entry);
    }

    fn place(&mut self, time: Time, entry: T) {
        let ms = to_ms(time);
        if ms <= self.present_ms {
            self.late_first = self.late_first.min(time);
            self.late.push((time, entry));
            return;
        }
        // The highest bit in which the two differ decides the level.
        let differ = (ms ^ self.present_ms) | (SLOTS as u64 - 1);
        let level = (63 - differ.leading_zeros() as usize) / SLOT_BITS;
        if level >= LEVELS {
            self.far.push((time, entry));
            return;
        }
        let slot = (ms >> (level * SLOT_BITS)) as usize % SLOTS;
        let level = &mut self.levels[level];
        level.occupied |= 1 << slot;
        level.slots[slot].push((time, entry));
    }

    /// When the wheel next wants to be advanced; `None` if it is empty. Never later than its
    /// earliest entry, but it may be earlier.
    #[must_use]
    pub fn next(&self) -> Option<Time> {
        if !self.late.is_empty() {
            return Some(self.late_first);
        }
        self.next_slot().map(|(_, _, ms)| to_time(ms))
    }

    /// The next occupied slot: level, slot and when it begins.
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        for (number, level) in self.levels.iter().enumerate() {
            if level.occupied == 0 {
                continue;
            }
            let shift = number * SLOT_BITS;
            let here = (self.present_ms >> shift) as usize % SLOTS;
            // Slots of a level lie after the present one, within one turn of the level above.
            let ahead = level.occupied.rotate_right(here as u32).trailing_zeros() as usize;
            let slot = (here + ahead) % SLOTS;
            let turn = (self.present_ms >> (shift + SLOT_BITS)) << (shift + SLOT_BITS);
            return Some((number, slot, turn + ((slot as u64) << shift)));
        }
        let far = self.far.iter().map(|(time, _)| to_ms(*time)).min()?;
        Some((LEVELS, 0, (far >> (LEVELS * SLOT_BITS)) << (LEVELS * SLOT_BITS)))
    }

    /// Moves the present on and hands out all entries up to and including `now`, in no order.
    pub fn advance(&mut self, now: Time, out: &mut Vec<(Time, T)>) {
        let now_ms = to_ms(now);
        let before = out.len();
        self.hand_out_late(now, out);
        while let Some((level, slot, begins_ms)) = self.next_slot() {
            if begins_ms > now_ms {
                break;
            }
            self.present_ms = self.present_ms.max(begins_ms);
            let entries = if level == LEVELS {
                std::mem::take(&mut self.far)
            } else {
                self.levels[level].occupied &= !(1 << slot);
                std::mem::take(&mut self.levels[level].slots[slot])
            };
            if level == 0 {
                out.extend(entries);
            } else {
                for (time, entry) in entries {
                    self.place(time, entry);
                }
                self.hand_out_late(now, out);
            }
        }
        self.present_ms = self.present_ms.max(now_ms);
        self.len -= out.len() - before;
    }

    /// Hands out entries of the past. If the clock went back, some of them are in its future.
    fn hand_out_late(&mut self, now: Time, out: &mut Vec<(Time, T)>) {
        self.late_first = Time(i64::MAX);
        for (time, entry) in std::mem::take(&mut self.late) {
            if time <= now {
                out.push((time, entry));
            } else {
                self.late_first = self.late_first.min(time);
                self.late.push((time, entry));
            }
        }
    }

    /// Takes all entries out, in no order.
    pub fn drain(&mut self) -> Vec<(Time, T)> {
        let mut all = std::mem::take(&mut self.late);
        self.late_first = Time(i64::MAX);
        all.append(&mut self.far);
        for level in &mut self.levels {
            level.occupied = 0;
            for slot in &mut level.slots {
                all.append(slot);
            }
        }
        self.len = 0;
        all
    }
}

/// Times before 1970 are as late as 1970 itself.
fn to_ms(time: Time) -> u64 {
    u64::try_from(time.0).unwrap_or(0)
}

fn to_time(ms: u64) -> Time {
    Time(i64::try_from(ms).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a sorted list: whatever is inserted comes out exactly once, not early, and not
        /// later than the first advance at or after its time; waking at `next` misses nothing.
        #[test]
        fn r101_agrees_with_a_sorted_list(
            start in 0i64..2_000_000_000_000,
            steps in prop::collection::vec((0i64..400_000_000, 0u64..500_000, any::<bool>()), 1..200),
        ) {
            let mut wheel = Wheel::new(Time(start));
            let mut model: Vec<(i64, usize)> = Vec::new();
            let mut now = start;
            for (number, (delay, step, far)) in steps.into_iter().enumerate() {
                let at = now + if far { delay * 1_000 } else { delay % 300_000 } - 50;
                wheel.insert(Time(at), number);
                model.push((at, number));
                now = match (step % 3, wheel.next()) {
                    (0, Some(next)) => now.max(next.0),
                    _ => now + step as i64,
                };
                let mut out = Vec::new();
                wheel.advance(Time(now), &mut out);
                let mut got: Vec<usize> = out.into_iter().map(|(_, n)| n).collect();
                got.sort_unstable();
                let mut due: Vec<usize> =
                    model.iter().filter(|(at, _)| *at <= now).map(|(_, n)| *n).collect();
                due.sort_unstable();
                model.retain(|(at, _)| *at > now);
                prop_assert_eq!(got, due);
                prop_assert_eq!(wheel.len(), model.len());
                let earliest = model.iter().map(|(at, _)| *at).min();
                prop_assert!(wheel.next().map(|t| t.0) <= earliest || earliest.is_none());
                prop_assert_eq!(wheel.next().is_none(), earliest.is_none());
            }
        }
    }

    #[test]
    fn an_entry_in_the_past_is_known_by_its_own_time() {
        let mut wheel = Wheel::new(Time(1_000));
        wheel.insert(Time(700), 1);
        wheel.insert(Time(900), 2);
        assert_eq!(wheel.next(), Some(Time(700)), "never later than the earliest entry");
        let mut out = Vec::new();
        wheel.advance(Time(800), &mut out);
        assert_eq!(out, [(Time(700), 1)], "not early, though the clock went back");
        assert_eq!((wheel.next(), wheel.len()), (Some(Time(900)), 1));
    }

    #[test]
    fn draining_empties_it() {
        let mut wheel = Wheel::new(Time(1_000));
        for ms in [500, 1_001, 70_000, 90_000_000_000_000] {
            wheel.insert(Time(ms), ms);
        }
        assert_eq!(wheel.drain().len(), 4);
        assert!(wheel.is_empty() && wheel.next().is_none());
    }
}
