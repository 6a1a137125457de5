//! A batch in its home shard: received, accepted, expanded, over.

use bytes::Bytes;

use super::super::{Effect, Halt, Rejection, RejectionKind, Reply, Turn};
use crate::batch::{ITEMS_MAX, RECEIVING_MS};
use crate::id::{BatchId, JobId};
use crate::key::{self, DueKey, DueKind};
use crate::record::{
    self, Audit, BatchRow, BatchStage, Definition, Item, ItemChunk, KeyRow, PartRow,
};
use crate::time::Time;
use crate::waist::{Family, StoreError};

/// Chunks that are dropped in one step; each may have some hundred kilobytes.
const STEP: usize = 16;

fn not_receiving() -> Rejection {
    let detail = "nothing came for so long that the batch was thrown away; send it again";
    Rejection::conflict("batch_not_receiving", detail)
}

impl Turn<'_> {
    fn find_batch(&self, id: BatchId) -> Result<Option<BatchRow>, StoreError> {
        self.read(Family::Batch, &key::batch(id))
    }

    fn batch_row(&self, id: BatchId) -> Result<BatchRow, Halt> {
        Ok(self.find_batch(id)?.ok_or_else(Rejection::no_batch)?)
    }

    fn put_batch(&mut self, id: BatchId, row: &BatchRow) {
        self.store.put(Family::Batch, key::batch(id), record::encode(row));
        self.effects.push(Effect::Batch(id));
    }

    fn name_of(&self, row: &BatchRow) -> Option<Bytes> {
        let name = || key::batch_name(self.memory.shard, row.namespace_name(), &row.key);
        (!row.key.is_empty()).then(name)
    }

    fn note_batch(&mut self, actor: &str, action: &str, id: BatchId, row: &BatchRow, detail: &str) {
        self.note(Audit {
            actor: actor.to_owned(),
            action: action.to_owned(),
            subject: id.to_string(),
            namespace: row.namespace_name().to_owned(),
            detail: detail.to_owned(),
            jobs: Vec::new(),
        });
    }

    pub(super) fn begin_batch(&mut self, row: BatchRow) -> Result<Reply, Halt> {
        let name = self.name_of(&row);
        if let Some(name) = &name
            && let Some(known) = self.read::<KeyRow>(Family::Batch, name)?
            && let Some(other) = self.find_batch(BatchId(known.job))?
        {
            if !other.is_accepted() {
                return Err(Rejection {
                    kind: RejectionKind::Busy,
                    code: "try_again".into(),
                    message: "a batch with this key is being received; try again in a minute"
                        .to_owned(),
                }
                .into());
            }
            return Ok(Reply::Batch { batch: BatchId(known.job), new: false });
        }
        let id = BatchId(self.memory.ids.next(self.now).0);
        let row = BatchRow {
            created_ms: self.now.0,
            received_ms: self.now.0,
            stage: BatchStage::Receiving as i32,
            ..row
        };
        if let Some(name) = name {
            let known = KeyRow { job: id.0, reserved_ms: 0 };
            self.store.put(Family::Batch, name, record::encode(&known));
        }
        self.put_batch(id, &row);
        Ok(Reply::Batch { batch: id, new: true })
    }

    pub(super) fn receive_items(
        &mut self,
        id: BatchId,
        chunk: u32,
        items: Vec<Item>,
    ) -> Result<Reply, Halt> {
        let mut row = self.batch_row(id)?;
        if row.stage() != BatchStage::Receiving || chunk != row.chunks {
            return Err(not_receiving().into());
        }
        row.received_ms = self.now.0;
        if items.is_empty() {
            self.put_batch(id, &row);
            return Ok(Reply::Done);
        }
        row.chunks += 1;
        row.items += items.len() as u64;
        if row.items > ITEMS_MAX {
            let detail = format!("a batch has at most {ITEMS_MAX} items; send several batches");
            return Err(Rejection::invalid("batch_too_large", detail).into());
        }
        let items = record::encode(&ItemChunk { items });
        self.store.put(Family::Batch, key::batch_items(id, chunk), items);
        self.put_batch(id, &row);
        Ok(Reply::Done)
    }

    pub(super) fn accept_batch(
        &mut self,
        id: BatchId,
        actor: &str,
        hash: Bytes,
    ) -> Result<Reply, Halt> {
        let mut row = self.batch_row(id)?;
        if row.stage() != BatchStage::Receiving {
            return Err(not_receiving().into());
        }
        row.stage = BatchStage::Open as i32;
        row.hash = hash;
        self.note_batch(actor, "batch.create", id, &row, &format!("{} items", row.items));
        self.put_batch(id, &row);
        Ok(Reply::Done)
    }

    pub(super) fn discard_batch(
        &mut self,
        id: BatchId,
        only_if_stale: bool,
    ) -> Result<Reply, Halt> {
        let mut row = match self.find_batch(id)? {
            Some(row) if !row.is_accepted() => row,
            _ => return Ok(Reply::More(false)),
        };
        let stale = self.now >= Time(row.received_ms).plus_ms(RECEIVING_MS);
        if row.stage() == BatchStage::Receiving && only_if_stale && !stale {
            return Ok(Reply::More(false));
        }
        if row.stage() == BatchStage::Receiving {
            // From here on nothing more is taken: a part of it must not pass for the whole.
            row.stage = BatchStage::Discarded as i32;
            self.put_batch(id, &row);
        }
        if self.drop_items(id)? == STEP {
            return Ok(Reply::More(true));
        }
        self.forget_home(id, &row)?;
        Ok(Reply::More(false))
    }

    /// Drops a few chunks of items, and says how many.
    fn drop_items(&mut self, id: BatchId) -> Result<usize, StoreError> {
        let rows = self.store.scan(Family::Batch, &key::batch_all_items(id), STEP)?;
        for (key, _) in &rows {
            self.store.delete(Family::Batch, key.clone());
        }
        Ok(rows.len())
    }

    /// Removes a batch's own record and its name.
    fn forget_home(&mut self, id: BatchId, row: &BatchRow) -> Result<(), StoreError> {
        if let Some(name) = self.name_of(row)
            && self.read::<KeyRow>(Family::Batch, &name)?.is_some_and(|known| known.job == id.0)
        {
            self.store.delete(Family::Batch, name);
        }
        self.store.delete(Family::Batch, key::batch(id));
        self.effects.push(Effect::Batch(id));
        Ok(())
    }

    pub(super) fn expanded(&mut self, id: BatchId, upto: u32) -> Result<Reply, Halt> {
        let mut row = self.batch_row(id)?;
        for chunk in row.next_chunk..upto.min(row.chunks) {
            self.store.delete(Family::Batch, key::batch_items(id, chunk));
            row.next_chunk = chunk + 1;
        }
        self.put_batch(id, &row);
        Ok(Reply::Done)
    }

    pub(super) fn cancel_batch(
        &mut self,
        id: BatchId,
        actor: &str,
        note: &str,
    ) -> Result<Reply, Halt> {
        let mut row = self.batch_row(id)?;
        match row.stage() {
            BatchStage::Receiving | BatchStage::Discarded => {
                return Err(Rejection::no_batch().into());
            }
            BatchStage::Ended => {
                let detail = format!("{id} is over already");
                return Err(Rejection::conflict("batch_ended", detail).into());
            }
            BatchStage::Open => {}
        }
        if row.canceled.is_none() {
            row.canceled = Some(self.mark(actor, None, note));
            self.note_batch(actor, "batch.cancel", id, &row, note);
            self.put_batch(id, &row);
        }
        Ok(Reply::Done)
    }

    pub(super) fn give_up_items(&mut self, id: BatchId, made: &[u32]) -> Result<Reply, Halt> {
        let mut row = self.batch_row(id)?;
        let upto = row.chunks.min(row.next_chunk.saturating_add(STEP as u32));
        for chunk in row.next_chunk..upto {
            let key = key::batch_items(id, chunk);
            let left = self.read::<ItemChunk>(Family::Batch, &key)?;
            if !made.contains(&chunk) {
                row.given_up += left.map_or(0, |chunk| chunk.items.len() as u64);
            }
            self.store.delete(Family::Batch, key);
        }
        row.next_chunk = upto;
        let more = row.next_chunk < row.chunks;
        self.put_batch(id, &row);
        Ok(Reply::More(more))
    }

    pub(super) fn end_batch(
        &mut self,
        id: BatchId,
        completion: Option<Result<u32, String>>,
    ) -> Result<Reply, Halt> {
        let mut row = self.batch_row(id)?;
        if row.stage() != BatchStage::Open {
            return Ok(Reply::Done);
        }
        row.stage = BatchStage::Ended as i32;
        row.ended_ms = self.now.0;
        match completion {
            Some(Ok(run)) => row.completion = run,
            Some(Err(error)) => row.completion_error = error,
            None => {}
        }
        let keep_ms = crate::batch::keep_ms(&row, self.memory.settings.retention_age_ms)?;
        row.forget_ms = self.now.plus_ms(keep_ms).0;
        self.plan_forgetting(id, keep_ms);
        self.put_batch(id, &row);
        Ok(Reply::Done)
    }

    pub(super) fn parts_told(&mut self, id: BatchId) -> Result<Reply, Halt> {
        let mut row = self.batch_row(id)?;
        row.parts_told = true;
        self.put_batch(id, &row);
        Ok(Reply::Done)
    }

    pub(super) fn plan_forgetting(&mut self, id: BatchId, keep_ms: u64) {
        let time = self.now.plus_ms(keep_ms);
        self.plan(DueKey { time, kind: DueKind::Forget, job: JobId(id.0), n: 0 }, Bytes::new());
    }

    /// The time of a batch that is over has come to be forgotten, here.
    pub(in super::super) fn due_forget(&mut self, id: BatchId) -> Result<(), StoreError> {
        let part = key::batch_part(self.memory.shard, id);
        if self.read::<PartRow>(Family::Batch, &part)?.is_some_and(|part| part.ended_ms != 0) {
            self.forget_part(id);
        }
        if id.shard() != self.memory.shard {
            return Ok(());
        }
        let Some(row) = self.find_batch(id)?.filter(|row| row.stage() == BatchStage::Ended) else {
            return Ok(());
        };
        if Time(row.forget_ms) <= self.now {
            self.forget_home(id, &row)?;
        }
        Ok(())
    }
}

impl BatchRow {
    /// The template, if it has one.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn template(&self) -> Result<Option<Definition>, StoreError> {
        if self.template.is_empty() {
            return Ok(None);
        }
        record::decode("definition", self.template.clone()).map(Some)
    }
}
