//! From the compact form of a one-off job to the full one.

use super::Turn;
use super::job::{Compact, FullJob};
use crate::id::{JobId, RunId};
use crate::key::{self, DueKey, DueKind};
use crate::record::{self, Filed, JobRow, JobState, LastRun, OneOff, Run, RunRow};
use crate::run;
use crate::settings::class_age_ms;
use crate::time::Time;
use crate::waist::{Family, StoreError};
use bytes::Bytes;

impl Turn<'_> {
    /// Stores a compact job in full form from now on.
    pub(super) fn promote(&mut self, id: JobId, compact: Compact) -> Result<FullJob, StoreError> {
        let missing = || StoreError::Corrupt(format!("the run of {id} lacks its job"));
        match compact {
            Compact::Waiting(entry, one_off) => {
                self.unplan(entry);
                let mut job = self.promote_waiting(entry, one_off)?;
                let tick = job.state.next_ms.map(Time);
                self.plan_tick(&mut job, tick);
                self.put_state(&job);
                Ok(job)
            }
            Compact::Open(_) => {
                let run_id = RunId { job: id, n: 1 };
                let (mut row, run) = self.take_open(run_id)?.ok_or_else(missing)?;
                let one_off = row.job.take().ok_or_else(missing)?;
                let mut job = full_of(id, one_off)?;
                job.state = state_of(&run, self.now);
                job.state.open = vec![1];
                self.put_promoted(&job, &run);
                self.keep_open(run_id, row, run);
                Ok(job)
            }
            Compact::Ended(place, mut row) => {
                let one_off = row.job.take().ok_or_else(missing)?;
                let run = row.run.take().ok_or_else(missing)?;
                let mut job = full_of(id, one_off)?;
                job.state = state_of(&run, self.now);
                self.put_promoted(&job, &run);
                let time = place.time.plus_ms(class_age_ms(place.class)).max(self.now);
                self.plan(DueKey { time, kind: DueKind::Sweep, job: id, n: 0 }, Bytes::new());
                let row = RunRow { run: Some(run), job: None };
                self.store.put(Family::History, place.history(), record::encode(&row));
                Ok(job)
            }
        }
    }

    /// Stores a compact job in full form whose entry has been taken out of the due index, without
    /// planning its tick.
    pub(super) fn promote_waiting(
        &mut self,
        entry: DueKey,
        one_off: OneOff,
    ) -> Result<FullJob, StoreError> {
        let scheduled_ms = one_off.scheduled_ms;
        let mut job = full_of(entry.job, one_off)?;
        job.state = JobState { next_ms: Some(scheduled_ms), ..JobState::default() };
        self.store.delete(Family::Index, key::job(entry.job));
        self.put_job(&job);
        self.put_state(&job);
        Ok(job)
    }

    fn put_promoted(&mut self, job: &FullJob, run: &Run) {
        let filed = Filed { time_ms: run.filed_ms, class: run.class };
        let run_id = RunId { job: job.id, n: run.n };
        self.store.delete(Family::Index, key::job(job.id));
        self.store.put(Family::State, key::run(run_id), record::encode(&filed));
        self.put_job(job);
        self.put_state(job);
    }
}

fn full_of(id: JobId, one_off: OneOff) -> Result<FullJob, StoreError> {
    let definition = record::decode("definition", one_off.definition.clone())?;
    let row = JobRow {
        definition: one_off.definition,
        created_ms: one_off.created_ms,
        updated_ms: one_off.created_ms,
        revision: 1,
        anchor_ms: one_off.created_ms,
        hash: one_off.hash,
        batch: one_off.batch,
    };
    Ok(FullJob { id, row, definition, state: JobState::default() })
}

/// The state of a one-off whose one tick has come, or was canceled before: what is yet to come has
/// not been dealt with, or it would keep back the ticks of another schedule.
fn state_of(run: &Run, now: Time) -> JobState {
    let last = run::finished(run).map(|finished| LastRun {
        n: run.n,
        scheduled_ms: run.scheduled_ms,
        status: run.status,
        finished_ms: finished.0,
    });
    JobState {
        runs: run.n,
        scheduled_runs: 1,
        ended: true,
        handled_ms: Some(run.scheduled_ms.min(now.0)),
        last,
        ..JobState::default()
    }
}
