//! From wall-clock matches to instants, through every change of the zone's clock.
//!
//! Time is cut into stretches of constant offset. Inside one, wall clock and instants run in step;
//! only at its edges is there something to decide:
//!
//! ```text
//!  gap   wall 01:59 ─┐┌─ 03:00      matches in 02:00‥03:00: one tick at the edge, or none
//!                    ││
//!  fold  wall 02:59 ─┐┌─ 02:00      matches in 02:00‥03:00: in the stretch before the edge,
//!                    ││             in the one after it, or in both
//! ```
//!
//! Whatever the size of the change: half an hour (Lord Howe), a whole day (Apia in 2011), at
//! midnight, in summer or in winter.

use super::cron::Pattern;
use super::spec::{Dst, Fold, Gap};
use super::wall::{DAY_S, Wall};
use super::zone::{EARLIEST_S, LATEST_S, Stretch, Zone};
use crate::time::Time;

/// No two offsets of a zone differ by more than this, so that further away than this wall-clock
/// order is the order of instants.
const OFFSET_SPREAD_S: i64 = 2 * DAY_S;

/// A cron rule with its policy for clock changes.
#[derive(Clone, Debug)]
pub(super) struct CronTicks {
    pub(super) pattern: Pattern,
    gap: Gap,
    fold: Fold,
}

impl CronTicks {
    /// Fills the policy's blanks with cron's own rule.
    pub(super) fn new(pattern: Pattern, dst: Dst) -> CronTicks {
        let (gap, fold) = if pattern.follows_wall_clock() {
            (Gap::Skip, Fold::Both)
        } else {
            (Gap::RunAfter, Fold::First)
        };
        CronTicks { pattern, gap: dst.gap.unwrap_or(gap), fold: dst.fold.unwrap_or(fold) }
    }

    /// The first tick strictly later than an instant.
    pub(super) fn next_after(&self, zone: &Zone, after: Time) -> Option<Time> {
        let begin = (after.0.div_euclid(1_000) + 1).max(EARLIEST_S);
        let mut second = begin;
        while second <= LATEST_S {
            let stretch = zone.stretch_at(second)?;
            let (tick, next_match) = self.next_in(&stretch, second);
            if let Some(tick) = tick {
                return (tick <= LATEST_S).then_some(Time(tick * 1_000));
            }
            second = stretch.end?;
            // Far from where we began, no fold can bring an earlier wall time back: pass over the
            // stretches in which nothing can match.
            if second > begin + OFFSET_SPREAD_S {
                second = second.max(next_match?.0 - OFFSET_SPREAD_S);
            }
        }
        None
    }

    /// The first tick of a stretch at or after a second of it, and the next wall-clock match.
    fn next_in(&self, stretch: &Stretch, second: i64) -> (Option<i64>, Option<Wall>) {
        let mut from = second + stretch.offset;
        if let Some(start) = stretch.start {
            let (wall_before, wall_start) = (start + stretch.offset_before, start + stretch.offset);
            let gap_matched = || {
                let matched = self.pattern.next_from(Wall(wall_before));
                matched.is_some_and(|matched| matched < Wall(wall_start))
            };
            if second == start
                && wall_before < wall_start
                && self.gap == Gap::RunAfter
                && gap_matched()
            {
                return (Some(start), None);
            }
            if self.fold == Fold::First {
                // Above `from` only in a fold, where it is the end of the repeated part.
                from = from.max(wall_before);
            }
        }
        let next_match = self.pattern.next_from(Wall(from));
        let Some(Wall(matched)) = next_match else { return (None, None) };
        let ends_before = stretch.end.map(|end| {
            let wall_end = end + stretch.offset;
            // The repeated part belongs to the next stretch.
            if self.fold == Fold::Second {
                wall_end.min(end + stretch.offset_after)
            } else {
                wall_end
            }
        });
        let inside = ends_before.is_none_or(|wall_end| matched < wall_end);
        (inside.then_some(matched - stretch.offset), next_match)
    }
}
