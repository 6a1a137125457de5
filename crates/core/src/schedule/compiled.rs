//! The compiled schedule: the union of its rules, minus the exceptions, within its bounds.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::compile::{EARLIEST, Source, can_match, check_bounds, exclusion, never, source};
use super::describe;
use super::error::ScheduleError;
use super::exclude::Exclusion;
use super::spec::ScheduleSpec;
use super::zone::Zone;
use crate::time::{TIME_MAX, Time};

/// How many excepted ticks, or runs of them, a search passes before it gives up. Enough for years of
/// office hours; too few only for exceptions that alternate second by second or minute by minute.
const EXCLUDED_MAX: usize = 20_000;

/// The delay of a tick, from zero to `most_ms`; see [`Schedule::jitter_ms`].
#[must_use]
pub fn jitter_ms(most_ms: u64, identity: &str, tick: Time) -> u64 {
    match most_ms {
        0 => 0,
        most => xxh3_64_with_seed(identity.as_bytes(), tick.0.cast_unsigned()) % (most + 1),
    }
}

/// A schedule that has been checked and answers when it is due. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Schedule {
    inner: Arc<Inner>,
}

/// What [`Schedule`] shares between its clones.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) zone: Zone,
    pub(super) any: Vec<Source>,
    pub(super) except: Vec<Exclusion>,
    pub(super) start: Option<Time>,
    pub(super) end: Option<Time>,
    pub(super) spec: ScheduleSpec,
}

impl Schedule {
    /// Checks and compiles a schedule.
    ///
    /// `identity` is stable text that decides what `H` stands for, such as `namespace/key`.
    /// `anchor` is the instant of creation: `delay` counts from it, and so does `every` if there is
    /// no `start`. Compile a stored schedule with the anchor it was created with.
    ///
    /// # Errors
    /// A [`ScheduleError`] that names the field; `never_fires` if no tick can come after `anchor`.
    pub fn compile(
        spec: &ScheduleSpec,
        identity: &str,
        anchor: Time,
    ) -> Result<Schedule, ScheduleError> {
        check_bounds(spec)?;
        let zone = Zone::get(&spec.timezone)?;
        let mut any = Vec::with_capacity(spec.any.len());
        for (index, rule) in spec.any.iter().enumerate() {
            let source = source(rule, spec, identity, anchor)
                .and_then(|source| can_match(source, &zone))
                .map_err(|error| error.at(format!("any[{index}]")))?;
            any.push(source);
        }
        let mut except = Vec::with_capacity(spec.except.len());
        for (index, rule) in spec.except.iter().enumerate() {
            let exclusion = exclusion(rule, spec, identity, anchor)
                .map_err(|error| error.at(format!("except[{index}]")))?;
            except.push(exclusion);
        }
        let (start, end) = (spec.start, spec.end);
        let inner = Inner { zone, any, except, start, end, spec: spec.clone() };
        let schedule = Schedule { inner: Arc::new(inner) };
        schedule.check_fires(anchor)?;
        Ok(schedule)
    }

    /// The first tick strictly later than `after`, within `start` and `end`. It knows nothing of
    /// `max_runs` and jitter. A rule that counts from the last end contributes its first tick only;
    /// afterwards ask [`Schedule::next_after_finish`].
    #[must_use]
    pub fn next_after(&self, after: Time) -> Option<Time> {
        let Inner { zone, any, .. } = &*self.inner;
        if let [only] = any.as_slice() {
            return self.first_kept(after, |after| only.next_after(zone, after));
        }
        // Of several rules, only those that have been passed are asked again.
        let mut next: Vec<Option<Time>> = vec![Some(EARLIEST); any.len()];
        self.first_kept(after, |after| {
            for (source, next) in any.iter().zip(&mut next) {
                if next.is_some_and(|next| next <= after) {
                    *next = source.next_after(zone, after);
                }
            }
            next.iter().flatten().min().copied()
        })
    }

    /// The next tick of a schedule that counts from the end of the last run, given that end.
    #[must_use]
    pub fn next_after_finish(&self, finished: Time) -> Option<Time> {
        let inner = &*self.inner;
        let from_finish = inner.any.iter().filter_map(|source| match source {
            Source::AfterFinish { period_ms, .. } => {
                // Excepted instants are passed in whole periods.
                let grid =
                    Source::Grid { first: finished.plus_ms(*period_ms), period_ms: *period_ms };
                self.first_kept(finished, |after| grid.next_after(&inner.zone, after))
            }
            _ => None,
        });
        from_finish.chain(self.next_after(finished)).min()
    }

    /// Whether a rule counts from the end of the last run.
    #[must_use]
    pub fn counts_from_finish(&self) -> bool {
        self.inner.any.iter().any(|source| matches!(source, Source::AfterFinish { .. }))
    }

