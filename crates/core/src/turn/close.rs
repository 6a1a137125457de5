//! How runs end: filed in history, their job brought up to date, whoever waited released.

use super::job::{FullJob, is_pruned};
use super::runs::is_sibling;
use super::{Turn, namespace_name};
use crate::id::RunId;
use crate::key::{self, DueKey, DueKind, Place};
use crate::record::{self, Cause, Definition, Event, Filed, Hold, LastRun, Run, RunRow, RunStatus};
use crate::run;
use crate::settings::class_age_ms;
use crate::time::Time;
use crate::waist::{Family, StoreError};
use bytes::Bytes;

/// The most chunks of output of a run that are looked at.
const OUTPUTS_MAX: usize = 10_000;

/// The place of a run in history.
pub(crate) fn place_of(id: RunId, run: &Run) -> Place {
    Place { class: run.class as u16, time: Time(run.filed_ms), run: id }
}

impl Turn<'_> {
    /// Ends a run that was taken out with `take_open`.
    pub(super) fn close(
        &mut self,
        id: RunId,
        row: RunRow,
        mut run: Run,
        last: Event,
    ) -> Result<(), StoreError> {
        let waits = run.status() == RunStatus::Queued;
        let definition = if row.job.is_some() && !self.memory.notices && !waits {
            None // A plain one-off: nothing below needs it.
        } else {
            self.definition_of(id, &row)?
        };
        if waits && let Some(definition) = &definition {
            self.memory.ready.remove(definition, id, &run);
        }
        run.hold = Hold::None as i32;
        run::record(&mut run, last);
        self.runs.insert(id, None);
        self.memory.shares.ended(id);
        self.memory.open_runs = self.memory.open_runs.saturating_sub(1);
        self.count(run.status());
        if let Some(definition) = &definition {
            self.notice(id, definition, &run);
        }
        let full = row.job.is_none();
        if run.forget {
            self.recount(&mut run);
            self.forget(id, &row, &run)?;
        } else {
            self.file(id, RunRow { run: Some(run.clone()), job: row.job })?;
        }
        match definition {
            Some(definition) if full => {
                self.leave_order(&definition, Time(run.scheduled_ms), id, run.status())?;
                self.close_full(id, &run)
            }
            _ => Ok(()),
        }
    }

    /// Files an ended run in history.
    pub(super) fn file(&mut self, id: RunId, mut row: RunRow) -> Result<(), StoreError> {
        let compact = row.job.is_some();
        let Some(run) = &mut row.run else { return Ok(()) };
        self.recount(run);
        if is_pruned(&self.memory.row, &place_of(id, run)) {
            self.file_anew(id, run, compact)?;
        }
        let place = place_of(id, run);
        if matches!(run.status(), RunStatus::Failed | RunStatus::Lost) {
            let filed = Filed { time_ms: run.filed_ms, class: run.class };
            self.store.put(Family::Dead, key::dead(place.time, id), record::encode(&filed));
        }
        self.store.put(Family::History, place.history(), record::encode(&row));
        Ok(())
    }

    /// Moves a run that was open for so long that its place in history has been pruned.
    fn file_anew(&mut self, id: RunId, run: &mut Run, compact: bool) -> Result<(), StoreError> {
        let before = place_of(id, run);
        run.filed_ms = self.now.0;
        let after = place_of(id, run);
        for (key, value) in self.store.scan(Family::Output, &before.all_outputs(), OUTPUTS_MAX)? {
            let (attempt, sequence) = key::read_output(&key)?;
            self.store.delete(Family::Output, key);
            self.store.put(Family::Output, after.output(attempt, sequence), value);
        }
        let (family, key) = match compact {
            true => (Family::Index, key::job(id.job)),
            false => (Family::State, key::run(id)),
        };
        let filed = Filed { time_ms: run.filed_ms, class: run.class };
        self.store.put(family, key, record::encode(&filed));
        Ok(())
    }

    /// Removes what is stored of an ended run of a deleted one-off job.
    fn forget(&mut self, id: RunId, row: &RunRow, run: &Run) -> Result<(), StoreError> {
        let place = place_of(id, run);
        for (key, _) in self.store.scan(Family::Output, &place.all_outputs(), OUTPUTS_MAX)? {
            self.store.delete(Family::Output, key);
        }
        if row.job.is_some() {
            self.store.delete(Family::Index, key::job(id.job));
        }
        Ok(())
    }

    fn count(&mut self, status: RunStatus) {
        let tally = &mut self.memory.tally;
        match status {
            RunStatus::Succeeded => tally.succeeded += 1,
            RunStatus::Failed => tally.failed += 1,
            RunStatus::Canceled => tally.canceled += 1,
            RunStatus::Lost => tally.lost += 1,
            RunStatus::Skipped => tally.skipped += 1,
            _ => {}
        }
    }

    /// Brings a job in full form up to date after one of its runs has ended.
    fn close_full(&mut self, id: RunId, run: &Run) -> Result<(), StoreError> {
        let Some(mut job) = self.full_even_deleted(id.job)? else {
            return Ok(());
        };
        job.state.open.retain(|n| *n != id.n);
        job.state.last = Some(LastRun {
            n: id.n,
            scheduled_ms: run.scheduled_ms,
            status: run.status,
            finished_ms: self.now.0,
        });
        match run.status() {
            RunStatus::Succeeded => job.state.failures = 0,
            RunStatus::Failed | RunStatus::Lost => job.state.failures += 1,
            _ => {}
        }
        if !job.state.deleted {
            self.plan_after_finish(&mut job, run)?;
            self.bring_forward_tick(&mut job);
            self.plan_sweep_of_one_off(&job);
            self.prune_runs(&mut job)?;
        }
        self.put_state(&job);
        self.release_overlap(&job)
    }

    /// For a schedule that counts from the last end: the next tick is known only now.
    fn plan_after_finish(&mut self, job: &mut FullJob, run: &Run) -> Result<(), StoreError> {
        if job.once().is_some() || run.cause() == Cause::Trigger {
            return Ok(());
        }
        let schedule = match self.schedule_of(job) {
            Ok(schedule) if schedule.counts_from_finish() => schedule,
            Ok(_) => return Ok(()),
            Err(error) => {
                // A tick that is planned finds out for itself.
                if job.state.due_ms.is_none() && !job.state.ended {
                    self.hold_broken(job, &error);
                }
                return Ok(());
            }
        };
        if !run.pinned.is_empty() && self.open_of(job, |open| is_sibling(open, run))?.is_some() {
            return Ok(()); // Of the runs of one tick, the last that ends counts.
        }
        let runs_left = crate::turn::tick::runs_left(job);
        let next = if runs_left { schedule.next_after_finish(self.now) } else { None };
        if job.state.paused.is_none() {
            self.plan_tick(job, next);
        } else {
            job.state.next_ms = next.map(|time| time.0);
            job.state.ended = next.is_none();
        }
        Ok(())
    }

    /// A one-off job in full form goes the way of the compact ones: once its history is due to be
    /// pruned, so is the job.
    pub(super) fn plan_sweep_of_one_off(&mut self, job: &FullJob) {
        if !job.state.ended || !job.state.open.is_empty() || job.once().is_none() {
            return;
        }
        let class = self.class_for(&job.definition);
        let time = self.now.plus_ms(class_age_ms(class));
        self.plan(DueKey { time, kind: DueKind::Sweep, job: job.id, n: 0 }, Bytes::new());
    }

    /// If no run of the job is under way any more, releases the oldest that waits for that, with
    /// those of the same tick on other workers.
    fn release_overlap(&mut self, job: &FullJob) -> Result<(), StoreError> {
        if self.open_of(job, |run| run.hold() != Hold::Overlap)?.is_some() {
            return Ok(());
        }
        let Some(oldest) = self.open_of(job, |_| true)? else {
            return Ok(());
        };
        for n in job.state.open.clone() {
            let id = RunId { job: job.id, n };
            let run = self.peek_open(id)?.and_then(|row| row.run);
            if run.is_some_and(|run| n == oldest.n || is_sibling(&run, &oldest)) {
                self.release(id)?;
            }
        }
        Ok(())
    }

    /// The name of the namespace and the ordering key, for messages.
    pub(super) fn order_name(definition: &Definition) -> String {
        format!("{}/{}", namespace_name(definition), definition.ordering_key)
    }
}
