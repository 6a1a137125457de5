//! Open runs: reading, making and releasing them.

use super::job::FullJob;
use super::{Effect, Notice, Turn, namespace_name, queue_name};
use crate::id::RunId;
use crate::key::{self, DueKey, DueKind};
use crate::record::{self, Cause, Definition, Event, EventKind, Filed, Hold, JobRow, Run, RunRow};
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

    /// Makes a run of a job in full form. The job's state is changed but not stored.
    pub(super) fn make_run(
        &mut self,
        job: &mut FullJob,
        scheduled: Time,
        cause: Cause,
        wait_for_others: bool,
    ) -> Result<RunId, StoreError> {
        job.state.runs += 1;
        if cause != Cause::Trigger {
            job.state.scheduled_runs += 1;
        }
        let id = RunId { job: job.id, n: job.state.runs };
        let class = self.class_for(&job.definition);
        let mut made = run::new(id.n, scheduled, self.now, class, cause);
        self.let_count(&mut made, job.row.batch)?;
        run::record(&mut made, run::event(self.now, EventKind::Queued));
        let filed = Filed { time_ms: self.now.0, class: u32::from(class) };
        self.store.put(Family::State, key::run(id), record::encode(&filed));
        if wait_for_others && !job.state.open.is_empty() && job.definition.ordering_key.is_empty() {
            made.hold = Hold::Overlap as i32;
        } else if self.must_wait_for_order(&job.definition, scheduled, id)? {
            made.hold = Hold::Order as i32;
        }
        job.state.open.push(id.n);
        self.open_up(id, &job.definition, RunRow { run: None, job: None }, made);
        Ok(id)
    }

    /// Adds a queued run to the open ones, and to those that wait for a worker unless it is held.
    pub(super) fn open_up(&mut self, id: RunId, definition: &Definition, row: RunRow, made: Run) {
        if definition.expires_after_ms > 0 {
            let time = Time(made.scheduled_ms).plus_ms(definition.expires_after_ms);
            self.plan(DueKey { time, kind: DueKind::Expire, job: id.job, n: id.n }, Bytes::new());
        }
        if made.hold() == Hold::None {
            self.memory.ready.add(definition, Time(made.scheduled_ms), id);
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
            self.memory.ready.add(&definition, Time(run.scheduled_ms), id);
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
