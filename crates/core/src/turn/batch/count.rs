//! Counting the runs of members, in the commit that changes them.
//!
//! A run knows as what it was counted last, so that whatever happens to it, comparing that with
//! what it is now tells how the figures change. There is one place for it, where runs are stored.

use super::super::{Effect, Turn};
use crate::batch::{count_of, counted};
use crate::id::BatchId;
use crate::key;
use crate::record::{self, Count, PartRow, Run};
use crate::waist::{Family, StoreError};

/// Parts kept in memory.
const PARTS_MAX: usize = 1_024;

impl Turn<'_> {
    /// Makes sure that the part which counts a run is in memory. To be called before the run is
    /// changed.
    pub(in super::super) fn load_part(&mut self, batch: u64) -> Result<(), StoreError> {
        let id = BatchId(batch);
        if batch == 0 || self.memory.parts.contains_key(&id) {
            return Ok(());
        }
        let key = key::batch_part(self.memory.shard, id);
        if let Some(part) = self.read::<PartRow>(Family::Batch, &key)? {
            self.memory.parts.insert(id, part);
        }
        Ok(())
    }

    /// Counts a run as what it is now. A batch that has been forgotten counts nothing.
    pub(in super::super) fn recount(&mut self, run: &mut Run) {
        let count = count_of(run.status());
        if run.batch == 0 || run.counted() == count {
            return;
        }
        let before = std::mem::replace(&mut run.counted, count as i32);
        let before = Count::try_from(before).unwrap_or(Count::Waiting);
        let id = BatchId(run.batch);
        if let Some(part) = self.memory.parts.get_mut(&id) {
            counted(part, before, false);
            counted(part, count, true);
            self.parts_changed.insert(id);
        }
    }

    /// Counts a member that ends without ever having had a run.
    pub(in super::super) fn count_without_run(
        &mut self,
        batch: u64,
        count: Count,
    ) -> Result<(), StoreError> {
        self.load_part(batch)?;
        if let Some(part) = self.memory.parts.get_mut(&BatchId(batch)) {
            counted(part, count, true);
            self.parts_changed.insert(BatchId(batch));
        }
        Ok(())
    }

    /// A shard's part of a batch, to be changed.
    pub(super) fn part(&mut self, id: BatchId) -> Result<&mut PartRow, StoreError> {
        self.load_part(id.0)?;
        self.parts_changed.insert(id);
        Ok(self.memory.parts.entry(id).or_default())
    }

    /// Forgets a shard's part of a batch.
    pub(super) fn forget_part(&mut self, id: BatchId) {
        self.memory.parts.remove(&id);
        self.parts_changed.remove(&id);
        self.store.delete(Family::Batch, key::batch_part(self.memory.shard, id));
    }

    /// Stores the parts that have changed.
    pub(in super::super) fn put_parts(&mut self) {
        for id in std::mem::take(&mut self.parts_changed) {
            if let Some(part) = self.memory.parts.get(&id) {
                let key = key::batch_part(self.memory.shard, id);
                self.store.put(Family::Batch, key, record::encode(part));
                self.effects.push(Effect::Batch(id));
            }
        }
        if self.memory.parts.len() > PARTS_MAX {
            self.memory.parts.clear();
        }
    }
}
