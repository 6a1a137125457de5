//! Batches: how far one is, what is to be done about it next, and what its items become.
//!
//! A batch is received whole before anything is done about it. From then on its items become jobs
//! (its *members*) chunk by chunk, spread over the shards and never many more than can be worked
//! on, so that a million items cost no more memory than a few thousand. Each shard counts its own
//! members in the same commit in which their runs change; the sum over all shards is the progress.
//!
//! Decisions here are about the whole batch and are made by whoever leads its home shard
//! ([`next_step`]). What the shards do about it is in `turn/batch`.

use crate::id::BatchId;
use crate::record::{
    self, BatchRow, BatchStage, Count, Definition, Item, PartRow, RunStatus, Target,
};
use crate::time::Time;
use crate::waist::StoreError;

/// Items of one chunk at most. A chunk becomes jobs in one turn of one shard.
pub const CHUNK_ITEMS: usize = 1_000;
/// Bytes of one chunk at most, unless a single item is larger.
pub const CHUNK_BYTES: usize = 256 * 1024;
/// Items of a batch at most.
pub const ITEMS_MAX: u64 = 1_000_000;
/// Members that may wait or run at once. More are made only as these end.
pub const OPEN_MAX: u64 = 65_536;
/// Where a command finds its item.
pub const ITEM_VARIABLE: &str = "BELLWETHER_ITEM";
/// After so long without a new chunk, nobody is sending any more.
pub const RECEIVING_MS: u64 = 60_000;

/// How far a batch is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Items.
    pub total: u64,
    /// Those that wait, for a worker or to become jobs at all.
    pub waiting: u64,
    /// Those that wait for another attempt.
    pub retrying: u64,
    /// Those that are with a worker.
    pub running: u64,
    /// Those that ended well.
    pub succeeded: u64,
    /// Those that ended badly.
    pub failed: u64,
    /// Those that were canceled.
    pub canceled: u64,
    /// Those of which nobody knows how they ended.
    pub lost: u64,
    /// Those that were never started.
    pub skipped: u64,
    /// Members made so far.
    pub members: u64,
}

impl Progress {
    /// Adds up a batch over all shards.
    #[must_use]
    pub fn of(row: &BatchRow, parts: &[PartRow]) -> Progress {
        let sum = |field: fn(&PartRow) -> u64| parts.iter().map(field).sum::<u64>();
        let mut progress = Progress {
            total: row.items,
            waiting: 0,
            retrying: sum(|part| part.retrying),
            running: sum(|part| part.running),
            succeeded: sum(|part| part.succeeded),
            failed: sum(|part| part.failed),
            canceled: sum(|part| part.canceled) + row.given_up,
            lost: sum(|part| part.lost),
            skipped: sum(|part| part.skipped),
            members: sum(|part| part.members),
        };
        let elsewhere = progress.retrying + progress.running + progress.ended();
        progress.waiting = progress.total.saturating_sub(elsewhere);
        progress
    }

    /// Items that are over, one way or another.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.succeeded + self.failed + self.canceled + self.lost + self.skipped
    }

    /// Members that wait for a worker or are with one.
    fn open(&self, row: &BatchRow) -> u64 {
        let over = self.ended().saturating_sub(row.given_up) + self.retrying;
        self.members.saturating_sub(over)
    }
}

/// What is to be done about a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Nothing until this instant, or until a part has changed.
    Wait(Option<Time>),
    /// These chunks are to become jobs, one a shard.
    Expand {
        /// The first.
        from: u32,
        /// The one after the last.
        to: u32,
    },
    /// Nobody sends the rest of it any more: it is to be thrown away.
    Discard,
    /// What is left of it is to be canceled.
    Cancel,
    /// All is over: that is to be noted, and what follows to be triggered.
    End,
    /// It is over, and all shards are to be told.
    TellParts,
    /// Nothing ever.
    Nothing,
}

