//! Saying what a list reads next, for a view that has to fetch it from other nodes: one question for
//! many rows instead of several for each.
//!
//! Nothing here decides anything. A key too few costs a question more, and a key too many a few bytes.

use bytes::Bytes;

use super::read;
use super::runs::filed;
use crate::id::{JobId, RunId};
use crate::key::{self, DueKey, DueKind, Place};
use crate::record::Filed;
use crate::time::Time;
use crate::waist::{Family, StoreError, View};

/// Rows of a list that are looked at together.
pub(super) const AHEAD: usize = 256;

/// Single jobs are read next.
pub(super) fn jobs(view: &dyn View, ids: &[JobId]) -> Result<(), StoreError> {
    if !view.is_far() {
        return Ok(());
    }
    let families = [Family::Job, Family::State, Family::Index];
    let keys = ids.iter().flat_map(|id| families.map(|family| (family, key::job(*id))));
    view.foresee(&keys.collect::<Vec<_>>())?;
    let mut keys = Vec::new();
    for id in ids {
        if view.get(Family::Job, &key::job(*id))?.is_none()
            && let Some(filed) = read::<Filed>(view, Family::Index, &key::job(*id))?
        {
            let run = RunId { job: *id, n: 1 };
            keys.push((Family::Active, key::run(run)));
            keys.extend(places(run, filed));
        }
    }
    view.foresee(&keys)
}

/// Single runs are read next.
pub(super) fn runs(view: &dyn View, ids: &[RunId]) -> Result<(), StoreError> {
    if !view.is_far() {
        return Ok(());
    }
    let keys = ids.iter().flat_map(|id| {
        [
            (Family::Active, key::run(*id)),
            (Family::State, key::run(*id)),
            (Family::Index, key::job(id.job)),
            (Family::Job, key::job(id.job)),
        ]
    });
    view.foresee(&keys.collect::<Vec<_>>())?;
    let mut keys = Vec::new();
    for id in ids {
        if view.get(Family::Active, &key::run(*id))?.is_none()
            && let Some(filed) = filed(view, *id)?
        {
            keys.extend(places(*id, filed));
        }
    }
    view.foresee(&keys)
}

/// What the jobs of these runs are is read next.
pub(super) fn definitions(
    view: &dyn View,
    runs: impl Iterator<Item = RunId>,
) -> Result<(), StoreError> {
    if !view.is_far() {
        return Ok(());
    }
    view.foresee(&runs.map(|run| (Family::Job, key::job(run.job))).collect::<Vec<_>>())
}

/// Where a run may be that is not open.
fn places(run: RunId, filed: Filed) -> [(Family, Bytes); 3] {
    let (time, shard) = (Time(filed.time_ms), run.job.shard());
    let due = DueKey { time, kind: DueKind::OneOff, job: run.job, n: 0 };
    let place = Place { class: filed.class as u16, time, run };
    [
        (Family::Due, due.key(shard)),
        (Family::History, place.history()),
        (Family::Meta, key::shard_row(shard)),
    ]
}
