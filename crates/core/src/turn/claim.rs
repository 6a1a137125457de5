//! Promising runs to workers. A run is handed over only after its claim has been committed (R91).

use super::due::can_expire;
use super::{Assignment, Effect, Lane, Turn, Turnstile, namespace_name};
use crate::id::RunId;
use crate::record::{Cause, Definition, Event, EventKind, Hold, Run, RunStatus};
use crate::run;
use crate::time::Time;
use crate::waist::StoreError;

/// What came of claiming.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Claims {
    /// Runs that were claimed.
    pub claimed: usize,
    /// Runs that are left for other workers, because this one had their last attempt.
    pub left_to_others: usize,
}

/// Runs that are passed over for others in one go.
const LEFT_MAX: usize = 64;

impl Turn<'_> {
    /// Claims up to `slots` runs of a lane for a worker. If fewer were claimed, none is left that
    /// this worker may run. If there are `others` with free slots, runs whose last attempt this
    /// worker had are left to them: what failed here may go well elsewhere.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn claim(
        &mut self,
        lane: &Lane,
        worker: &str,
        slots: usize,
        others: bool,
    ) -> Result<Claims, StoreError> {
        let mut claims = Claims::default();
        let mut left = Vec::new();
        while claims.claimed < slots && left.len() < LEFT_MAX && !self.is_full_of_claims() {
            let Some(place) = self.memory.ready.pop(lane) else {
                break;
            };
            if others && self.had_last_attempt(worker, place.run)? {
                left.push(place);
                continue;
            }
            claims.claimed += usize::from(self.claim_one(lane, place.run, worker)?);
        }
        claims.left_to_others = left.len();
        for place in left {
            self.memory.ready.put_back(lane, place);
        }
        Ok(claims)
    }

    /// How many more runs of a lane may be launched now, as far as its queue has bounds.
    #[must_use]
    pub fn room(&self, lane: &Lane) -> usize {
        self.memory.shares.room(lane)
    }

    /// What waits and may be launched now, by lane: the first run of each, and how many.
    #[must_use]
    pub fn open_heads(&self) -> Vec<(Lane, Turnstile, usize)> {
        self.memory.open_heads()
    }

    fn had_last_attempt(&mut self, worker: &str, id: RunId) -> Result<bool, StoreError> {
        let Some((row, run)) = self.take_open(id)? else {
            return Ok(false);
        };
        let had = run.attempt > 0 && run.worker == worker;
        self.keep_open(id, row, run);
        Ok(had)
    }

    /// Whether the run could be claimed. Those that may not run now leave the lane.
    fn claim_one(&mut self, lane: &Lane, id: RunId, worker: &str) -> Result<bool, StoreError> {
        let Some((row, mut run)) = self.take_open(id)? else {
            return Ok(false);
        };
        if run.status() != RunStatus::Queued || run.hold() != Hold::None {
            self.keep_open(id, row, run);
            return Ok(false);
        }
        let Some(definition) = self.definition_of(id, &row)? else {
            let last =
                run::event_because(self.now, EventKind::Canceled, "deleted", "the job is gone");
            self.close(id, row, run, last)?;
            return Ok(false);
        };
        if !lane.is_of(&definition, &run) {
            // The job was edited since: its runs are another queue's now.
            self.memory.ready.add(&definition, id, &run);
            self.keep_open(id, row, run);
            return Ok(false);
        }
        let expires_ms = definition.expires_after_ms;
        let late_ms = self.now.since_ms(Time(run.scheduled_ms));
        if expires_ms > 0 && can_expire(&run) && late_ms > expires_ms {
            self.expire(id, row, run)?;
            return Ok(false);
        }
        if run.cause() != Cause::Trigger
            && self.park_if_paused(id, row.job.is_none(), &definition)?
        {
            self.keep_open(id, row, run);
            return Ok(false);
        }
        let due = due_time(&run);
        let token = self.memory.next_token();
        run::record(
            &mut run,
            Event { worker: worker.to_owned(), token, ..run::event(self.now, EventKind::Claimed) },
        );
        self.memory.tally.launches += 1;
        self.memory.shares.claimed(id, lane);
        self.notice(id, &definition, &run);
        self.effects.push(Effect::Assign(Box::new(Assignment {
            run: id,
            attempt: run.attempt,
            token,
            worker: worker.to_owned(),
            scheduled: Time(run.scheduled_ms),
            due,
            pinned: run.pinned.clone(),
            definition,
        })));
        self.keep_open(id, row, run);
        Ok(true)
    }

    /// No run is launched while its job or group is paused (R38): it stays queued, out of the way.
    fn park_if_paused(
        &mut self,
        id: RunId,
        is_full: bool,
        definition: &Definition,
    ) -> Result<bool, StoreError> {
        if self.suppressed_by_group(definition).is_some_and(|s| s.reason == "paused") {
            let group = (namespace_name(definition).to_owned(), definition.group.clone());
            self.memory.parked_by_group.entry(group).or_default().push(id);
            return Ok(true);
        }
        if is_full && self.full(id.job)?.is_some_and(|job| job.state.paused.is_some()) {
            self.memory.parked_by_job.entry(id.job).or_default().push(id);
            return Ok(true);
        }
        Ok(false)
    }

    /// Lets runs wait for a worker again that had been put out of the way.
    pub(super) fn unpark(&mut self, runs: Option<Vec<RunId>>) -> Result<(), StoreError> {
        for id in runs.into_iter().flatten() {
            let Some(row) = self.peek_open(id)? else { continue };
            let waits = |run: &Run| run.status() == RunStatus::Queued && run.hold() == Hold::None;
            let Some(run) = row.run.as_ref().filter(|run| waits(run)) else { continue };
            if let Some(definition) = self.definition_of(id, &row)? {
                self.memory.ready.add(&definition, id, run);
            }
        }
        Ok(())
    }
}

/// When the attempt that is about to start was due.
fn due_time(run: &Run) -> Time {
    let queued =
        run::last_time(run, &[EventKind::Queued, EventKind::Requeued, EventKind::RetryRequested]);
    let first_and_in_time = run.attempt == 0 && run.cause() == Cause::Schedule;
    match queued {
        Some(queued) if !first_and_in_time => queued,
        _ => Time(run.scheduled_ms),
    }
}
