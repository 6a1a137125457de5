//! Entries of the due index that have come up.

use bytes::Bytes;

use super::job::FullJob;
use super::{Effect, Halt, Reply, Turn, namespace_name};
use crate::id::{BatchId, RunId};
use crate::key::{self, DueKey, DueKind};
use crate::record::{
    self, Cause, Definition, EventKind, GroupRow, Mark, MisfirePolicy, OneOff, RunRow, RunStatus,
};
use crate::run;
use crate::time::{Time, format_duration_ms};
use crate::waist::{Family, StoreError};

/// How many of the jobs that its group held back are released along with one of them.
const RELEASED_ALONG: usize = 2;

/// Why a job may not run now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Suppressed {
    /// `paused` or `maintenance`.
    pub reason: &'static str,
    /// Whether the group is the cause, rather than the job itself.
    pub by_group: bool,
    /// When it ends by itself.
    pub until: Option<Time>,
    /// The same in words, with who set it, when and why.
    pub detail: String,
}

/// The most characters of a note that are repeated in the ledger.
const NOTE_SHOWN_MAX: usize = 200;

/// A switch in words: `group 'g' was paused (by ana since 2026-01-01T00:00:00.000Z: repairs)`.
pub(crate) fn mark_in_words(what: &str, mark: &Mark) -> String {
    let until = mark.until_ms.map(|ms| format!(" until {}", Time(ms))).unwrap_or_default();
    let mut words = format!("{what} (by {} since {}{until}", mark.by, Time(mark.at_ms));
    if !mark.note.is_empty() {
        words.push_str(": ");
        words.extend(mark.note.chars().take(NOTE_SHOWN_MAX));
    }
    words.push(')');
    words
}

