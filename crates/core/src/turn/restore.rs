//! What a shard does when it comes out of a backup.
//!
//! Between the moment of the backup and that of the restore lies the *gap*: what happened in it
//! nobody here knows. Work that may be repeated goes on under its policies. Work that must not
//! (`at_most_once`) and may have been done in the gap is held, so that somebody who can look at its
//! effects decides. Attempts that were with workers are over in any case: their tokens are void.
//!
//! This is done once, before the shard leads anything, in bounded steps ([`Turn::hold_restored`]):
//! jobs in full form, one-off jobs that wait, open runs, batches that have yet to become jobs. The
//! jobs come first, so that no run that ends here plans another.

use bytes::Bytes;

use super::job::{Compact, FullJob};
use super::report::delivery_of;
use super::{Turn, namespace_name};
use crate::id::{BatchId, RunId};
use crate::key::{self, DueKey, DueKind};
use crate::record::{
    self, Audit, BatchRow, BatchStage, Definition, Delivery, EventKind, ItemChunk, Mark, OneOff,
    RunStatus,
};
use crate::run;
use crate::time::Time;
use crate::waist::{Family, Row, StoreError};

/// The word for it, in the ledger and in events.
const RESTORED: &str = "restored";
/// By whom such a pause is.
const RESTORE: &str = "restore";
/// Chunks of items looked at in one step; each may have some hundred kilobytes.
const CHUNKS: usize = 16;

/// From when to when nobody knows what happened to a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// When the backup was taken of this shard.
    pub taken: Time,
    /// When it was restored.
    pub restored: Time,
}

impl Gap {
    /// What is noted on what is held.
    #[must_use]
    pub fn note(&self) -> String {
        let Gap { taken, restored } = self;
        format!(
            "restored from a backup of {taken}; it may have run until {restored}; \
             'bellwether job resume' to go on"
        )
    }

    fn detail(&self) -> String {
        let Gap { taken, restored } = self;
        format!("restored from a backup of {taken}; it may have run until {restored}")
    }
}

/// How far taking stock has come. It begins with the default.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RestoreCursor {
    stage: usize,
    after: Option<Bytes>,
}

/// What was done about the gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HeldCount {
    /// Jobs that are held.
    pub jobs: u64,
    /// Runs that became `lost`.
    pub lost: u64,
    /// Runs that were with a worker and will be started again.
    pub repeated: u64,
    /// Batches whose items will become jobs that are held.
    pub batches: u64,
}

impl HeldCount {
    /// Adds another count.
    pub fn add(&mut self, other: HeldCount) {
        self.jobs += other.jobs;
        self.lost += other.lost;
        self.repeated += other.repeated;
        self.batches += other.batches;
    }
}

fn must_not_repeat(definition: &Definition) -> bool {
    delivery_of(definition) == Delivery::AtMostOnce
}

