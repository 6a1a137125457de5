//! How time becomes runs: the ticks of recurring jobs, in time or missed. One-off jobs in full form
//! have a file of their own, `once`.
//!
//! Every due instant leaves a row in the ledger that says what became of it and why. Several in a
//! row with the same fate share one row, so that a month of downtime of a job that ticks every
//! second costs a row and not millions.

use std::sync::Arc;

use super::Turn;
use super::due::Suppressed;
use super::job::FullJob;
use super::runs::is_sibling;
use crate::id::RunId;
use crate::key::{self, DueKey};
use crate::record::{
    self, Cause, Hold, Misfire, MisfirePolicy, OverlapPolicy, Run, Tick, TickFate,
};
use crate::run;
use crate::schedule::Schedule;
use crate::settings::{MISFIRE_MAX, MISFIRE_WINDOW_MS, OVERLAP_QUEUE_MAX};
use crate::time::{HOUR_MS, SECOND_MS, Time, format_duration_ms};
use crate::waist::{Family, StoreError};

/// A tick that fires more than this after its time is called late in the ledger.
const LATE_MS: u64 = SECOND_MS;
/// So long after a take-over a tick waits for a run that may have ended without the shard having heard of it.
const UNHEARD_MS: u64 = SECOND_MS;
/// Counting of ticks stops here; the row then says "at least".
const COUNT_MAX: u32 = 4_000;
/// The reason of a row whose tick was brought forward by a trigger.
pub(super) const TRIGGER: &str = "trigger";
/// Ticks in time that are dealt with in one decision; the rest follows in the next.
const TICKS_AT_ONCE: usize = 64;
/// Runs after which a decision deals with no further tick: one that is meant for all workers makes
/// many.
const RUNS_AT_ONCE: usize = 1_024;
/// The reason of a row whose tick was meant for all workers when there was none.
pub(super) const NO_WORKER: &str = "no_worker";
/// The same in words.
pub(super) const NO_WORKER_DETAIL: &str = "no worker that takes it was connected";
/// The reason of a row whose tick nobody had decided about when the schedule was replaced.
const REPLACED: &str = "replaced";

/// Whether the job's `max_runs` allows another run.
pub(crate) fn runs_left(job: &FullJob) -> bool {
    let max = job.definition.schedule.as_ref().map_or(0, |schedule| schedule.max_runs);
    max == 0 || job.state.scheduled_runs < max
}

/// Several ticks in a row.
struct Stretch {
    from: Time,
    until: Time,
    count: u32,
    at_least: bool,
}

