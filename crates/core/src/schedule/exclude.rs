//! Exceptions: which ticks are taken out, and how far one may skip ahead.

use super::cron::Pattern;
use super::wall::Wall;
use super::zone::Zone;
use crate::time::Time;

/// A compiled exception.
#[derive(Clone, Debug)]
pub(super) enum Exclusion {
    /// All instants whose wall clock matches; without a seconds field, the whole minute.
    Cron(Box<Pattern>),
    /// The instants of a grid.
    Every {
        /// Where the grid is anchored.
        origin: Time,
        /// Its period.
        period_ms: u64,
    },
    /// One instant.
    At(Time),
}

impl Exclusion {
    /// If the instant is excluded: a later one before which all are, so that a search can go on
    /// from there.
    pub(super) fn covers_until(&self, zone: &Zone, tick: Time) -> Option<Time> {
        match self {
            Exclusion::At(time) => (*time == tick).then(|| tick.plus_ms(1)),
            Exclusion::Every { origin, period_ms } => {
                let period = i64::try_from(*period_ms).ok()?;
                let on_grid = tick.0.saturating_sub(origin.0).rem_euclid(period) == 0;
                on_grid.then(|| tick.plus_ms(1))
            }
            Exclusion::Cron(pattern) => {
                let second = tick.0.div_euclid(1_000);
                let offset = zone.offset_at(second);
                let wall = Wall(second + offset);
                if !pattern.covers(wall) {
                    return None;
                }
                // Beyond the stretch the wall clock is another one and has to be asked again.
                let end = pattern.covered_until(wall).0 - offset;
                let stretch_end = zone.stretch_at(second)?.end.unwrap_or(i64::MAX);
                Some(Time(end.min(stretch_end).saturating_mul(1_000)))
            }
        }
    }
}
