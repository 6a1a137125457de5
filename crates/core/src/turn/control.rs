//! What people ask for: pause, resume, maintenance, trigger, cancel, retry.

use super::broken::still_broken;
use super::close::place_of;
use super::due::mark_in_words;
use super::job::{Compact, Found, FullJob, is_pruned};
use super::runs::is_sibling;
use super::tick::{NO_WORKER, NO_WORKER_DETAIL, several};
use super::{Effect, Halt, Rejection, RejectionKind, Reply, Turn, namespace_name};
use crate::id::{JobId, RunId};
use crate::key::{self, DueKey, DueKind, Place};
use crate::record::{
    self, Cause, Definition, EventKind, Filed, Hold, Mark, OneOff, Run, RunRow, RunStatus, Tick,
    TickFate,
};
use crate::run;
use crate::schedule::Schedule;
use crate::time::Time;
use crate::waist::{Family, StoreError};

impl Turn<'_> {
    pub(super) fn pause(&mut self, actor: &str, id: JobId, note: &str) -> Result<Reply, Halt> {
        let mut job = self.full_or_promoted(id)?;
        if job.state.paused.is_none() || job.state.broken {
            job.state.paused = Some(self.mark(actor, None, note));
            job.state.broken = false; // From now on it is somebody's wish.
            self.unplan_tick(&mut job);
            self.put_state(&job);
            self.note_job(actor, "job.pause", id, namespace_name(&job.definition), note);
        }
        Ok(Reply::Done)
    }

    pub(super) fn resume(&mut self, actor: &str, id: JobId) -> Result<Reply, Halt> {
        let Found::Full(job) = self.find(id)? else {
            // A compact job is never paused.
            return match self.find(id)? {
                Found::Nothing => Err(Rejection::no_job().into()),
                _ => Ok(Reply::Done),
            };
        };
        let mut job = *job;
        if job.state.paused.is_some() || job.state.maintenance.is_some() {
            self.unpause(&mut job)?;
            self.put_state(&job);
            let parked = self.memory.parked_by_job.remove(&id);
            self.unpark(parked)?;
            self.note_job(actor, "job.resume", id, namespace_name(&job.definition), "");
        }
        Ok(Reply::Done)
    }

    /// Ends pause and maintenance of a job, unless its schedule does not compile: then nothing is
    /// changed. The state is not stored yet.
    pub(super) fn unpause(&mut self, job: &mut FullJob) -> Result<(), Rejection> {
        let recurring = job.state.paused.is_some() && job.once().is_none();
        let schedule = match recurring {
            true => Some(self.schedule_of(job).map_err(|error| still_broken(&error))?),
            false => None,
        };
        let paused = job.state.paused.take();
        job.state.maintenance = None;
        job.state.broken = false;
        let next = job.state.next_ms.map(Time);
        match (schedule, paused) {
            _ if job.state.held => self.plan_tick(job, next),
            (Some(schedule), Some(mark)) => self.go_on(job, &schedule, &mark),
            (None, Some(_)) if next.is_some() => {
                job.state.held = next.is_some_and(|tick| tick <= self.now);
                self.plan_tick(job, next);
            }
            _ => {}
        }
        Ok(())
    }

    /// Plans the next tick of a recurring job after a pause, of which nothing was missed.
    fn go_on(&mut self, job: &mut FullJob, schedule: &Schedule, pause: &Mark) {
        match job.state.next_ms.map(Time) {
            Some(tick) if tick <= self.now => {
                let detail = mark_in_words("it was paused", pause);
                self.skip_until_now(job, schedule, tick, "paused", &detail);
            }
            Some(tick) => self.plan_tick(job, Some(tick)),
            // Its schedule broke while a run was open from whose end the next tick was to count.
            None if !job.state.ended && job.state.open.is_empty() => {
                self.plan_tick(job, schedule.next_after_finish(self.now));
            }
            None => {}
        }
    }

    pub(super) fn maintenance(
        &mut self,
        actor: &str,
        id: JobId,
        until: Option<Time>,
        note: &str,
    ) -> Result<Reply, Halt> {
        let mut job = self.full_or_promoted(id)?;
        job.state.maintenance = Some(self.mark(actor, until, note));
        self.put_state(&job);
        self.note_job(actor, "job.maintenance", id, namespace_name(&job.definition), note);
        Ok(Reply::Done)
    }

    pub(super) fn mark(&self, actor: &str, until: Option<Time>, note: &str) -> Mark {
        Mark {
            at_ms: self.now.0,
            by: actor.to_owned(),
            until_ms: until.map(|time| time.0),
            note: note.to_owned(),
        }
    }

    pub(super) fn trigger(&mut self, actor: &str, id: JobId) -> Result<Reply, Halt> {
        let mut job = self.full_or_promoted(id)?;
        let mut to_cancel = Vec::new();
        let pins = self.pins(&job.definition);
        if pins.is_empty() {
            return Err(Rejection::conflict(NO_WORKER, NO_WORKER_DETAIL).into());
        }
        let wait = self
            .overlap(&job, false, &mut to_cancel)?
            .map_err(|(_, detail)| Rejection::conflict("overlap", detail))?;
        let run = self.make_runs(&mut job, self.now, Cause::Trigger, wait, &pins)?;
        let (fate, runs) = (TickFate::Triggered as i32, several(&pins));
        let row = Tick { fate, run: run.n, runs, ..Tick::default() };
        self.ledger(&mut job, self.now, row);
        if job.once().is_some() && !job.state.ended {
            self.brought_forward(&mut job, run);
        }
        self.put_state(&job);
        self.note_job(actor, "job.trigger", id, namespace_name(&job.definition), &run.to_string());
        self.cancel_replaced(to_cancel)?;
        Ok(if runs == 0 { Reply::Run(run) } else { Reply::Runs(run, runs) })
    }

    pub(super) fn cancel(&mut self, actor: &str, id: RunId) -> Result<Reply, Halt> {
        let namespace = self.namespace_of(id.job)?;
        self.cancel_run(id, actor)?;
        self.note_run(actor, "run.cancel", id, namespace);
        Ok(Reply::Run(id))
    }

    /// Cancels a run, whether it is open or has yet to be made.
    pub(super) fn cancel_run(&mut self, id: RunId, actor: &str) -> Result<(), Halt> {
        if self.peek_open(id)?.is_some() {
            return Ok(self.cancel_open(id, "asked", &format!("canceled by {actor}"))?);
        }
        match self.find(id.job)? {
            Found::Compact(compact) => match *compact {
                Compact::Waiting(entry, one_off) if id.n == 1 => {
                    Ok(self.cancel_waiting(entry, one_off, actor)?)
                }
                _ => self.give_up(id, actor),
            },
            Found::Full(job) if is_yet_to_come(&job, id) => Ok(self.cancel_planned(*job, actor)?),
            _ => self.give_up(id, actor),
        }
    }

    fn note_run(&mut self, actor: &str, action: &str, id: RunId, namespace: String) {
        self.note(record::Audit {
            actor: actor.to_owned(),
            action: action.to_owned(),
            subject: id.to_string(),
            namespace,
            ..Default::default()
        });
    }

    /// The namespace of a job; empty if the job is gone.
    fn namespace_of(&self, job: JobId) -> Result<String, StoreError> {
        let definition = match self.find(job)? {
            Found::Nothing => return Ok(String::new()),
            Found::Full(job) => job.definition,
            Found::Compact(compact) => {
                let bytes = compact.one_off().map(|job| job.definition.clone());
                record::decode("definition", bytes.unwrap_or_default())?
            }
        };
        Ok(namespace_name(&definition).to_owned())
    }

    fn cancel_waiting(
        &mut self,
        entry: DueKey,
        one_off: OneOff,
        actor: &str,
    ) -> Result<(), StoreError> {
        self.unplan(entry);
        let id = RunId { job: entry.job, n: 1 };
        let filed = self.file_early(entry, &one_off);
        let scheduled = Time(one_off.scheduled_ms);
        let mut made = run::new(1, scheduled, filed, one_off.class as u16, Cause::Schedule);
        self.let_count(&mut made, one_off.batch)?;
        self.file_canceled(id, made, Some(one_off), actor)
    }

    /// The same for a one-off job in full form.
    fn cancel_planned(&mut self, mut job: FullJob, actor: &str) -> Result<(), StoreError> {
        job.state.runs += 1;
        let id = RunId { job: job.id, n: job.state.runs };
        let scheduled = job.state.next_ms.map_or(self.now, Time);
        let class = self.class_for(&job.definition);
        let mut made = run::new(id.n, scheduled, self.now, class, Cause::Schedule);
        self.let_count(&mut made, job.row.batch)?;
        let filed = Filed { time_ms: self.now.0, class: u32::from(class) };
        self.store.put(Family::State, key::run(id), record::encode(&filed));
        self.file_canceled(id, made, None, actor)?;
        self.let_go(&mut job);
        self.plan_tick(&mut job, None);
        self.plan_sweep_of_one_off(&job);
        self.put_state(&job);
        Ok(())
    }

    fn file_canceled(
        &mut self,
        id: RunId,
        mut made: Run,
        job: Option<OneOff>,
        actor: &str,
    ) -> Result<(), StoreError> {
        let detail = format!("canceled by {actor} before it was due");
        run::record(&mut made, run::event_because(self.now, EventKind::Canceled, "asked", &detail));
        self.memory.tally.canceled += 1;
        self.file(id, RunRow { run: Some(made), job })
    }

    /// Where to file a waiting one-off that ends before its time: not in the future, where it
    /// would be kept for much longer than it should be.
    fn file_early(&mut self, entry: DueKey, one_off: &OneOff) -> Time {
        if entry.time <= self.now {
            return entry.time;
        }
        let filed = Filed { time_ms: self.now.0, class: one_off.class };
        self.store.put(Family::Index, key::job(entry.job), record::encode(&filed));
        self.now
    }

    /// Cancels an open run: at once if no worker has it, else as soon as the worker has stopped.
    pub(super) fn cancel_open(
        &mut self,
        id: RunId,
        reason: &str,
        detail: &str,
    ) -> Result<(), StoreError> {
        let Some((row, mut run)) = self.take_open(id)? else {
            return Ok(());
        };
        if run::is_with_worker(run.status()) {
            if !run.cancel_requested {
                let asked =
                    run::event_because(self.now, EventKind::CancelRequested, reason, detail);
                run::record(&mut run, asked);
            }
            let (token, worker) = (run.token, run.worker.clone());
            self.effects.push(Effect::Stop { run: id, token, worker });
            self.keep_open(id, row, run);
            return Ok(());
        }
        if run.status() == RunStatus::Retrying {
            let time = Time(run.retry_ms);
            self.unplan(DueKey { time, kind: DueKind::Retry, job: id.job, n: id.n });
        }
        let last = run::event_because(self.now, EventKind::Canceled, reason, detail);
        self.close(id, row, run, last)
    }

    /// An ended run and its place in history.
    pub(super) fn ended(&self, id: RunId) -> Result<Option<(Place, RunRow, Run)>, StoreError> {
        let compact =
            if id.n == 1 { self.read::<Filed>(Family::Index, &key::job(id.job))? } else { None };
        let filed = match compact {
            Some(filed) => filed,
            None => match self.read::<Filed>(Family::State, &key::run(id))? {
                Some(filed) => filed,
                None => return Ok(None),
            },
        };
        let place = Place { class: filed.class as u16, time: Time(filed.time_ms), run: id };
        if is_pruned(&self.memory.row, &place) {
            return Ok(None);
        }
        let Some(mut row) = self.read::<RunRow>(Family::History, &place.history())? else {
            return Ok(None);
        };
        Ok(row.run.take().map(|run| (place, row, run)))
    }

    /// Gives a run up that has ended badly and stands in the way of its ordering key.
    fn give_up(&mut self, id: RunId, actor: &str) -> Result<(), Halt> {
        let Some((place, row, mut run)) = self.ended(id)? else {
            return self.give_up_pruned(id);
        };
        self.load_part(run.batch)?;
        let definition = self.definition_of(id, &row)?;
        let blocking = match &definition {
            Some(definition) if !definition.ordering_key.is_empty() => {
                self.current_of(definition)? == Some(id)
            }
            _ => false,
        };
        let Some(definition) = definition.filter(|_| blocking) else {
            return Err(Rejection::conflict(
                "run_ended",
                format!("{id} has ended already ({})", status_name(run.status())),
            )
            .into());
        };
        let detail = format!("given up by {actor}; '{}' goes on", Self::order_name(&definition));
        run::record(&mut run, run::event_because(self.now, EventKind::Canceled, "asked", &detail));
        self.store.delete(Family::Dead, key::dead(place.time, id));
        let scheduled = Time(run.scheduled_ms);
        self.file(id, RunRow { run: Some(run), ..row })?;
        self.leave_order(&definition, scheduled, id, RunStatus::Canceled)?;
        Ok(())
    }

    /// The same for a run whose history has been pruned: it must not block its key for ever.
    fn give_up_pruned(&mut self, id: RunId) -> Result<(), Halt> {
        let job = self.full(id.job)?.ok_or_else(Rejection::no_run)?;
        let ordered = !job.definition.ordering_key.is_empty();
        if !ordered || self.current_of(&job.definition)? != Some(id) {
            return Err(Rejection::no_run().into());
        }
        Ok(self.leave_order(&job.definition, Time(0), id, RunStatus::Canceled)?)
    }

    /// What a run that is given another go has to wait for. Runs of an ordering key follow one
    /// another in any case, and those that wait behind this one must not be in its way.
    fn hold_of_retried(&mut self, job: &FullJob, run: &Run, id: RunId) -> Result<Hold, Halt> {
        if !job.definition.ordering_key.is_empty() {
            let tick = Time(run.scheduled_ms);
            let wait = self.must_wait_for_order(&job.definition, tick, id)?;
            return Ok(if wait { Hold::Order } else { Hold::None });
        }
        // Those of the same tick on other workers are not in its way.
        if self.open_of(job, |open| !is_sibling(open, run))?.is_none() {
            return Ok(self.open_of(job, |_| true)?.map_or(Hold::None, |open| open.hold()));
        }
        let wait = self
            .overlap(job, false, &mut Vec::new())?
            .map_err(|(_, detail)| Rejection::conflict("overlap", detail))?;
        Ok(if wait { Hold::Overlap } else { Hold::None })
    }

    pub(super) fn retry(&mut self, actor: &str, id: RunId) -> Result<Reply, Halt> {
        let namespace = self.namespace_of(id.job)?;
        let Some((place, row, mut run)) = self.ended(id)? else {
            return Err(match self.peek_open(id)? {
                Some(_) => Rejection::conflict("run_open", format!("{id} has not ended yet")),
                None => Rejection::no_run(),
            }
            .into());
        };
        self.load_part(run.batch)?;
        if run::next_status(run.status(), EventKind::RetryRequested).is_none() {
            return Err(Rejection::conflict(
                "run_succeeded",
                format!("{id} has succeeded; trigger the job to run it again"),
            )
            .into());
        }
        let Some(definition) = self.definition_of(id, &row)? else {
            return Err(Rejection::no_job().into());
        };
        let mut job = match row.job {
            Some(_) => None,
            None => Some(self.full(id.job)?.ok_or_else(Rejection::no_job)?),
        };
        if let Some(job) = &mut job {
            run.hold = self.hold_of_retried(job, &run, id)? as i32;
            job.state.open.push(id.n);
        }
        let detail = format!("asked for by {actor}");
        run::record(
            &mut run,
            run::event_because(self.now, EventKind::RetryRequested, "asked", &detail),
        );
        self.store.delete(Family::History, place.history());
        self.store.delete(Family::Dead, key::dead(place.time, id));
        debug_assert_eq!(place, place_of(id, &run));
        let expiry_has_passed = Definition { expires_after_ms: 0, ..definition };
        self.open_up(id, &expiry_has_passed, row, run);
        if let Some(job) = job {
            self.put_state(&job);
        }
        self.note_run(actor, "run.retry", id, namespace);
        Ok(Reply::Run(id))
    }
}

/// Whether a run is the one that a one-off job in full form has yet to make.
fn is_yet_to_come(job: &FullJob, id: RunId) -> bool {
    !job.state.ended && id.n == job.state.runs + 1 && job.once().is_some()
}

/// A run's status as the API writes it.
#[must_use]
pub fn status_name(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Scheduled => "scheduled",
        RunStatus::Queued => "queued",
        RunStatus::Claimed => "claimed",
        RunStatus::Running => "running",
        RunStatus::Retrying => "retrying",
        RunStatus::Succeeded => "succeeded",
        RunStatus::Failed => "failed",
        RunStatus::Canceled => "canceled",
        RunStatus::Lost => "lost",
        RunStatus::Skipped => "skipped",
    }
}

impl Rejection {
    /// The request makes no sense.
    #[must_use]
    pub fn invalid(code: &'static str, message: impl Into<String>) -> Rejection {
        Rejection { kind: RejectionKind::Invalid, code: code.into(), message: message.into() }
    }
}