impl Turn<'_> {
    pub(super) fn due(&mut self, entry: DueKey, value: Bytes) -> Result<Reply, Halt> {
        let key = entry.key(self.memory.shard);
        if self.store.has_deleted(Family::Due, &key) {
            // Something earlier in this turn has taken it out. The agenda has handed it out
            // already, so it must not be told: it would drop the next entry with this key.
            let told = |effect: &Effect| matches!(effect, Effect::Unplan(gone) if *gone == entry);
            if let Some(place) = self.effects.iter().rposition(told) {
                self.effects.remove(place);
            }
            return Ok(Reply::Done);
        }
        self.store.delete(Family::Due, key);
        let run = RunId { job: entry.job, n: entry.n };
        match entry.kind {
            DueKind::OneOff => self.due_one_off(entry, record::decode("due", value)?)?,
            DueKind::Tick => self.due_tick(entry)?,
            DueKind::Retry => self.due_retry(entry.time, run)?,
            DueKind::Expire => self.due_expire(run)?,
            DueKind::Release => self.due_release(entry)?,
            DueKind::Sweep => self.sweep(entry.job)?,
            DueKind::Forget => self.due_forget(BatchId(entry.job.0))?,
        }
        Ok(Reply::Done)
    }

    /// A compact one-off job is due: it becomes a run, unless something is in the way.
    pub(super) fn due_one_off(&mut self, entry: DueKey, job: OneOff) -> Result<(), StoreError> {
        let definition: Definition = record::decode("definition", job.definition.clone())?;
        if let Some(suppressed) = self.suppressed_by_group(&definition) {
            let mut full = self.promote_waiting(entry, job)?;
            self.hold_back(&mut full, &suppressed);
            self.put_state(&full);
            return Ok(());
        }
        let scheduled = Time(job.scheduled_ms);
        let id = RunId { job: entry.job, n: 1 };
        let late_ms = self.now.since_ms(scheduled);
        let missed = late_ms > self.memory.settings.misfire_after_ms;
        let cause = if missed { Cause::Misfire } else { Cause::Schedule };
        let mut made = run::new(1, scheduled, entry.time, job.class as u16, cause);
        self.let_count(&mut made, job.batch)?;
        if missed && let Some(detail) = dropped_one_off(&definition, late_ms) {
            let last = run::event_because(self.now, EventKind::Skipped, "misfire", &detail);
            run::record(&mut made, last);
            self.memory.tally.skipped += 1;
            self.notice(id, &definition, &made);
            return self.file(id, RunRow { run: Some(made), job: Some(job) });
        }
        run::record(&mut made, run::event(self.now, EventKind::Queued));
        self.open_up(id, &definition, RunRow { run: None, job: Some(job) }, made);
        Ok(())
    }

    fn due_retry(&mut self, time: Time, id: RunId) -> Result<(), StoreError> {
        let Some((row, mut run)) = self.take_open(id)? else {
            return Ok(());
        };
        if run.status() == RunStatus::Retrying && run.retry_ms == time.0 {
            run::record(&mut run, run::event(self.now, EventKind::Queued));
            if let Some(definition) = self.definition_of(id, &row)? {
                self.memory.ready.add(&definition, id, &run);
                self.notice(id, &definition, &run);
            }
        }
        self.keep_open(id, row, run);
        Ok(())
    }

    fn due_expire(&mut self, id: RunId) -> Result<(), StoreError> {
        let Some((row, run)) = self.take_open(id)? else {
            return Ok(());
        };
        if can_expire(&run) && run.status() == RunStatus::Queued {
            return self.expire(id, row, run);
        }
        self.keep_open(id, row, run);
        Ok(())
    }

    /// Ends a run that was not started in time.
    pub(super) fn expire(
        &mut self,
        id: RunId,
        row: RunRow,
        run: record::Run,
    ) -> Result<(), StoreError> {
        let detail = "no worker was free before it expired";
        let last = run::event_because(self.now, EventKind::Skipped, "expired", detail);
        self.close(id, row, run, last)
    }

    /// A one-off job that was held back may go, if nothing else holds it.
    fn due_release(&mut self, entry: DueKey) -> Result<(), StoreError> {
        let Some(mut job) = self.full(entry.job)? else {
            return Ok(());
        };
        if !job.state.held || job.state.due_ms.is_some() {
            return Ok(());
        }
        match self.suppressed(&job) {
            Some(suppressed) => self.hold_back(&mut job, &suppressed),
            None => {
                self.forget_held(&job);
                self.release_held(&job.definition, RELEASED_ALONG)?;
                let tick = job.state.next_ms.map(Time);
                self.plan_tick(&mut job, tick);
            }
        }
        self.put_state(&job);
        Ok(())
    }

    /// Holds a one-off job back whose time has come: until the mark runs out by itself, or until
    /// somebody ends it, whichever is first. The state is not stored yet.
    pub(super) fn hold_back(&mut self, job: &mut FullJob, suppressed: &Suppressed) {
        job.state.held = true;
        if let Some(until) = suppressed.until {
            let time = until;
            self.plan(DueKey { time, kind: DueKind::Release, job: job.id, n: 0 }, Bytes::new());
        }
        if suppressed.by_group {
            let namespace = namespace_name(&job.definition);
            let key = key::held(namespace, &job.definition.group, job.id);
            self.store.put(Family::Order, key, Bytes::new());
        }
    }

    /// Notes that a job is not held back any more. The state is not stored yet.
    pub(super) fn let_go(&mut self, job: &mut FullJob) {
        self.forget_held(job);
        job.state.held = false;
    }

    /// Takes a job off its group's list of those that are held back.
    fn forget_held(&mut self, job: &FullJob) {
        if job.state.held && !job.definition.group.is_empty() {
            let namespace = namespace_name(&job.definition);
            let key = key::held(namespace, &job.definition.group, job.id);
            self.store.delete(Family::Order, key);
        }
    }

    /// Releases up to `limit` of the one-off jobs that a job's group held back. Each that is
    /// released releases a few more, so that all are in the end, also if nobody asks again.
    fn release_held(&mut self, definition: &Definition, limit: usize) -> Result<(), StoreError> {
        if definition.group.is_empty() {
            return Ok(());
        }
        self.release_group(namespace_name(definition), &definition.group, limit)?;
        Ok(())
    }

    /// Whether the job or its group is paused or in maintenance.
    pub(super) fn suppressed(&self, job: &FullJob) -> Option<Suppressed> {
        if let Some(mark) = &job.state.paused {
            let detail = mark_in_words("it was paused", mark);
            return Some(Suppressed { reason: "paused", by_group: false, until: None, detail });
        }
        if let Some((mark, until)) = self.in_force(job.state.maintenance.as_ref()) {
            let detail = mark_in_words("it was in maintenance", mark);
            return Some(Suppressed { reason: "maintenance", by_group: false, until, detail });
        }
        self.suppressed_by_group(&job.definition)
    }

    /// The switches of the job's group, if any is set.
    fn group_of(&self, definition: &Definition) -> Option<&GroupRow> {
        if self.memory.groups.is_empty() || definition.group.is_empty() {
            return None;
        }
        let name = (namespace_name(definition).to_owned(), definition.group.clone());
        self.memory.groups.get(&name)
    }

    /// Whether the job's group is paused or in maintenance.
    pub(super) fn suppressed_by_group(&self, definition: &Definition) -> Option<Suppressed> {
        let group = self.group_of(definition)?;
        let name = &definition.group;
        if let Some(mark) = &group.paused {
            let detail = mark_in_words(&format!("group '{name}' was paused"), mark);
            return Some(Suppressed { reason: "paused", by_group: true, until: None, detail });
        }
        let (mark, until) = self.in_force(group.maintenance.as_ref())?;
        let detail = mark_in_words(&format!("group '{name}' was in maintenance"), mark);
        Some(Suppressed { reason: "maintenance", by_group: true, until, detail })
    }

    /// Of the maintenances of the job and its group that have run out the one that ended last:
    /// when it began, when it ended, and the same in words.
    pub(super) fn lapsed_maintenance(&self, job: &FullJob) -> Option<(Time, Time, String)> {
        let of_group = self.group_of(&job.definition).and_then(|row| row.maintenance.as_ref());
        let marks = [(false, job.state.maintenance.as_ref()), (true, of_group)];
        let lapsed = marks.into_iter().filter_map(|(by_group, mark)| {
            let mark = mark?;
            let until = Time(mark.until_ms?);
            (until <= self.now).then_some((by_group, mark, until))
        });
        let (by_group, mark, until) = lapsed.max_by_key(|(_, _, until)| *until)?;
        let what = match by_group {
            true => format!("group '{}' was in maintenance", job.definition.group),
            false => "it was in maintenance".to_owned(),
        };
        Some((Time(mark.at_ms), until, mark_in_words(&what, mark)))
    }

    /// A mark that is set and has not run out, and until when it stands.
    fn in_force<'m>(&self, mark: Option<&'m Mark>) -> Option<(&'m Mark, Option<Time>)> {
        let mark = mark?;
        let until = mark.until_ms.map(Time);
        until.is_none_or(|until| until > self.now).then_some((mark, until))
    }
}

/// Whether a run is one that expires: not once it was started or somebody asked for another go.
pub(super) fn can_expire(run: &record::Run) -> bool {
    run.attempt == 0 && run::last_time(run, &[EventKind::RetryRequested]).is_none()
}

/// Why a one-off job that is this late is dropped, if it is. By default none ever is.
pub(super) fn dropped_one_off(definition: &Definition, late_ms: u64) -> Option<String> {
    let misfire = definition.misfire?;
    if misfire.policy() == MisfirePolicy::Skip {
        return Some(format!("{} late, and missed runs are skipped", format_duration_ms(late_ms)));
    }
    let window_ms = misfire.window_ms?;
    (late_ms > window_ms).then(|| {
        let (late, window) = (format_duration_ms(late_ms), format_duration_ms(window_ms));
        format!("{late} late, and the window for missed runs is {window}")
    })
}
