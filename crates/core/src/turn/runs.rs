//! Open runs: reading, making and releasing them.

use std::sync::Arc;

use super::job::FullJob;
use super::{Effect, Lane, Notice, Turn, namespace_name, queue_name};
use crate::id::RunId;
use crate::key::{self, DueKey, DueKind};
use crate::record::{
    self, Cause, Definition, Event, EventKind, Filed, Hold, JobRow, Run, RunRow, TargetWorkers,
};
use crate::run;
use crate::time::Time;
use crate::waist::{Family, StoreError};
use bytes::Bytes;

impl Turn<'_> {
    /// An open run, without the wish to change it.
    pub(super) fn peek_open(&self, id: RunId) -> Result<Option<RunRow>, StoreError> {
        match self.runs.get(&id) {
            Some(row) => Ok(row.clone()),
            None => self.read(Family::Active, &key::run(id)),
        }
    }

    /// Takes an open run out to be changed. It must be put back with [`Turn::keep_open`] or ended
    /// with `close`.
    pub(super) fn take_open(&mut self, id: RunId) -> Result<Option<(RunRow, Run)>, StoreError> {
        let row = match self.runs.get_mut(&id) {
            Some(None) => return Ok(None),
            Some(row) => row.take(),
            None => self.read(Family::Active, &key::run(id))?,
        };
        let Some(mut row) = row else {
            return Ok(None);
        };
        let run = row
            .run
            .take()
            .ok_or_else(|| StoreError::Corrupt(format!("{id} is open but has no run")))?;
        self.load_part(run.batch)?;
        Ok(Some((row, run)))
    }

    /// Puts an open run back.
    pub(super) fn keep_open(&mut self, id: RunId, mut row: RunRow, mut run: Run) {
        self.recount(&mut run);
        if !run::is_with_worker(run.status()) {
            self.memory.shares.ended(id);
        }
        self.run_bytes += row.job.as_ref().map_or(0, |job| job.definition.len());
        self.run_bytes += run.results.iter().map(|result| result.body.len()).sum::<usize>();
        row.run = Some(run);
        self.runs.insert(id, Some(row));
    }

    /// The definition an open or ended run belongs to; `None` if its job is gone.
    pub(super) fn definition_of(
        &self,
        id: RunId,
        row: &RunRow,
    ) -> Result<Option<Definition>, StoreError> {
        let bytes = match &row.job {
            Some(job) => Some(job.definition.clone()),
            None => self.read::<JobRow>(Family::Job, &key::job(id.job))?.map(|row| row.definition),
        };
        bytes.map(|bytes| record::decode("definition", bytes)).transpose()
    }

    /// The first open run of a job of which something holds.
    pub(super) fn open_of(
        &self,
        job: &FullJob,
        holds: impl Fn(&Run) -> bool,
    ) -> Result<Option<Run>, StoreError> {
        for n in &job.state.open {
            let run = self.peek_open(RunId { job: job.id, n: *n })?.and_then(|row| row.run);
            if let Some(run) = run.filter(&holds) {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }

    /// The workers for which a job is to run now, one run for each; one that is empty means any.
    /// None at all if it is meant for all and nobody is there.
    pub(super) fn pins(&self, definition: &Definition) -> Vec<Arc<str>> {
        match definition.target_workers() {
            TargetWorkers::Any => vec!["".into()],
            TargetWorkers::All => self.memory.workers.serving(&Lane::of(definition, "")),
        }
    }

    /// Makes the runs of a job in full form for one instant: one for each of the pins. The first of
    /// them. The job's state is changed but not stored.
    pub(super) fn make_runs(
        &mut self,
        job: &mut FullJob,
        scheduled: Time,
        cause: Cause,
        wait_for_others: bool,
        pins: &[Arc<str>],
    ) -> Result<RunId, StoreError> {
        let first = RunId { job: job.id, n: job.state.runs + 1 };
        if cause != Cause::Trigger {
            job.state.scheduled_runs += 1;
        }
        // What is open before any of these is made decides about all of them.
        let wait_for_others = wait_for_others && !job.state.open.is_empty();
        for pin in pins {
            let made = run::new(job.state.runs + 1, scheduled, self.now, 0, cause);
            let first_n = if pin.is_empty() { 0 } else { first.n };
            let made = Run { pinned: pin.to_string(), first_n, ..made };
            self.make_run(job, made, wait_for_others)?;
        }
        Ok(first)
    }

    fn make_run(
        &mut self,
        job: &mut FullJob,
        mut made: Run,
        wait_for_others: bool,
    ) -> Result<(), StoreError> {
        job.state.runs = made.n;
        let id = RunId { job: job.id, n: made.n };
        let class = self.class_for(&job.definition);
        made.class = u32::from(class);
        self.let_count(&mut made, job.row.batch)?;
        let scheduled = Time(made.scheduled_ms);
        run::record(&mut made, run::event(self.now, EventKind::Queued));
        let filed = Filed { time_ms: self.now.0, class: u32::from(class) };
        self.store.put(Family::State, key::run(id), record::encode(&filed));
        if wait_for_others && job.definition.ordering_key.is_empty() {
            made.hold = Hold::Overlap as i32;
        } else if self.must_wait_for_order(&job.definition, scheduled, id)? {
            made.hold = Hold::Order as i32;
        }
        job.state.open.push(id.n);
        self.open_up(id, &job.definition, RunRow { run: None, job: None }, made);
        Ok(())
    }

    /// Adds a queued run to the open ones, and to those that wait for a worker unless it is held.
    pub(super) fn open_up(&mut self, id: RunId, definition: &Definition, row: RunRow, made: Run) {
        if definition.expires_after_ms > 0 {
            let time = Time(made.scheduled_ms).plus_ms(definition.expires_after_ms);
            self.plan(DueKey { time, kind: DueKind::Expire, job: id.job, n: id.n }, Bytes::new());
        }
        if made.hold() == Hold::None {
            self.memory.ready.add(definition, id, &made);
        }
        self.memory.open_runs += 1;
        self.notice(id, definition, &made);
        self.keep_open(id, row, made);
    }

    /// Has a new run counted by the batch of its job, if it is the first: that one stands for the
    /// member.
    pub(super) fn let_count(&mut self, made: &mut Run, batch: u64) -> Result<(), StoreError> {
        if made.n == 1 {
            self.load_part(batch)?;
            made.batch = batch;
        }
        Ok(())
    }

    /// Lets a held run wait for a worker.
    pub(super) fn release(&mut self, id: RunId) -> Result<(), StoreError> {
        let Some((row, mut run)) = self.take_open(id)? else {
            return Ok(());
        };
        run.hold = Hold::None as i32;
        if let Some(definition) = self.definition_of(id, &row)? {
            self.memory.ready.add(&definition, id, &run);
        }
        self.keep_open(id, row, run);
        Ok(())
    }

    /// Tells whoever wants to know what happened to a run last.
    pub(super) fn notice(&mut self, id: RunId, definition: &Definition, run: &Run) {
        if !self.memory.notices {
            return;
        }
        let Some(Event { at_ms, attempt, reason, kind, .. }) = run.events.last() else {
            return;
        };
        self.effects.push(Effect::Notice(Box::new(Notice {
            at: Time(*at_ms),
            run: id,
            kind: EventKind::try_from(*kind).unwrap_or(EventKind::Unknown),
            status: run.status(),
            attempt: *attempt,
            namespace: namespace_name(definition).to_owned(),
            key: definition.key.clone(),
            queue: queue_name(definition).to_owned(),
            reason: reason.clone(),
        })));
    }
}

/// Whether a run stands for the same tick or trigger as another, on another worker. Such runs are
/// not in each other's way.
pub(super) fn is_sibling(run: &Run, other: &Run) -> bool {
    run.first_n != 0 && run.first_n == other.first_n && run.n != other.n
}
