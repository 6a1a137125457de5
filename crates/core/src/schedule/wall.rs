//! Wall-clock time without a zone, at the resolution of cron: one second.
//!
//! A [`Wall`] is what a clock on a wall shows, counted in seconds as if that clock were UTC. Adding
//! the zone's offset to an instant gives a `Wall`; going back needs the policy in `ticks.rs`,
//! because a wall time can name no instant or two.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::Offset;

/// Seconds in a day of the wall clock.
pub(super) const DAY_S: i64 = 86_400;

/// A wall-clock second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Wall(pub(super) i64);

impl Wall {
    /// The wall time of a date and a second of that day.
    pub(super) fn new(date: Date, second_of_day: u32) -> Option<Wall> {
        let midnight = Offset::UTC.to_timestamp(date.to_datetime(jiff::civil::Time::midnight()));
        Some(Wall(midnight.ok()?.as_second() + i64::from(second_of_day)))
    }

    /// The date and the second of that day; `None` outside the calendar that `jiff` covers.
    pub(super) fn split(self) -> Option<(Date, u32)> {
        let second_of_day = u32::try_from(self.0.rem_euclid(DAY_S)).ok()?;
        let date = Offset::UTC.to_datetime(Timestamp::from_second(self.0).ok()?).date();
        Some((date, second_of_day))
    }

    /// The first second of the next unit of so many seconds.
    pub(super) fn next_multiple(self, unit_s: i64) -> Wall {
        Wall((self.0.div_euclid(unit_s) + 1) * unit_s)
    }
}

/// The lowest set bit at or above `from`.
pub(super) fn next_bit(mask: u64, from: u32) -> Option<u32> {
    let above = mask.checked_shr(from)?;
    (above != 0).then(|| from + above.trailing_zeros())
}
