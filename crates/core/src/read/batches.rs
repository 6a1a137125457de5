//! Batches: how they stand, and the runs of their members.

use super::lists::{Found, Merged};
use super::runs::{StoredRun, run};
use super::{LOOK_MAX, ahead, read};
use crate::batch::Progress;
use crate::id::{BatchId, JobId, RunId};
use crate::key;
use crate::record::{self, BatchRow, BatchStage, ItemChunk, KeyRow, PartRow, RunStatus};
use crate::waist::{Family, Shard, StoreError, View};

/// A batch as it is stored.
#[derive(Clone, Debug)]
pub struct StoredBatch {
    /// Its id.
    pub id: BatchId,
    /// Its record.
    pub row: BatchRow,
    /// How it stands in each of the shards.
    pub parts: Vec<PartRow>,
}

impl StoredBatch {
    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress::of(&self.row, &self.parts)
    }
}

/// A batch. One that is still being received is shown to nobody else.
///
/// # Errors
/// When the store cannot be read.
pub fn batch(
    view: &dyn View,
    shards: &[Shard],
    id: BatchId,
) -> Result<Option<StoredBatch>, StoreError> {
    let Some(row) = read::<BatchRow>(view, Family::Batch, &key::batch(id))? else {
        return Ok(None);
    };
    if view.is_far() {
        let part = |shard: &Shard| (Family::Batch, key::batch_part(*shard, id));
        view.foresee(&shards.iter().map(part).collect::<Vec<_>>())?;
    }
    let parts = shards.iter().map(|shard| {
        Ok(read(view, Family::Batch, &key::batch_part(*shard, id))?.unwrap_or_default())
    });
    let parts = parts.collect::<Result<_, StoreError>>()?;
    Ok(Some(StoredBatch { id, row, parts }))
}

/// The batch that has a caller's key. `shard` is the key's shard.
///
/// # Errors
/// When the store cannot be read.
pub fn batch_of_key(
    view: &dyn View,
    shard: Shard,
    namespace: &str,
    name: &str,
) -> Result<Option<BatchId>, StoreError> {
    let row = read::<KeyRow>(view, Family::Batch, &key::batch_name(shard, namespace, name))?;
    Ok(row.map(|row| BatchId(row.job)))
}

/// Items of a batch that are yet to become jobs.
///
/// # Errors
/// When the store cannot be read.
pub fn batch_items(
    view: &dyn View,
    id: BatchId,
    chunk: u32,
) -> Result<Option<ItemChunk>, StoreError> {
    read(view, Family::Batch, &key::batch_items(id, chunk))
}

/// Batches that are at home in the given shards, newest first, with ids below `before`; of one
/// namespace, or of all.
///
/// # Errors
/// When the store cannot be read.
pub fn batches(
    view: &dyn View,
    shards: &[Shard],
    namespace: Option<&str>,
    before: Option<BatchId>,
    limit: usize,
) -> Result<Found<StoredBatch, BatchId>, StoreError> {
    let sources = shards.iter().map(|shard| {
        let (from, to) = key::batches(*shard, before);
        view.scan_back(Family::Batch, &from, &to)
    });
    let mut merged = Merged::new(sources.collect(), |key| key::read_batch(key));
    let mut items = Vec::new();
    let (mut last, mut looked) = (None, 0);
    while looked < LOOK_MAX && items.len() < limit {
        let rows = merged.some(limit - items.len())?;
        if rows.is_empty() {
            return Ok(Found { items, cursor: None });
        }
        looked += rows.len();
        last = rows.last().map(|(id, _)| *id);
        let mut wanted = Vec::new();
        for (id, value) in rows {
            let row: BatchRow = record::decode("batch", value)?;
            let here = namespace.is_none_or(|namespace| namespace == row.namespace_name());
            wanted.extend((here && row.is_accepted()).then_some(id));
        }
        if view.is_far() {
            let parts = wanted.iter().flat_map(|id| {
                let of = |shard: &Shard| (Family::Batch, key::batch_part(*shard, *id));
                shards.iter().map(of)
            });
            view.foresee(&parts.collect::<Vec<_>>())?;
        }
        for id in wanted {
            items.extend(batch(view, shards, id)?);
        }
    }
    Ok(Found { items, cursor: last })
}

/// Batches at home in a shard that are not over.
///
/// # Errors
/// When the store cannot be read.
pub fn batches_to_go_on_with(view: &dyn View, shard: Shard) -> Result<Vec<BatchId>, StoreError> {
    let (from, to) = key::batches(shard, None);
    let mut found = Vec::new();
    for row in view.scan(Family::Batch, &from, &to) {
        let (key, value) = row?;
        let row: BatchRow = record::decode("batch", value)?;
        if row.stage() != BatchStage::Ended || !row.parts_told {
            found.push(key::read_batch(&key)?);
        }
    }
    Ok(found)
}

/// Runs of the members of a batch, newest first, of jobs with ids below `before`; those with one of
/// the statuses, or all.
///
/// # Errors
/// When the store cannot be read.
pub fn batch_runs(
    view: &dyn View,
    shards: &[Shard],
    id: BatchId,
    statuses: &[RunStatus],
    before: Option<JobId>,
    limit: usize,
) -> Result<Found<StoredRun, JobId>, StoreError> {
    let sources = shards.iter().map(|shard| {
        let (from, to) = key::batch_members(*shard, id, before);
        view.scan_back(Family::Tag, &from, &to)
    });
    let mut merged = Merged::new(sources.collect(), |key| key::read_held(key));
    let mut items = Vec::new();
    let (mut last, mut looked) = (None, 0);
    while looked < LOOK_MAX && items.len() < limit {
        let rows = merged.some(limit - items.len())?;
        if rows.is_empty() {
            return Ok(Found { items, cursor: None });
        }
        looked += rows.len();
        last = rows.last().map(|(job, _)| *job);
        let ids: Vec<RunId> = rows.into_iter().map(|(job, _)| RunId { job, n: 1 }).collect();
        ahead::runs(view, &ids)?;
        for id in ids {
            let found = run(view, id)?;
            let wanted = |run: RunStatus| statuses.is_empty() || statuses.contains(&run);
            items.extend(found.filter(|found| wanted(found.run.status())));
        }
    }
    Ok(Found { items, cursor: last })
}
