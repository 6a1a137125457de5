//! Single jobs.

use bytes::Bytes;

use super::{read, shard_row};
use crate::id::{BatchId, JobId, RunId};
use crate::key::{self, DueKey, DueKind, Place};
use crate::record::{
    self, Definition, Filed, GroupRow, JobRow, JobState, KeyRow, LastRun, Mark, OneOff, Run,
    RunRow, RunStatus,
};
use crate::run;
use crate::schedule::{Schedule, ScheduleError};
use crate::spec;
use crate::time::Time;
use crate::turn;
use crate::waist::{Family, Shard, StoreError, View};

/// A job with all that is known about it.
#[derive(Clone, Debug)]
pub struct StoredJob {
    /// Its id.
    pub id: JobId,
    /// What the caller asked for.
    pub definition: Definition,
    /// When it was created.
    pub created: Time,
    /// When it was last changed.
    pub updated: Time,
    /// How often it was changed, from 1.
    pub revision: u32,
    /// What delays and phases count from.
    pub anchor: Time,
    /// Hash of the request that made it so.
    pub hash: Bytes,
    /// The batch it is a member of.
    pub batch: Option<BatchId>,
    /// Where it stands.
    pub state: JobState,
}

/// Where a job stands, in a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobStatus {
    /// A tick will come.
    Scheduled,
    /// A run is open.
    Running,
    /// Nothing is launched.
    Paused,
    /// No tick will come; the last run was fine.
    Completed,
    /// No tick will come; the last run failed or was lost.
    Failed,
    /// No tick will come; the last run was canceled or skipped.
    Canceled,
}

impl StoredJob {
    /// Where it stands.
    #[must_use]
    pub fn status(&self) -> JobStatus {
        if self.state.paused.is_some() {
            return JobStatus::Paused;
        }
        if !self.state.open.is_empty() {
            return JobStatus::Running;
        }
        if !self.state.ended {
            return JobStatus::Scheduled;
        }
        match self.state.last.as_ref().map(LastRun::status) {
            Some(RunStatus::Failed | RunStatus::Lost) => JobStatus::Failed,
            Some(RunStatus::Canceled | RunStatus::Skipped) => JobStatus::Canceled,
            None if self.state.runs == 0 && self.once().is_some() => JobStatus::Canceled,
            _ => JobStatus::Completed,
        }
    }

    /// Its schedule, compiled.
    ///
    /// # Errors
    /// If it cannot be. Creation made sure that it can, but a later version may know one zone less
    /// or be stricter.
    pub fn schedule(&self) -> Result<Schedule, ScheduleError> {
        let identity = turn::identity(&self.definition, self.id);
        Schedule::compile(&spec::schedule_spec(&self.definition), &identity, self.anchor)
    }

    /// Its schedule in plain words, or that it does not compile and why.
    #[must_use]
    pub fn schedule_text(&self) -> String {
        if let Some(at) = self.once() {
            return format!("Once, at {at}"); // Lists are full of these: nothing is compiled.
        }
        match self.schedule() {
            Ok(schedule) => schedule.describe(),
            Err(error) => sentence(&turn::broken_in_words(&error)),
        }
    }

    /// The instant of a job that is nothing but one `at` or `delay`.
    #[must_use]
    pub fn once(&self) -> Option<Time> {
        spec::plain_once(self.definition.schedule.as_ref()?, self.anchor)
    }
}

/// Whether a mark that was set has not run out.
#[must_use]
pub fn in_force(mark: &Mark, now: Time) -> bool {
    mark.until_ms.is_none_or(|until| until > now.0)
}

/// With a capital at its beginning.
pub(super) fn sentence(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map(|first| first.to_uppercase().chain(rest).collect()).unwrap_or_default()
}

/// A job by id.
///
/// # Errors
/// When the store cannot be read.
pub fn job(view: &dyn View, id: JobId) -> Result<Option<StoredJob>, StoreError> {
    let key = key::job(id);
    if let Some(row) = read::<JobRow>(view, Family::Job, &key)? {
        let state = read::<JobState>(view, Family::State, &key)?.unwrap_or_default();
        if state.deleted {
            return Ok(None);
        }
        return Ok(Some(StoredJob {
            id,
            definition: record::decode("definition", row.definition)?,
            created: Time(row.created_ms),
            updated: Time(row.updated_ms),
            revision: row.revision,
            anchor: Time(row.anchor_ms),
            hash: row.hash,
            batch: batch_of(row.batch),
            state,
        }));
    }
    match read::<Filed>(view, Family::Index, &key)? {
        Some(filed) => compact(view, id, filed),
        None => Ok(None),
    }
}

fn compact(view: &dyn View, id: JobId, filed: Filed) -> Result<Option<StoredJob>, StoreError> {
    let time = Time(filed.time_ms);
    let entry = DueKey { time, kind: DueKind::OneOff, job: id, n: 0 };
    if let Some(one_off) = read::<OneOff>(view, Family::Due, &entry.key(id.shard()))? {
        let state = JobState { next_ms: Some(one_off.scheduled_ms), ..JobState::default() };
        return from_one_off(id, one_off, state).map(Some);
    }
    let run_id = RunId { job: id, n: 1 };
    let row = match read::<RunRow>(view, Family::Active, &key::run(run_id))? {
        Some(row) => Some(row),
        None => {
            let place = Place { class: filed.class as u16, time, run: run_id };
            let pruned = turn::is_pruned(&shard_row(view, id.shard())?, &place);
            if pruned { None } else { read(view, Family::History, &place.history())? }
        }
    };
    let Some(RunRow { run: Some(run), job: Some(one_off) }) = row else {
        return Ok(None);
    };
    if run.forget {
        return Ok(None);
    }
    let state = one_off_state(&run);
    from_one_off(id, one_off, state).map(Some)
}

fn one_off_state(run: &Run) -> JobState {
    let finished = run::finished(run);
    JobState {
        next_ms: Some(run.scheduled_ms),
        runs: 1,
        scheduled_runs: 1,
        open: if finished.is_none() { vec![1] } else { Vec::new() },
        last: finished.map(|at| LastRun {
            n: 1,
            scheduled_ms: run.scheduled_ms,
            status: run.status,
            finished_ms: at.0,
        }),
        ended: true,
        ..JobState::default()
    }
}

fn from_one_off(id: JobId, one_off: OneOff, state: JobState) -> Result<StoredJob, StoreError> {
    let created = Time(one_off.created_ms);
    Ok(StoredJob {
        id,
        definition: record::decode("definition", one_off.definition)?,
        created,
        updated: created,
        revision: 1,
        anchor: created,
        hash: one_off.hash,
        batch: batch_of(one_off.batch),
        state,
    })
}

fn batch_of(id: u64) -> Option<BatchId> {
    (id != 0).then_some(BatchId(id))
}

/// The job that has a caller's key. `shard` is the key's shard.
///
/// # Errors
/// When the store cannot be read.
pub fn job_of_key(
    view: &dyn View,
    shard: Shard,
    namespace: &str,
    name: &str,
) -> Result<Option<JobId>, StoreError> {
    let row = read::<KeyRow>(view, Family::Key, &key::caller_key(shard, namespace, name))?;
    Ok(row.map(|row| JobId(row.job)))
}

/// The switches of a group, as a shard has them.
///
/// # Errors
/// When the store cannot be read.
pub fn group(
    view: &dyn View,
    shard: Shard,
    namespace: &str,
    group: &str,
) -> Result<Option<GroupRow>, StoreError> {
    read(view, Family::Meta, &key::group(shard, namespace, group))
}
