//! Batches: what was accepted comes to an end, every item once, and the figures add up.

use std::collections::BTreeMap;
use std::sync::Arc;

use bellwether_core::batch::{ITEM_VARIABLE, count_of};
use bellwether_core::id::{BatchId, RunId};
use bellwether_core::key;
use bellwether_core::read::{self, StoredBatch};
use bellwether_core::record::{self, BatchStage, Count, PartRow, Target};
use bellwether_core::waist::{Family, Shard, View};

use crate::asked::KnownBatch;
use crate::record::Record;

/// A batch as all shards together have it, each as its leader does.
#[must_use]
pub fn gather(views: &[Arc<dyn View>], id: BatchId) -> Option<StoredBatch> {
    let mut stored = read::batch(&**views.get(usize::from(id.shard()))?, &[], id).ok()??;
    for (shard, view) in views.iter().enumerate() {
        let key = key::batch_part(shard as Shard, id);
        let part = view.get(Family::Batch, &key).ok()?;
        let part = part.map(|value| record::decode::<PartRow>("part", value));
        stored.parts.push(part.transpose().ok()?.unwrap_or_default());
    }
    Some(stored)
}

/// Whether a batch is over and everybody knows.
#[must_use]
pub fn is_over(batch: &StoredBatch) -> bool {
    batch.row.stage() == BatchStage::Ended && batch.row.parts_told
}

/// Looks at all batches that were accepted.
pub fn check(record: &mut Record, views: &[Arc<dyn View>]) {
    let mut found = Vec::new();
    for (id, known) in &record.wishes.batches {
        match gather(views, *id) {
            Some(batch) => found.extend(check_batch(views, &batch, known).err()),
            None => found.push(format!("R70: {id} was acknowledged")),
        }
        let triggered = gather(views, *id).is_some_and(|batch| batch.row.completion != 0);
        if triggered {
            record.coverage.saw("a batch has ended and triggered a job");
        }
    }
    for what in found {
        record.wrong(what);
    }
}

fn check_batch(
    views: &[Arc<dyn View>],
    batch: &StoredBatch,
    known: &KnownBatch,
) -> Result<(), String> {
    let (id, row, progress) = (batch.id, &batch.row, batch.progress());
    if row.items != known.items {
        return Err(format!("R70: {id} has {} items, not {}", row.items, known.items));
    }
    if row.canceled.is_some() && !known.canceled {
        return Err(format!("{id} is canceled, and nobody asked for it"));
    }
    // One that waits for another attempt may do so for minutes by a clock that was wrong, and one that
    // runs may have begun late: if it runs for too long, that is found where runs are looked at.
    if !is_over(batch) && progress.retrying + progress.running == 0 {
        return Err(format!("R36: {id} is stuck: {progress:?}, {row:?}"));
    }
    let over = row.stage() == BatchStage::Ended;
    if over && (progress.ended() != progress.total || progress.waiting != 0) {
        return Err(format!("{id} is over, but its figures do not add up: {progress:?}"));
    }
    let triggers = row.on_complete != 0 && row.canceled.is_none();
    if over && triggers && row.completion == 0 && row.completion_error.is_empty() {
        return Err(format!("{id} is over, and what follows it was not triggered"));
    }
    let mut items: BTreeMap<u64, u32> = BTreeMap::new();
    for ((shard, part), view) in batch.parts.iter().enumerate().zip(views) {
        check_part(&**view, shard as Shard, id, part, &mut items)?;
    }
    if let Some((item, count)) = items.iter().find(|(_, count)| **count > 1) {
        return Err(format!("R64: item {item} of {id} became {count} jobs"));
    }
    let (made, all) = (items.len() as u64 + row.given_up, row.items);
    let left = row.next_chunk < row.chunks;
    if made != all && !left || made > all {
        return Err(format!("R70: of {all} items of {id} {made} became jobs or were given up"));
    }
    Ok(())
}

/// The figures of a part are those of its members' runs.
fn check_part(
    view: &dyn View,
    shard: Shard,
    id: BatchId,
    part: &PartRow,
    items: &mut BTreeMap<u64, u32>,
) -> Result<(), String> {
    let (from, to) = key::batch_members(shard, id, None);
    let mut counts: BTreeMap<i32, u64> = BTreeMap::new();
    let mut members = 0;
    for (key, _) in view.scan(Family::Tag, &from, &to).flatten() {
        members += 1;
        let run = RunId { job: key::read_held(&key).map_err(|e| e.to_string())?, n: 1 };
        let stored = read::run(view, run).map_err(|error| error.to_string())?;
        let stored = stored.ok_or_else(|| format!("R70: {run}, a member of {id}, is not there"))?;
        *counts.entry(count_of(stored.run.status()) as i32).or_default() += 1;
        if let Some(Target::Command(command)) = &stored.definition.target
            && let Some(item) = command.env.get(ITEM_VARIABLE).and_then(|item| item.parse().ok())
        {
            *items.entry(item).or_default() += 1;
        }
    }
    let count = |what: Count| counts.get(&(what as i32)).copied().unwrap_or(0);
    for (what, figure) in [
        (Count::Retrying, part.retrying),
        (Count::Running, part.running),
        (Count::Succeeded, part.succeeded),
        (Count::Failed, part.failed),
        (Count::Canceled, part.canceled),
        (Count::Lost, part.lost),
        (Count::Skipped, part.skipped),
    ] {
        if count(what) != figure {
            return Err(format!(
                "{id} counts {figure} {what:?} in shard {shard}, but there are {}",
                count(what)
            ));
        }
    }
    if members != part.members {
        return Err(format!(
            "{id} counts {} members in shard {shard}, not {members}",
            part.members
        ));
    }
    Ok(())
}