impl Turn<'_> {
    pub(super) fn due_tick(&mut self, entry: DueKey) -> Result<(), StoreError> {
        let Some(mut job) = self.full(entry.job)? else {
            return Ok(());
        };
        if job.state.due_ms != Some(entry.time.0) {
            return Ok(()); // An entry of an earlier plan.
        }
        job.state.due_ms = None;
        let Some(tick) = job.state.next_ms.map(Time) else {
            return Ok(());
        };
        if job.once().is_some() {
            return self.due_once(job, tick);
        }
        let schedule = match self.schedule_of(&job) {
            Ok(schedule) => schedule,
            Err(error) => {
                self.hold_broken(&mut job, &error);
                self.put_state(&job);
                return Ok(());
            }
        };
        if let Some(Suppressed { reason, detail, .. }) = self.suppressed(&job) {
            self.skip_until_now(&mut job, &schedule, tick, reason, &detail);
            self.prune_ticks(&mut job)?;
            self.put_state(&job);
            return Ok(());
        }
        match self.skip_lapsed(&mut job, &schedule, tick) {
            Some(tick) if tick <= self.now => match self.unheard_until(&job, tick)? {
                Some(until) => {
                    self.plan_tick_at(&mut job, tick, until);
                    self.put_state(&job);
                    Ok(())
                }
                None => self.fire_ticks(job, &schedule, tick),
            },
            next => {
                self.plan_tick(&mut job, next);
                self.put_state(&job);
                Ok(())
            }
        }
    }

    /// How long a tick is to wait that would be skipped for runs of which the shard cannot know yet whether
    /// they are still open: they were given to workers under an earlier leader, and what these said when it went is on
    /// its way to this one. It is not to wait for so long that it is missed.
    fn unheard_until(&self, job: &FullJob, tick: Time) -> Result<Option<Time>, StoreError> {
        let acts_since = self.memory.acts_since;
        let until = acts_since.plus_ms(UNHEARD_MS);
        // The clock may have been set back since.
        let is_new = acts_since <= self.now && self.now < until;
        let skips = job.definition.overlap.unwrap_or_default().policy() == OverlapPolicy::Skip;
        if !is_new || !skips || job.state.open.is_empty() {
            return Ok(None);
        }
        let cutoff = self.missed_before(job);
        if tick >= cutoff && tick < cutoff.plus_ms(until.since_ms(self.now)) {
            return Ok(None);
        }
        let is_heard_of = |run: &Run| {
            !run::is_with_worker(run.status()) || !self.memory.is_of_earlier_term(run.token)
        };
        Ok(self.open_of(job, is_heard_of)?.is_none().then_some(until))
    }

    /// Brings a tick forward that waits for runs which have all ended by now. The state is not
    /// stored yet.
    pub(super) fn bring_forward_tick(&mut self, job: &mut FullJob) {
        let (Some(tick), Some(due)) = (job.state.next_ms.map(Time), job.state.due_ms) else {
            return;
        };
        if job.state.open.is_empty() && due > job.due_time(tick).0 {
            self.plan_tick(job, Some(tick));
        }
    }

    /// Skips the ticks of a recurring job that fell into a maintenance that has run out since,
    /// while nothing was there to skip them one by one. The first tick after them.
    fn skip_lapsed(&mut self, job: &mut FullJob, schedule: &Schedule, tick: Time) -> Option<Time> {
        let on_a_grid = !schedule.counts_from_finish();
        let lapsed = self
            .lapsed_maintenance(job)
            .filter(|(from, until, _)| on_a_grid && *from <= tick && tick < *until);
        let Some((_, until, detail)) = lapsed else {
            return Some(tick);
        };
        let (all, next) = stretch(schedule, tick, until.minus_ms(1));
        self.skip_stretch(job, all, "maintenance", &detail);
        next
    }

    /// Deals with all ticks from `tick` until now, and plans the next.
    fn fire_ticks(
        &mut self,
        mut job: FullJob,
        schedule: &Arc<Schedule>,
        tick: Time,
    ) -> Result<(), StoreError> {
        let mut to_cancel = Vec::new();
        let cutoff = self.missed_before(&job);
        let mut handled = tick;
        let mut fired = false;
        let mut must_run = false;
        if tick < cutoff {
            let timely_next = schedule.next_after(cutoff).is_some_and(|next| next <= self.now);
            (handled, fired) =
                self.missed(&mut job, schedule, tick, cutoff, timely_next, &mut to_cancel)?;
            // The runs that make up for missed ticks do not stand in the way of the next ones.
            let policy = job.definition.misfire.unwrap_or_default().policy();
            must_run = fired && policy == MisfirePolicy::All;
        } else {
            fired |= self.fire(&mut job, tick, Cause::Schedule, false, &mut to_cancel)?;
        }
        for _ in 1..TICKS_AT_ONCE {
            match schedule.next_after(handled).filter(|next| *next <= self.now) {
                Some(next)
                    if !schedule.counts_from_finish()
                        && next > cutoff
                        && self.runs.len() < RUNS_AT_ONCE =>
                {
                    fired |=
                        self.fire(&mut job, next, Cause::Schedule, must_run, &mut to_cancel)?;
                    handled = next;
                }
                _ => break,
            }
        }
        job.state.handled_ms = Some(handled.0);
        let next = match (runs_left(&job), schedule.counts_from_finish()) {
            (false, _) => None,
            (true, false) => schedule.next_after(handled),
            (true, true) if fired => None,
            (true, true) => schedule.next_after_finish(self.now),
        };
        self.plan_tick(&mut job, next);
        if schedule.counts_from_finish() && fired && runs_left(&job) {
            job.state.ended = false; // The next tick is known when the run has ended.
        }
        self.prune_ticks(&mut job)?;
        self.put_state(&job);
        self.cancel_replaced(to_cancel)
    }

    /// Ticks before this were missed: nothing could fire them in time.
    pub(super) fn missed_before(&self, job: &FullJob) -> Time {
        let jitter_max_ms = job.definition.schedule.as_ref().map_or(0, |s| s.jitter_ms);
        self.now.minus_ms(self.memory.settings.misfire_after_ms.saturating_add(jitter_max_ms))
    }

    /// Cancels open runs whose place a newer one takes.
    pub(super) fn cancel_replaced(&mut self, runs: Vec<RunId>) -> Result<(), StoreError> {
        for run in runs {
            self.cancel_open(run, "replaced", "a newer run of the job takes its place")?;
        }
        Ok(())
    }

    /// Deals with the ticks in `tick..=cutoff`, which nothing could fire in time; with the first of
    /// them if they are too many runs for one decision. The last that was dealt with, and whether a
    /// run was made.
    fn missed(
        &mut self,
        job: &mut FullJob,
        schedule: &Schedule,
        tick: Time,
        cutoff: Time,
        timely_next: bool,
        to_cancel: &mut Vec<RunId>,
    ) -> Result<(Time, bool), StoreError> {
        let misfire = job.definition.misfire.unwrap_or_default();
        let window_ms = misfire.window_ms.unwrap_or(MISFIRE_WINDOW_MS);
        // Of a great many ticks only the last hour's can be made up for.
        let (count, _) = schedule.count_between(tick, cutoff, COUNT_MAX);
        let reach_ms = if count < COUNT_MAX { window_ms } else { window_ms.min(HOUR_MS) };
        let start = self.now.minus_ms(reach_ms).max(tick);
        let mut first = tick;
        let mut handled = None;
        if start > tick {
            let (old, next) = stretch(schedule, tick, start.minus_ms(1).min(cutoff));
            let why = format!("older than the window of {}", format_duration_ms(reach_ms));
            handled = Some(old.until);
            self.skip_stretch(job, old, "misfire", &why);
            match next.filter(|next| *next <= cutoff) {
                Some(next) => first = next,
                None => return Ok((handled.unwrap_or(tick), false)),
            }
        }
        let ticks = ticks_between(schedule, first, cutoff);
        let last = ticks.last().copied().or(handled).unwrap_or(tick);
        match misfire.policy() {
            MisfirePolicy::Skip => {
                self.skip_ticks(job, &ticks, "misfire", "missed runs are skipped");
                Ok((last, false))
            }
            MisfirePolicy::Once => {
                let fired = self.made_up_once(job, &ticks, timely_next, schedule, to_cancel)?;
                Ok((last, fired))
            }
            MisfirePolicy::All => {
                let (handled, fired) = self.made_up_all(job, &ticks, &misfire, to_cancel)?;
                Ok((handled.unwrap_or(last), fired))
            }
        }
    }

    /// One run stands for all missed ticks: the next tick's if one is due anyway, else the last
    /// missed one's.
    fn made_up_once(
        &mut self,
        job: &mut FullJob,
        ticks: &[Time],
        timely_next: bool,
        schedule: &Schedule,
        to_cancel: &mut Vec<RunId>,
    ) -> Result<bool, StoreError> {
        let Some((last, earlier)) = ticks.split_last() else {
            return Ok(false);
        };
        if timely_next {
            let into = schedule.next_after(*last).unwrap_or(*last);
            self.merge_ticks(job, ticks, into);
            return Ok(false);
        }
        self.merge_ticks(job, earlier, *last);
        self.fire(job, *last, Cause::Misfire, false, to_cancel)
    }

    /// Each missed tick gets its run, up to the job's bound; the oldest are dropped beyond it. The
    /// last tick that was dealt with: those behind it follow in the next decision.
    fn made_up_all(
        &mut self,
        job: &mut FullJob,
        ticks: &[Time],
        misfire: &Misfire,
        to_cancel: &mut Vec<RunId>,
    ) -> Result<(Option<Time>, bool), StoreError> {
        let max = if misfire.max == 0 { MISFIRE_MAX } else { misfire.max };
        let over = ticks.len().saturating_sub(max as usize);
        let (dropped, made_up) = ticks.split_at(over);
        let why = format!("more than {max} missed runs; the oldest are dropped");
        self.skip_ticks(job, dropped, "misfire", &why);
        let at_once = RUNS_AT_ONCE / self.pins(&job.definition).len().max(1);
        let made_up = &made_up[..made_up.len().min(at_once.max(1))];
        let mut fired = false;
        for tick in made_up {
            fired |= self.fire(job, *tick, Cause::Misfire, true, to_cancel)?;
        }
        Ok((made_up.last().copied(), fired))
    }

    /// Fires one tick, subject to overlap and `max_runs`. Whether a run was made. Under
    /// `must_run` an overlapping run waits rather than being skipped.
    pub(super) fn fire(
        &mut self,
        job: &mut FullJob,
        tick: Time,
        cause: Cause,
        must_run: bool,
        to_cancel: &mut Vec<RunId>,
    ) -> Result<bool, StoreError> {
        if !runs_left(job) {
            self.ledger(job, tick, skipped("max_runs", "the schedule's max_runs is reached"));
            return Ok(false);
        }
        let pins = self.pins(&job.definition);
        if pins.is_empty() {
            self.ledger(job, tick, skipped(NO_WORKER, NO_WORKER_DETAIL));
            return Ok(false);
        }
        let wait = match self.overlap(job, must_run, to_cancel)? {
            Ok(wait) => wait,
            Err((reason, detail)) => {
                self.ledger(job, tick, skipped(reason, &detail));
                return Ok(false);
            }
        };
        let run = self.make_runs(job, tick, cause, wait, &pins)?;
        let late_ms = self.now.since_ms(job.due_time(tick));
        let late = late_ms > LATE_MS;
        self.ledger(
            job,
            tick,
            Tick {
                fate: if late { TickFate::Late } else { TickFate::Fired } as i32,
                reason: if late { "late".to_owned() } else { String::new() },
                detail: if late {
                    format!("{} late", format_duration_ms(late_ms))
                } else {
                    String::new()
                },
                run: run.n,
                runs: several(&pins),
                ..Tick::default()
            },
        );
        self.memory.tally.misfired += u64::from(late);
        Ok(true)
    }

    /// What the overlap policy says about another run now: whether it has to wait, or why there
    /// is to be none.
    pub(super) fn overlap(
        &self,
        job: &FullJob,
        must_run: bool,
        to_cancel: &mut Vec<RunId>,
    ) -> Result<Result<bool, (&'static str, String)>, StoreError> {
        if job.state.open.is_empty() {
            return Ok(Ok(false));
        }
        let overlap = job.definition.overlap.unwrap_or_default();
        Ok(match overlap.policy() {
            OverlapPolicy::Allow => Ok(false),
            OverlapPolicy::Replace => {
                to_cancel.extend(job.state.open.iter().map(|n| RunId { job: job.id, n: *n }));
                Ok(true)
            }
            OverlapPolicy::Queue => {
                let max = if overlap.max == 0 { OVERLAP_QUEUE_MAX } else { overlap.max };
                let waiting = self.held_runs(job)?;
                if waiting < max as usize || must_run {
                    Ok(true)
                } else {
                    Err(("overlap", format!("a run is open and {waiting} wait, the most allowed")))
                }
            }
            OverlapPolicy::Skip if must_run => Ok(true),
            OverlapPolicy::Skip => {
                let open = RunId { job: job.id, n: job.state.open[0] };
                Err(("overlap", format!("{open} is still open")))
            }
        })
    }

    /// How many runs wait for others; those of one instant on several workers count as one.
    fn held_runs(&self, job: &FullJob) -> Result<usize, StoreError> {
        let mut held: Vec<Run> = Vec::new();
        for n in &job.state.open {
            let row = self.peek_open(RunId { job: job.id, n: *n })?;
            let Some(run) = row.and_then(|row| row.run) else { continue };
            let counted = held.last().is_some_and(|last| is_sibling(&run, last));
            if run.hold() != Hold::None && !counted {
                held.push(run);
            }
        }
        Ok(held.len())
    }

    /// Notes all ticks from `tick` until now as skipped, and plans the next. They were not missed:
    /// somebody wanted it. The state is not stored yet.
    pub(super) fn skip_until_now(
        &mut self,
        job: &mut FullJob,
        schedule: &Schedule,
        tick: Time,
        reason: &str,
        detail: &str,
    ) {
        if tick <= self.now {
            let (all, _) = stretch(schedule, tick, self.now);
            self.skip_stretch(job, all, reason, detail);
        }
        job.state.handled_ms = Some(self.now.0);
        let next = if schedule.counts_from_finish() {
            schedule.next_after_finish(self.now)
        } else {
            schedule.next_after(self.now)
        };
        self.plan_tick(job, next);
    }

    /// Notes what is due by a schedule that is about to be replaced, and that nobody has decided about yet, as
    /// skipped. The state is not stored yet.
    pub(super) fn skip_replaced(&mut self, job: &mut FullJob) -> Result<(), StoreError> {
        let due = job.state.next_ms.map(Time).filter(|tick| *tick <= self.now);
        let (Some(tick), None) = (due, job.once()) else { return Ok(()) };
        let Ok(schedule) = self.schedule_of(job) else {
            return Ok(()); // Nobody knows what is due by one that does not compile.
        };
        let (reason, detail) = match self.suppressed(job) {
            Some(Suppressed { reason, detail, .. }) => (reason, detail),
            None => (REPLACED, String::new()),
        };
        let (all, _) = stretch(&schedule, tick, self.now);
        self.skip_stretch(job, all, reason, &detail);
        job.state.handled_ms = Some(self.now.0);
        self.prune_ticks(job)
    }

    fn skip_ticks(&mut self, job: &mut FullJob, ticks: &[Time], reason: &str, detail: &str) {
        if let (Some(from), Some(until)) = (ticks.first(), ticks.last()) {
            let count = u32::try_from(ticks.len()).unwrap_or(u32::MAX);
            let stretch = Stretch { from: *from, until: *until, count, at_least: false };
            self.skip_stretch(job, stretch, reason, detail);
        }
    }

    fn skip_stretch(&mut self, job: &mut FullJob, ticks: Stretch, reason: &str, detail: &str) {
        self.memory.tally.skipped += u64::from(ticks.count);
        self.ledger(
            job,
            ticks.from,
            Tick {
                count: ticks.count,
                until_ms: ticks.until.0,
                count_is_minimum: ticks.at_least,
                ..skipped(reason, detail)
            },
        );
    }

    fn merge_ticks(&mut self, job: &mut FullJob, ticks: &[Time], into: Time) {
        let (Some(from), Some(until)) = (ticks.first(), ticks.last()) else { return };
        self.memory.tally.misfired += ticks.len() as u64;
        self.ledger(
            job,
            *from,
            Tick {
                fate: TickFate::Merged as i32,
                reason: "misfire".to_owned(),
                count: u32::try_from(ticks.len()).unwrap_or(u32::MAX),
                until_ms: until.0,
                into_ms: into.0,
                ..Tick::default()
            },
        );
    }

    /// Writes a row of the ledger. What comes of a trigger has a place of its own beside the tick of
    /// that instant. The job's state is changed but not stored.
    pub(super) fn ledger(&mut self, job: &mut FullJob, tick: Time, row: Tick) {
        let of_trigger = row.fate() == TickFate::Triggered || row.reason == TRIGGER;
        let n = if of_trigger { row.run } else { 0 };
        let row = Tick { decided_ms: self.now.0, ..row };
        self.store.put(Family::Tick, key::tick(job.id, tick, n), record::encode(&row));
        job.state.ticks += 1;
    }
}

