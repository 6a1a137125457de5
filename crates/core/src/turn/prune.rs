//! Removing history that is older than its retention.
//!
//! By age: history and output are laid out by retention class and time, so what is too old is one
//! range a class. It is read once, in bounded steps, to remove the few small rows elsewhere that
//! point into it, and then dropped as a range, not row by row. By count: a recurring job drops its
//! oldest run when it files a new one.

use super::job::FullJob;
use super::{Halt, Reply, Turn};
use crate::id::RunId;
use crate::key::{self, Place};
use crate::record::{self, Filed, RunRow, RunStatus};
use crate::settings::class_age_ms;
use crate::time::{HOUR_MS, Time};
use crate::waist::{Family, StoreError};

/// Rows of history read in one step.
const STEP: usize = 500;
/// Runs and ledger rows of a job removed when one is added.
const STEP_OF_JOB: usize = 2;

impl Turn<'_> {
    /// A step of pruning by age. Whether more is left.
    pub(super) fn prune(&mut self) -> Result<Reply, Halt> {
        let classes: Vec<(u32, i64)> =
            self.memory.row.classes.iter().map(|(class, upto)| (*class, *upto)).collect();
        for (class, upto_ms) in classes {
            let class_key = class as u16;
            // Whole hours, so that a step is worth its while.
            let cutoff_ms = self.now.minus_ms(class_age_ms(class_key)).0;
            let cutoff = Time(cutoff_ms - cutoff_ms.rem_euclid(HOUR_MS as i64));
            let from = Time(upto_ms);
            if cutoff <= from {
                continue;
            }
            let range = key::class_range(self.memory.shard, class_key, from, cutoff);
            let rows = self.store.scan(Family::History, &range, STEP)?;
            let done = rows.len() < STEP;
            let upto = match rows.last() {
                Some((key, _)) if !done => Place::read(key)?.time,
                _ => cutoff,
            };
            for (key, value) in &rows {
                let place = Place::read(key)?;
                self.forget_pointers(&place, record::decode("history", value.clone())?)?;
                if place.time == upto {
                    // The next step begins at this time; it must not find the row again.
                    self.delete_ended(&place)?;
                }
            }
            if done {
                let all = key::class_range(self.memory.shard, class_key, Time(0), cutoff);
                self.store.drop_range(Family::History, all.clone());
                self.store.drop_range(Family::Output, all);
            }
            self.memory.row.classes.insert(class, upto.0);
            self.memory.row_changed = true;
            return Ok(Reply::More(true));
        }
        Ok(Reply::More(false))
    }

    /// Removes the small rows that point to a run in history.
    fn forget_pointers(&mut self, place: &Place, row: RunRow) -> Result<(), StoreError> {
        let id = place.run;
        if row.run.is_some_and(|run| matches!(run.status(), RunStatus::Failed | RunStatus::Lost)) {
            self.store.delete(Family::Dead, key::dead(place.time, id));
        }
        match row.job {
            Some(job) => {
                self.store.delete(Family::Index, key::job(id.job));
                let definition = record::decode("definition", job.definition)?;
                self.delete_names(&definition, job.batch, id.job)
            }
            None => {
                self.store.delete(Family::State, key::run(id));
                Ok(())
            }
        }
    }

    /// Removes the oldest runs and ledger rows of a job beyond what it keeps. The state is changed
    /// but not stored.
    pub(super) fn prune_runs(&mut self, job: &mut FullJob) -> Result<(), StoreError> {
        let own = job.definition.retention.map_or(0, |retention| retention.runs);
        let keep = if own == 0 { self.memory.settings.retention_runs } else { own };
        for _ in 0..STEP_OF_JOB {
            let oldest = job.state.pruned_runs + 1;
            let kept = job.state.runs.saturating_sub(job.state.pruned_runs);
            if kept <= keep || job.state.open.contains(&oldest) {
                break;
            }
            let id = RunId { job: job.id, n: oldest };
            if let Some(filed) = self.read::<Filed>(Family::State, &key::run(id))? {
                let place = Place { class: filed.class as u16, time: Time(filed.time_ms), run: id };
                self.delete_ended(&place)?;
                self.store.delete(Family::State, key::run(id));
            }
            job.state.pruned_runs = oldest;
        }
        self.prune_ticks(job)
    }

    /// Removes the oldest rows of a job's ledger beyond what is kept. The state is changed but not
    /// stored.
    pub(super) fn prune_ticks(&mut self, job: &mut FullJob) -> Result<(), StoreError> {
        let over = job.state.ticks.saturating_sub(self.memory.settings.ledger_rows) as usize;
        if over == 0 {
            return Ok(());
        }
        let range = key::ticks(job.id, Time(job.state.pruned_ticks_ms), self.now);
        for (key, _) in self.store.scan(Family::Tick, &range, over.min(STEP_OF_JOB))? {
            job.state.pruned_ticks_ms = key::read_tick(&key)?.0;
            self.store.delete(Family::Tick, key);
            job.state.ticks -= 1;
        }
        Ok(())
    }
}
