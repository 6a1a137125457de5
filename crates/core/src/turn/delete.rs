//! Deleting jobs, with all that belongs to them, in bounded steps.

use bytes::Bytes;

use super::job::{Compact, Found, FullJob};
use super::{Halt, Rejection, Reply, Turn, namespace_name};
use crate::id::{JobId, RunId};
use crate::key::{self, DueKey, DueKind, Place};
use crate::record::{self, Count, Definition, Filed, KeyRow};
use crate::settings::class_age_ms;
use crate::time::{SECOND_MS, Time};
use crate::waist::{Family, StoreError};

/// Rows removed in one step.
const STEP: usize = 200;

impl Turn<'_> {
    pub(super) fn delete(&mut self, actor: &str, id: JobId) -> Result<Reply, Halt> {
        let (definition, batch) = match self.find(id)? {
            Found::Nothing => return Err(Rejection::no_job().into()),
            Found::Full(job) => {
                let (definition, batch) = (job.definition.clone(), job.row.batch);
                self.delete_full(*job)?;
                (definition, batch)
            }
            Found::Compact(compact) => {
                let one_off = compact.one_off().cloned().unwrap_or_default();
                let definition = record::decode("definition", one_off.definition)?;
                self.delete_compact(id, *compact)?;
                (definition, one_off.batch)
            }
        };
        self.delete_names(&definition, batch, id)?;
        self.note_job(actor, "job.delete", id, namespace_name(&definition), &definition.key);
        Ok(Reply::Done)
    }

    /// Removes a job from all lists, and frees its key if it is this shard's.
    pub(super) fn delete_names(
        &mut self,
        definition: &Definition,
        batch: u64,
        id: JobId,
    ) -> Result<(), StoreError> {
        self.delete_tags(definition, batch, id);
        if definition.key.is_empty() {
            return Ok(());
        }
        let namespace = namespace_name(definition);
        let key = key::caller_key(self.memory.shard, namespace, &definition.key);
        if self.read::<KeyRow>(Family::Key, &key)?.is_some_and(|row| row.job == id.0) {
            self.store.delete(Family::Key, key);
        }
        Ok(())
    }

    fn delete_compact(&mut self, id: JobId, compact: Compact) -> Result<(), StoreError> {
        let run_id = RunId { job: id, n: 1 };
        match compact {
            Compact::Waiting(entry, one_off) => {
                self.unplan(entry);
                self.count_without_run(one_off.batch, Count::Canceled)?;
                self.store.delete(Family::Index, key::job(id));
            }
            Compact::Open(_) => {
                if let Some((row, mut run)) = self.take_open(run_id)? {
                    run.forget = true;
                    self.keep_open(run_id, row, run);
                }
                self.cancel_open(run_id, "deleted", "the job was deleted")?;
            }
            Compact::Ended(place, _) => {
                self.delete_ended(&place)?;
                self.store.delete(Family::Index, key::job(id));
            }
        }
        Ok(())
    }

    /// Removes an ended run from history with its output.
    pub(super) fn delete_ended(&mut self, place: &Place) -> Result<(), StoreError> {
        self.store.delete(Family::History, place.history());
        self.store.delete(Family::Dead, key::dead(place.time, place.run));
        for (key, _) in self.store.scan(Family::Output, &place.all_outputs(), 10_000)? {
            self.store.delete(Family::Output, key);
        }
        Ok(())
    }

    fn delete_full(&mut self, mut job: FullJob) -> Result<(), StoreError> {
        self.unplan_tick(&mut job);
        self.let_go(&mut job);
        if job.state.runs == 0 && !job.state.ended {
            self.count_without_run(job.row.batch, Count::Canceled)?;
        }
        job.state.deleted = true;
        self.memory.parked_by_job.remove(&job.id);
        self.put_state(&job);
        for n in job.state.open.clone() {
            let id = RunId { job: job.id, n };
            self.cancel_open(id, "deleted", "the job was deleted")?;
        }
        if !job.definition.ordering_key.is_empty() {
            self.unblock_order(&job.definition, job.id)?;
        }
        self.plan_sweep(job.id, self.now);
        Ok(())
    }

    fn plan_sweep(&mut self, id: JobId, time: Time) {
        self.plan(DueKey { time, kind: DueKind::Sweep, job: id, n: 0 }, Bytes::new());
    }

    /// When to ask again whether a one-off that has had its time may go; `None` if it may now.
    fn wanted_until(&mut self, job: &FullJob) -> Result<Option<Time>, StoreError> {
        let age_ms = class_age_ms(self.class_for(&job.definition));
        let finished = job.state.last.as_ref().map(|last| Time(last.finished_ms));
        if let Some(finished) = finished.filter(|at| self.now.since_ms(*at) < age_ms) {
            return Ok(Some(finished.plus_ms(age_ms)));
        }
        // What stands in the way of its ordering key stays until somebody decides about it.
        let blocks = !job.definition.ordering_key.is_empty()
            && self.current_of(&job.definition)?.is_some_and(|current| current.job == job.id);
        Ok(blocks.then(|| self.now.plus_ms(age_ms)))
    }

    /// A step of removing what is left of a job in full form that was deleted, or of a one-off
    /// whose history has run out.
    pub(super) fn sweep(&mut self, id: JobId) -> Result<(), StoreError> {
        let Some(mut job) = self.full_even_deleted(id)? else {
            return Ok(());
        };
        if !job.state.open.is_empty() {
            if job.state.deleted {
                self.plan_sweep(id, self.now.plus_ms(5 * SECOND_MS));
            }
            return Ok(());
        }
        if !job.state.deleted {
            if !job.state.ended || job.once().is_none() {
                return Ok(()); // It has been edited since, and has a future again.
            }
            if let Some(later) = self.wanted_until(&job)? {
                self.plan_sweep(id, later);
                return Ok(());
            }
            job.state.deleted = true;
            self.put_state(&job);
            self.delete_names(&job.definition, job.row.batch, id)?;
        }
        let runs = self.store.scan(Family::State, &key::runs(id), STEP)?;
        for (key, value) in &runs {
            let (_, n) = key::read_run(key)?;
            let filed: Filed = record::decode("index", value.clone())?;
            let run = RunId { job: id, n: n.unwrap_or(1) };
            let place = Place { class: filed.class as u16, time: Time(filed.time_ms), run };
            self.delete_ended(&place)?;
            self.store.delete(Family::State, key.clone());
        }
        let ticks = self.store.scan(Family::Tick, &key::runs(id), STEP)?;
        for (key, _) in &ticks {
            self.store.delete(Family::Tick, key.clone());
        }
        if runs.len() == STEP || ticks.len() == STEP {
            self.plan_sweep(id, self.now.plus_ms(1));
        } else {
            self.store.delete(Family::Job, key::job(id));
            self.store.delete(Family::State, key::job(id));
        }
        Ok(())
    }
}