pub(super) fn skipped(reason: &str, detail: &str) -> Tick {
    Tick {
        fate: TickFate::Skipped as i32,
        reason: reason.to_owned(),
        detail: detail.to_owned(),
        ..Tick::default()
    }
}

/// For a row of the ledger: how many runs an instant led to, if it was meant for all workers.
pub(super) fn several(pins: &[Arc<str>]) -> u32 {
    match pins {
        [pin] if pin.is_empty() => 0,
        pins => u32::try_from(pins.len()).unwrap_or(u32::MAX),
    }
}

/// The ticks from `from`, which is one, up to and including `until`; and the next one after them.
fn stretch(schedule: &Schedule, from: Time, until: Time) -> (Stretch, Option<Time>) {
    let (more, last) = schedule.count_between(from, until, COUNT_MAX);
    let at_least = more >= COUNT_MAX;
    let last = last.unwrap_or(from).max(from);
    let next = schedule.next_after(last);
    (Stretch { from, until: last, count: more + 1, at_least }, next)
}

/// The ticks from `from`, which is one, up to and including `until`.
fn ticks_between(schedule: &Schedule, from: Time, until: Time) -> Vec<Time> {
    let mut ticks = vec![from];
    let mut last = from;
    while let Some(next) = schedule.next_after(last).filter(|next| *next <= until) {
        if ticks.len() >= COUNT_MAX as usize {
            break;
        }
        ticks.push(next);
        last = next;
    }
    ticks
}
