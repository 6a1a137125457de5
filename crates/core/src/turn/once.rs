//! The one tick of a one-off job in full form: fired, held back, dropped or brought forward.
//!
//! Nothing here compiles a schedule. An instant stays what it is whatever becomes of zones and
//! rules, so a one-off is never held up by a schedule that no longer compiles.

use super::Turn;
use super::due::dropped_one_off;
use super::job::FullJob;
use super::tick::{TRIGGER, skipped};
use crate::id::RunId;
use crate::record::{Cause, Tick, TickFate};
use crate::time::Time;
use crate::waist::StoreError;

impl Turn<'_> {
    /// The time of a one-off has come.
    pub(super) fn due_once(&mut self, mut job: FullJob, tick: Time) -> Result<(), StoreError> {
        if let Some(suppressed) = self.suppressed(&job) {
            self.hold_back(&mut job, &suppressed);
            self.put_state(&job);
            return Ok(());
        }
        let mut to_cancel = Vec::new();
        let was_held = job.state.held;
        let missed = tick < self.missed_before(&job);
        let late_ms = self.now.since_ms(tick);
        self.let_go(&mut job);
        match dropped_one_off(&job.definition, late_ms).filter(|_| missed && !was_held) {
            Some(detail) => self.ledger(&mut job, tick, skipped("misfire", &detail)),
            None => {
                // What somebody held back is late, but it was not missed.
                let cause = if was_held || missed { Cause::Misfire } else { Cause::Schedule };
                self.fire(&mut job, tick, cause, false, &mut to_cancel)?;
            }
        }
        job.state.handled_ms = Some(tick.0);
        self.plan_tick(&mut job, None);
        self.plan_sweep_of_one_off(&job);
        self.prune_ticks(&mut job)?;
        self.put_state(&job);
        self.cancel_replaced(to_cancel)
    }

    /// A one-off that has yet to run was triggered: that was its one time, and its own instant
    /// leads to the same run. The state is not stored yet.
    pub(super) fn brought_forward(&mut self, job: &mut FullJob, run: RunId) {
        if let Some(tick) = job.state.next_ms.map(Time) {
            let detail = if tick > self.now {
                format!("brought forward by trigger ({run})")
            } else {
                format!("held back, and run by trigger ({run})")
            };
            let row = Tick {
                fate: TickFate::Merged as i32,
                reason: TRIGGER.to_owned(),
                detail,
                run: run.n,
                into_ms: self.now.0,
                ..Tick::default()
            };
            self.ledger(job, tick, row);
        }
        self.let_go(job);
        self.plan_tick(job, None);
    }
}