impl Turn<'_> {
    /// Looks at up to `limit` rows, from a cursor on, and holds what may have run in the gap. The
    /// turn's time must be that of the restore. `None` once all is done.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn hold_restored(
        &mut self,
        gap: &Gap,
        cursor: RestoreCursor,
        limit: usize,
        count: &mut HeldCount,
    ) -> Result<Option<RestoreCursor>, StoreError> {
        let shard = self.memory.shard;
        let all = key::shard_range(shard);
        let due = key::due_range(shard, Time(i64::MIN), self.now.plus_ms(1));
        let (family, range, limit) = match cursor.stage {
            0 => (Family::Job, all, limit),
            1 => (Family::Due, due, limit),
            2 => (Family::Active, all, limit),
            3 => (Family::Batch, key::batches(shard, None), limit),
            4 => (Family::Batch, key::all_batch_items(shard), limit.min(CHUNKS)),
            _ => return Ok(None),
        };
        let from = cursor.after.map_or(range.0, |last| {
            let mut next = last.to_vec();
            next.push(0);
            next.into()
        });
        let rows = self.store.scan(family, &(from, range.1), limit)?;
        let last = rows.last().map(|(key, _)| key.clone()).filter(|_| rows.len() == limit);
        for row in rows {
            match cursor.stage {
                0 => self.restore_job(gap, &row, count)?,
                1 => self.restore_one_off(gap, row, count)?,
                2 => self.restore_run(gap, &row, count)?,
                3 => self.restore_batch(gap, &row, count)?,
                _ => self.restore_items(row)?,
            }
        }
        let stage = if last.is_some() { cursor.stage } else { cursor.stage + 1 };
        Ok(Some(RestoreCursor { stage, after: last }))
    }

    /// A job in full form is held if a tick of it was due in the gap, or a run of it was open.
    fn restore_job(
        &mut self,
        gap: &Gap,
        (key, _): &Row,
        count: &mut HeldCount,
    ) -> Result<(), StoreError> {
        let Some(mut job) = self.full(key::read_run(key)?.0)? else { return Ok(()) };
        if job.state.paused.is_some() || !must_not_repeat(&job.definition) {
            return Ok(());
        }
        let tick = job.state.next_ms.map(Time).filter(|tick| job.due_time(*tick) <= self.now);
        if tick.is_none() && job.state.open.is_empty() {
            return Ok(());
        }
        // If its schedule does not compile any more, whoever resumes it is told.
        if job.once().is_none()
            && let Some(tick) = tick
            && let Ok(schedule) = self.schedule_of(&job)
        {
            self.skip_until_now(&mut job, &schedule, tick, RESTORED, &gap.detail());
        }
        // A one-off whose run was open has nothing more to do that could be held.
        if job.once().is_none() || tick.is_some() {
            self.hold_job(&mut job, &gap.note());
            count.jobs += 1;
        }
        self.put_state(&job);
        Ok(())
    }

    /// A one-off job in compact form that was due in the gap is held.
    fn restore_one_off(
        &mut self,
        gap: &Gap,
        (key, value): Row,
        count: &mut HeldCount,
    ) -> Result<(), StoreError> {
        let entry = DueKey::read(&key)?;
        if entry.kind != DueKind::OneOff {
            return Ok(());
        }
        let one_off: OneOff = record::decode("due", value)?;
        let definition: Definition = record::decode("definition", one_off.definition.clone())?;
        if must_not_repeat(&definition) {
            let mut job = self.promote(entry.job, Compact::Waiting(entry, one_off))?;
            self.hold_job(&mut job, &gap.note());
            self.put_state(&job);
            count.jobs += 1;
        }
        Ok(())
    }

    /// An open run that must not be repeated is lost: it may have gone on. Of the others those that
    /// were with a worker are started again.
    fn restore_run(
        &mut self,
        gap: &Gap,
        (key, _): &Row,
        count: &mut HeldCount,
    ) -> Result<(), StoreError> {
        let (job, n) = key::read_run(key)?;
        let id = RunId { job, n: n.unwrap_or(1) };
        let Some((row, run)) = self.take_open(id)? else { return Ok(()) };
        self.memory.open_runs += 1;
        let definition = self.definition_of(id, &row)?;
        let last = run::event_because(self.now, EventKind::Lost, RESTORED, &gap.detail());
        if definition.is_none_or(|definition| must_not_repeat(&definition)) {
            if run.status() == RunStatus::Retrying {
                let time = Time(run.retry_ms);
                self.unplan(DueKey { time, kind: DueKind::Retry, job: id.job, n: id.n });
            }
            self.close(id, row, run, last)?;
            count.lost += 1;
        } else if run::is_with_worker(run.status()) {
            self.unknown(id, row, run, last)?;
            count.repeated += 1;
        } else {
            self.keep_open(id, row, run);
        }
        Ok(())
    }

    /// Items that were left may have become jobs in the gap, and these may have run: the jobs they
    /// become now are held.
    fn restore_batch(
        &mut self,
        gap: &Gap,
        (key, value): &Row,
        count: &mut HeldCount,
    ) -> Result<(), StoreError> {
        let id = key::read_batch(key)?;
        let mut row: BatchRow = record::decode("batch", value.clone())?;
        if !has_items_left(&row) {
            return Ok(());
        }
        if let Some(mut template) = row.template()?.filter(must_not_repeat) {
            template.disabled = true;
            row.template = record::encode(&template);
            self.store.put(Family::Batch, key.clone(), record::encode(&row));
            self.note_held_batch(gap, id, &row);
            count.batches += 1;
        }
        if row.template.is_empty() {
            self.note_held_batch(gap, id, &row);
            count.batches += 1;
        }
        Ok(())
    }

    /// The same for items that are whole definitions.
    fn restore_items(&mut self, (key, value): Row) -> Result<(), StoreError> {
        let batch = key::read_batch(&key)?;
        let row = self.read::<BatchRow>(Family::Batch, &key::batch(batch))?;
        if !row.is_some_and(|row| row.template.is_empty() && has_items_left(&row)) {
            return Ok(());
        }
        let mut chunk: ItemChunk = record::decode("items", value)?;
        for item in &mut chunk.items {
            let mut definition: Definition = record::decode("definition", item.data.clone())?;
            definition.disabled = must_not_repeat(&definition);
            item.data = record::encode(&definition);
        }
        self.store.put(Family::Batch, key, record::encode(&chunk));
        Ok(())
    }

    /// Makes a member of a batch that was restored: it is held.
    pub(super) fn make_held_member(
        &mut self,
        entry: DueKey,
        one_off: OneOff,
    ) -> Result<(), StoreError> {
        let mut job = self.promote_waiting(entry, one_off)?;
        let note = "its batch was restored from a backup, and it may have run before that; \
                    'bellwether job resume' to go on";
        self.hold_job(&mut job, note);
        self.put_state(&job);
        Ok(())
    }

    /// Pauses a job. The state is not stored yet.
    fn hold_job(&mut self, job: &mut FullJob, note: &str) {
        self.unplan_tick(job);
        let (at_ms, by) = (self.now.0, RESTORE.to_owned());
        job.state.paused = Some(Mark { at_ms, by, until_ms: None, note: note.to_owned() });
        self.note_job(RESTORE, "job.hold", job.id, namespace_name(&job.definition), note);
    }

    fn note_held_batch(&mut self, gap: &Gap, id: BatchId, row: &BatchRow) {
        self.note(Audit {
            actor: RESTORE.to_owned(),
            action: "batch.hold".to_owned(),
            subject: id.to_string(),
            namespace: row.namespace_name().to_owned(),
            detail: gap.detail(),
            jobs: Vec::new(),
        });
    }
}

fn has_items_left(row: &BatchRow) -> bool {
    row.stage() == BatchStage::Open && row.canceled.is_none() && row.next_chunk < row.chunks
}
