//! What workers say about attempts, and what it means that they say nothing.

use super::{Ending, Finished, Halt, Reply, Report, Reported, Turn};
use crate::backoff;
use crate::id::RunId;
use crate::key::{DueKey, DueKind};
use crate::record::{
    self, Definition, Delivery, Event, EventKind, OutputChunk, Run, RunRow, RunStatus,
};
use crate::run::{self, HANDED_BACK, LOST, LOST_TOO_OFTEN};
use crate::settings::LOSSES_MAX;
use crate::turn::close::place_of;
use crate::waist::{Family, StoreError};
use bytes::Bytes;

/// What a job does about an unknown outcome.
pub(crate) fn delivery_of(definition: &Definition) -> Delivery {
    match definition.delivery() {
        Delivery::Default if definition.retry.is_some_and(|retry| retry.max > 0) => {
            Delivery::AtLeastOnce
        }
        Delivery::Default => Delivery::AtMostOnce,
        given => given,
    }
}

impl Turn<'_> {
    pub(super) fn report(&mut self, report: Report) -> Result<Reply, Halt> {
        let id = report.run;
        let Some((row, mut run)) = self.take_open(id)? else {
            return Ok(self.stale());
        };
        if run.token != report.token || !run::is_with_worker(run.status()) {
            self.keep_open(id, row, run);
            return Ok(self.stale());
        }
        match report.what {
            Reported::Started { at } => {
                if run.status() == RunStatus::Claimed {
                    run::record(&mut run, run::event(at, EventKind::Started));
                    if self.memory.notices
                        && let Some(definition) = self.definition_of(id, &row)?
                    {
                        self.notice(id, &definition, &run);
                    }
                }
                self.keep_open(id, row, run);
            }
            Reported::Output { sequence, chunks } => {
                self.put_output(id, &run, sequence, &chunks);
                self.keep_open(id, row, run);
            }
            Reported::HandedBack if run.cancel_requested => {
                let last = run::event(self.now, EventKind::Canceled);
                self.close(id, row, run, last)?;
            }
            Reported::HandedBack if run.status() == RunStatus::Running => {
                let detail = "the worker gave it back after starting it";
                let last = run::event_because(self.now, EventKind::Lost, LOST, detail);
                self.unknown(id, row, run, last)?;
            }
            Reported::HandedBack => {
                let detail = "the worker gave it back before starting it";
                let back = run::event_because(self.now, EventKind::Requeued, HANDED_BACK, detail);
                self.requeue(id, row, run, back)?;
            }
            Reported::Finished(finished) => self.finished(id, row, run, *finished)?,
        }
        Ok(Reply::Done)
    }

    fn stale(&mut self) -> Reply {
        self.memory.tally.stale_reports += 1;
        Reply::Stale
    }

    fn put_output(&mut self, id: RunId, run: &Run, sequence: u32, chunks: &[OutputChunk]) {
        let place = place_of(id, run);
        for (sequence, chunk) in (sequence..).zip(chunks) {
            let key = place.output(run.attempt, sequence);
            self.store.put(Family::Output, key, record::encode(chunk));
        }
    }

    fn finished(
        &mut self,
        id: RunId,
        row: RunRow,
        mut run: Run,
        finished: Finished,
    ) -> Result<(), StoreError> {
        if let (Some(at), RunStatus::Claimed) = (finished.started, run.status()) {
            run::record(&mut run, run::event(at, EventKind::Started));
        }
        self.put_output(id, &run, finished.output_sequence, &finished.output);
        let last = Event {
            exit_code: finished.exit_code,
            signal: finished.signal,
            http_status: finished.http_status,
            reason: finished.reason,
            detail: finished.detail,
            ..run::event(finished.finished, EventKind::Succeeded)
        };
        if let Some(mut result) = finished.result {
            result.attempt = run.attempt;
            run.results.push(result);
        }
        match finished.how {
            Ending::Succeeded => self.close(id, row, run, last),
            Ending::Canceled => self.close(id, row, run, of_kind(last, EventKind::Canceled)),
            Ending::Interrupted => self.unknown(id, row, run, last),
            Ending::Failed | Ending::FailedForGood if run.cancel_requested => {
                self.close(id, row, run, of_kind(last, EventKind::Canceled))
            }
            Ending::FailedForGood => self.close(id, row, run, of_kind(last, EventKind::Failed)),
            Ending::Failed => self.failed(id, row, run, last),
        }
    }

    /// A known failure: another attempt if the job allows one, else the end.
    fn failed(
        &mut self,
        id: RunId,
        row: RunRow,
        mut run: Run,
        last: Event,
    ) -> Result<(), StoreError> {
        let definition = self.definition_of(id, &row)?;
        let retry = definition.as_ref().and_then(|definition| definition.retry);
        let Some(retry) = retry.filter(|retry| run.failures < retry.max && !run.forget) else {
            return self.close(id, row, run, of_kind(last, EventKind::Failed));
        };
        let delay_ms = backoff::delay_ms(&retry, id, run.failures + 1);
        let time = self.now.plus_ms(delay_ms);
        let last = Event { next_ms: time.0, ..of_kind(last, EventKind::Retrying) };
        run::record(&mut run, last);
        self.memory.tally.retried += 1;
        self.plan(DueKey { time, kind: DueKind::Retry, job: id.job, n: id.n }, Bytes::new());
        if let Some(definition) = definition {
            self.notice(id, &definition, &run);
        }
        self.keep_open(id, row, run);
        Ok(())
    }

    /// Nobody can say what became of an attempt.
    pub(super) fn lost(&mut self, id: RunId, token: u64, detail: &str) -> Result<Reply, Halt> {
        let Some((row, run)) = self.take_open(id)? else {
            return Ok(Reply::Stale);
        };
        if run.token != token || !run::is_with_worker(run.status()) {
            self.keep_open(id, row, run);
            return Ok(Reply::Stale);
        }
        let last = run::event_because(self.now, EventKind::Lost, LOST, detail);
        self.unknown(id, row, run, last)?;
        Ok(Reply::Done)
    }

    /// An unknown outcome: what follows is the job's choice of delivery.
    pub(super) fn unknown(
        &mut self,
        id: RunId,
        row: RunRow,
        run: Run,
        last: Event,
    ) -> Result<(), StoreError> {
        let definition = self.definition_of(id, &row)?;
        let again = definition.as_ref().is_some_and(|d| delivery_of(d) == Delivery::AtLeastOnce);
        if !again || run.forget {
            return self.close(id, row, run, of_kind(last, EventKind::Lost));
        }
        if run.cancel_requested {
            return self.close(id, row, run, of_kind(last, EventKind::Canceled));
        }
        if run.losses + 1 >= LOSSES_MAX {
            let last = Event {
                reason: LOST_TOO_OFTEN.to_owned(),
                detail: format!("{}; given up after {LOSSES_MAX} such attempts", last.detail),
                ..of_kind(last, EventKind::Failed)
            };
            return self.close(id, row, run, last);
        }
        self.memory.tally.repeated += 1;
        self.requeue(id, row, run, of_kind(last, EventKind::Requeued))
    }

    fn requeue(
        &mut self,
        id: RunId,
        row: RunRow,
        mut run: Run,
        last: Event,
    ) -> Result<(), StoreError> {
        run::record(&mut run, last);
        if let Some(definition) = self.definition_of(id, &row)? {
            self.memory.ready.add(&definition, id, &run);
            self.notice(id, &definition, &run);
        }
        self.keep_open(id, row, run);
        Ok(())
    }
}

fn of_kind(event: Event, kind: EventKind) -> Event {
    Event { kind: kind as i32, ..event }
}