/// What is to be done about a batch next. `parts` has one for every shard.
#[must_use]
pub fn next_step(row: &BatchRow, parts: &[PartRow], now: Time) -> Step {
    match row.stage() {
        BatchStage::Receiving => {
            let until = Time(row.received_ms).plus_ms(RECEIVING_MS);
            return if until <= now { Step::Discard } else { Step::Wait(Some(until)) };
        }
        BatchStage::Discarded => return Step::Discard,
        BatchStage::Ended if row.parts_told => return Step::Nothing,
        BatchStage::Ended => return Step::TellParts,
        BatchStage::Open => {}
    }
    let progress = Progress::of(row, parts);
    let left = row.next_chunk < row.chunks;
    let canceled = parts.iter().all(|part| part.canceled_all);
    if row.canceled.is_some() && (left || !canceled) {
        return Step::Cancel;
    }
    if left {
        if now.0 < row.begin_ms {
            return Step::Wait(Some(Time(row.begin_ms)));
        }
        if progress.open(row) >= OPEN_MAX {
            return Step::Wait(None);
        }
        let to = row.next_chunk.saturating_add(parts.len() as u32).min(row.chunks);
        return Step::Expand { from: row.next_chunk, to };
    }
    if progress.ended() == progress.total { Step::End } else { Step::Wait(None) }
}

/// The shard in which a chunk becomes jobs: chunks take turns, so that each shard gets its own in
/// order.
#[must_use]
pub fn shard_of_chunk(id: BatchId, chunk: u32, shards: usize) -> usize {
    (usize::from(id.shard()) + chunk as usize) % shards.max(1)
}

/// Of the chunks that are left those that have become jobs, though the batch does not know it yet, or
/// knows it by now: what is given here of the batch may be older than what is given of its parts.
#[must_use]
pub fn made_already(id: BatchId, row: &BatchRow, parts: &[PartRow]) -> Vec<u32> {
    (row.next_chunk..row.chunks)
        .filter(|chunk| parts[shard_of_chunk(id, *chunk, parts.len())].next_chunk > *chunk)
        .collect()
}

/// For how long a batch is remembered once it is over: as long as the runs of its members are.
///
/// # Errors
/// When its template cannot be read.
pub(crate) fn keep_ms(row: &BatchRow, default_ms: u64) -> Result<u64, StoreError> {
    let own = row.template()?.and_then(|template| template.retention).map_or(0, |own| own.age_ms);
    Ok(if own == 0 { default_ms } else { own })
}

/// As what a run of this status counts.
#[must_use]
pub fn count_of(status: RunStatus) -> Count {
    match status {
        RunStatus::Scheduled | RunStatus::Queued => Count::Waiting,
        RunStatus::Retrying => Count::Retrying,
        RunStatus::Claimed | RunStatus::Running => Count::Running,
        RunStatus::Succeeded => Count::Succeeded,
        RunStatus::Failed => Count::Failed,
        RunStatus::Canceled => Count::Canceled,
        RunStatus::Lost => Count::Lost,
        RunStatus::Skipped => Count::Skipped,
    }
}

/// Counts one more or one less. Those that wait are what is left, so they have no field.
pub(crate) fn counted(part: &mut PartRow, count: Count, more: bool) {
    let field = match count {
        Count::Waiting => return,
        Count::Retrying => &mut part.retrying,
        Count::Running => &mut part.running,
        Count::Succeeded => &mut part.succeeded,
        Count::Failed => &mut part.failed,
        Count::Canceled => &mut part.canceled,
        Count::Lost => &mut part.lost,
        Count::Skipped => &mut part.skipped,
    };
    *field = if more { *field + 1 } else { field.saturating_sub(1) };
}

/// The definitions that the items of a batch stand for.
///
/// # Errors
/// When what is stored cannot be read.
pub fn members(
    id: BatchId,
    row: &BatchRow,
    items: Vec<Item>,
) -> Result<Vec<Definition>, StoreError> {
    if row.template.is_empty() {
        return items.into_iter().map(|item| record::decode("definition", item.data)).collect();
    }
    let template: Definition = record::decode("definition", row.template.clone())?;
    let made: Option<Vec<Definition>> =
        items.into_iter().map(|item| member(template.clone(), item)).collect();
    made.ok_or_else(|| StoreError::Corrupt(format!("{id} has a template that does nothing")))
}

/// A template with an item in it: the payload of a handler, the body of a request or message, or a
/// variable of a command.
fn member(mut template: Definition, item: Item) -> Option<Definition> {
    match template.target.as_mut()? {
        Target::Handler(target) => target.payload = item.data,
        Target::Http(target) => {
            target.body = item.data;
            target.body_is_json = !item.is_text;
        }
        Target::Publish(target) => {
            target.body = item.data;
            target.body_is_json = !item.is_text;
        }
        Target::Command(target) => {
            let text = String::from_utf8_lossy(&item.data).into_owned();
            target.env.insert(ITEM_VARIABLE.to_owned(), text);
        }
    }
    Some(template)
}