    /// How many ticks lie in `after < tick <= until`, counting no further than `limit`, and the
    /// last of them (the true last one, also when the count stopped at the limit).
    #[must_use]
    pub fn count_between(&self, after: Time, until: Time, limit: u32) -> (u32, Option<Time>) {
        if let ([Source::Grid { first, period_ms }], true) =
            (self.inner.any.as_slice(), self.inner.except.is_empty())
        {
            return self.count_grid(*first, *period_ms, after, until, limit);
        }
        let (mut count, mut last) = (0, after);
        while count < limit {
            match self.next_after(last).filter(|tick| *tick <= until) {
                Some(tick) => (count, last) = (count + 1, tick),
                None => return (count, (count > 0).then_some(last)),
            }
        }
        (count, self.last_between(after, until))
    }

    /// The last tick in `after < tick <= until`, found by halving rather than by stepping.
    #[must_use]
    pub fn last_between(&self, after: Time, until: Time) -> Option<Time> {
        let until = until.min(TIME_MAX);
        let mut last = self.next_after(after).filter(|tick| *tick <= until)?;
        // No tick lies in `none_after < tick <= until`.
        let mut none_after = until;
        while last < none_after {
            let middle = Time(last.0 + (none_after.0 - last.0) / 2);
            match self.next_after(middle).filter(|tick| *tick <= none_after) {
                Some(tick) => last = tick,
                None => none_after = middle,
            }
        }
        Some(last)
    }

    /// The instant, if the schedule is a plain `at` or `delay` and nothing else.
    #[must_use]
    pub fn is_once(&self) -> Option<Time> {
        match self.inner.any.as_slice() {
            [Source::Once(time)] if self.inner.except.is_empty() => Some(*time),
            _ => None,
        }
    }

    /// The next `count` ticks after an instant; fewer if the schedule ends. A rule that counts from
    /// the last end is shown as if runs took no time.
    #[must_use]
    pub fn times(&self, after: Time, count: usize) -> Vec<Time> {
        let mut times: Vec<Time> = Vec::new();
        while times.len() < count {
            let next = match times.last() {
                Some(last) if self.counts_from_finish() => self.next_after_finish(*last),
                Some(last) => self.next_after(*last),
                None => self.next_after(after).or_else(|| {
                    self.counts_from_finish().then(|| self.next_after_finish(after)).flatten()
                }),
            };
            match next {
                Some(tick) => times.push(tick),
                None => break,
            }
        }
        times
    }

    /// The schedule in plain words, such as `At 02:05 on Saturday, Europe/Berlin time`.
    #[must_use]
    pub fn describe(&self) -> String {
        describe::describe(&self.inner)
    }

    /// The delay of a tick, from zero to the schedule's jitter. Always the same for the same
    /// identity and tick, so that it need not be stored and a new leader finds the same.
    #[must_use]
    pub fn jitter_ms(&self, identity: &str, tick: Time) -> u64 {
        jitter_ms(self.inner.spec.jitter_ms, identity, tick)
    }

    /// What the schedule was compiled from.
    #[must_use]
    pub fn spec(&self) -> &ScheduleSpec {
        &self.inner.spec
    }

    /// The zone's name as the database spells it.
    #[must_use]
    pub fn timezone(&self) -> &str {
        self.inner.zone.name()
    }

    /// Steps through candidates until one is inside the bounds and not excepted.
    fn first_kept(&self, after: Time, mut next: impl FnMut(Time) -> Option<Time>) -> Option<Time> {
        let inner = &*self.inner;
        let mut after = after.max(EARLIEST);
        if let Some(start) = inner.start {
            after = after.max(start.minus_ms(1));
        }
        let last = inner.end.unwrap_or(TIME_MAX);
        for _ in 0..EXCLUDED_MAX {
            let tick = next(after).filter(|tick| *tick <= last)?;
            let excluded = inner.except.iter().find_map(|e| e.covers_until(&inner.zone, tick));
            match excluded {
                None => return Some(tick),
                Some(until) => after = tick.max(until.minus_ms(1)),
            }
        }
        None
    }

    fn count_grid(
        &self,
        first: Time,
        period_ms: u64,
        after: Time,
        until: Time,
        limit: u32,
    ) -> (u32, Option<Time>) {
        let until = until.min(self.inner.end.unwrap_or(TIME_MAX));
        let Some(from) = self.next_after(after).filter(|tick| *tick <= until) else {
            return (0, None);
        };
        debug_assert!(from >= first);
        let more = until.since_ms(from) / period_ms;
        let count = u32::try_from(more.saturating_add(1)).unwrap_or(u32::MAX);
        (count.min(limit), Some(from.plus_ms(more * period_ms)))
    }

    fn check_fires(&self, anchor: Time) -> Result<(), ScheduleError> {
        // An instant in the past is allowed: it is due at once.
        let once = self.inner.any.iter().any(|source| matches!(source, Source::Once(_)));
        let after = if once { EARLIEST } else { anchor.minus_ms(1) };
        if self.next_after(after).is_some() {
            return Ok(());
        }
        let reason = if self.inner.except.is_empty() {
            "no instant matches it; check the day, month and year, and `start` and `end`"
        } else {
            "nothing is left of it after `except`, `start` and `end`"
        };
        Err(never(reason))
    }
}
