//! Single runs, the runs of a job, and what they printed.

use super::{ahead, read, shard_row};
use crate::id::{JobId, RunId};
use crate::key::{self, DueKey, DueKind, Place};
use crate::record::{self, Cause, Definition, Filed, JobRow, OneOff, OutputChunk, Run, RunRow};
use crate::run;
use crate::time::Time;
use crate::turn;
use crate::waist::{Family, StoreError, View};

/// A run with the definition of its job.
#[derive(Clone, Debug)]
pub struct StoredRun {
    /// Its id.
    pub id: RunId,
    /// The run.
    pub run: Run,
    /// What its job is now.
    pub definition: Definition,
}

/// A run by id; also the one run of a one-off job that is not yet due.
///
/// # Errors
/// When the store cannot be read.
pub fn run(view: &dyn View, id: RunId) -> Result<Option<StoredRun>, StoreError> {
    if let Some(row) = read::<RunRow>(view, Family::Active, &key::run(id))? {
        return with_definition(view, id, row);
    }
    let Some(filed) = filed(view, id)? else {
        return Ok(None);
    };
    if let Some(waiting) = waiting(view, id, filed)? {
        return Ok(Some(waiting));
    }
    let place = Place { class: filed.class as u16, time: Time(filed.time_ms), run: id };
    if turn::is_pruned(&shard_row(view, id.job.shard())?, &place) {
        return Ok(None);
    }
    match read::<RunRow>(view, Family::History, &place.history())? {
        Some(row) => with_definition(view, id, row),
        None => Ok(None),
    }
}

pub(super) fn filed(view: &dyn View, id: RunId) -> Result<Option<Filed>, StoreError> {
    if id.n == 1
        && let Some(filed) = read::<Filed>(view, Family::Index, &key::job(id.job))?
    {
        return Ok(Some(filed));
    }
    read(view, Family::State, &key::run(id))
}

fn waiting(view: &dyn View, id: RunId, filed: Filed) -> Result<Option<StoredRun>, StoreError> {
    let time = Time(filed.time_ms);
    let entry = DueKey { time, kind: DueKind::OneOff, job: id.job, n: 0 };
    let Some(one_off) = read::<OneOff>(view, Family::Due, &entry.key(id.job.shard()))? else {
        return Ok(None);
    };
    let scheduled = Time(one_off.scheduled_ms);
    let run = run::new(1, scheduled, time, filed.class as u16, Cause::Schedule);
    let definition = record::decode("definition", one_off.definition)?;
    Ok(Some(StoredRun { id, run, definition }))
}

/// Completes a stored row; `None` if its job has been deleted.
pub(super) fn with_definition(
    view: &dyn View,
    id: RunId,
    row: RunRow,
) -> Result<Option<StoredRun>, StoreError> {
    let Some(run) = row.run.filter(|run| !run.forget) else {
        return Ok(None);
    };
    let definition = definition_of(view, id, row.job)?;
    Ok(definition.map(|definition| StoredRun { id, run, definition }))
}

/// What the job of a run is, or was.
fn definition_of(
    view: &dyn View,
    id: RunId,
    job: Option<OneOff>,
) -> Result<Option<Definition>, StoreError> {
    let bytes = match job {
        Some(job) => Some(job.definition),
        None => read::<JobRow>(view, Family::Job, &key::job(id.job))?.map(|row| row.definition),
    };
    bytes.map(|bytes| record::decode("definition", bytes)).transpose()
}

/// What the job of an open run is; also of one whose job has been deleted, since it is still with its
/// worker.
pub(crate) fn definition_of_open(
    view: &dyn View,
    id: RunId,
) -> Result<Option<Definition>, StoreError> {
    match read::<RunRow>(view, Family::Active, &key::run(id))? {
        Some(row) => definition_of(view, id, row.job),
        None => Ok(None),
    }
}

/// Up to `limit` runs of a job with numbers below `before`, newest first.
///
/// # Errors
/// When the store cannot be read.
pub fn runs_of(
    view: &dyn View,
    job: JobId,
    before: Option<u32>,
    limit: usize,
) -> Result<Vec<StoredRun>, StoreError> {
    if view.get(Family::Index, &key::job(job))?.is_some() {
        let only =
            if before.is_none_or(|n| n > 1) { run(view, RunId { job, n: 1 })? } else { None };
        return Ok(only.into_iter().filter(|run| !run.run.events.is_empty()).collect());
    }
    let (from, to) = key::runs(job);
    let to = before.map_or(to, |n| key::run(RunId { job, n }));
    let mut rows = view.scan_back(Family::State, &from, &to).map(|row| {
        let (_, n) = key::read_run(&row?.0)?;
        Ok(RunId { job, n: n.unwrap_or(0) })
    });
    let mut found = Vec::new();
    while found.len() < limit {
        let some = rows.by_ref().take(ahead::AHEAD.min(limit - found.len()));
        let ids = some.collect::<Result<Vec<RunId>, StoreError>>()?;
        if ids.is_empty() {
            break;
        }
        ahead::runs(view, &ids)?;
        for id in ids {
            found.extend(run(view, id)?);
        }
    }
    Ok(found)
}

/// What an attempt printed, as far as it is stored: chunks with numbers from `from` on.
///
/// # Errors
/// When the store cannot be read.
pub fn output(
    view: &dyn View,
    id: RunId,
    run: &Run,
    attempt: u32,
    from: u32,
    limit: usize,
) -> Result<Vec<OutputChunk>, StoreError> {
    let place = Place { class: run.class as u16, time: Time(run.filed_ms), run: id };
    let (_, to) = place.outputs(attempt);
    view.scan(Family::Output, &place.output(attempt, from), &to)
        .take(limit)
        .map(|row| record::decode("output", row?.1))
        .collect()
}
