//! Keys of batches.

use bytes::Bytes;

use super::{Key, Reader, TagKind};
use crate::id::{BatchId, JobId};
use crate::waist::{Shard, StoreError};

const HOME: u8 = 1;
const PART: u8 = 2;
const ITEMS: u8 = 3;
const NAME: u8 = 4;

/// A batch's own record, in its home shard.
#[must_use]
pub fn batch(id: BatchId) -> Bytes {
    Key::of(id.shard()).byte(HOME).id(JobId(id.0)).done()
}

/// All batches that are at home in a shard, with ids below `before`.
#[must_use]
pub fn batches(shard: Shard, before: Option<BatchId>) -> (Bytes, Bytes) {
    let (from, to) = Key::of(shard).byte(HOME).range();
    (from, before.map_or(to, |id| Key::of(shard).byte(HOME).id(JobId(id.0)).done()))
}

/// Reads the id from the key of a batch's own record, or of items of it.
///
/// # Errors
/// If it is none.
pub fn read_batch(key: &[u8]) -> Result<BatchId, StoreError> {
    Ok(BatchId(Reader(key.get(3..).unwrap_or_default()).id()?.0))
}

/// How a batch stands in one shard.
#[must_use]
pub fn batch_part(shard: Shard, id: BatchId) -> Bytes {
    Key::of(shard).byte(PART).id(JobId(id.0)).done()
}

/// Items of a batch that are yet to become jobs.
#[must_use]
pub fn batch_items(id: BatchId, chunk: u32) -> Bytes {
    Key::of(id.shard()).byte(ITEMS).id(JobId(id.0)).u32(chunk).done()
}

/// All items of a batch that are yet to become jobs.
#[must_use]
pub fn batch_all_items(id: BatchId) -> (Bytes, Bytes) {
    Key::of(id.shard()).byte(ITEMS).id(JobId(id.0)).range()
}

/// All items of all batches at home in a shard.
#[must_use]
pub fn all_batch_items(shard: Shard) -> (Bytes, Bytes) {
    Key::of(shard).byte(ITEMS).range()
}

/// Whether a key of the family `batch` is about a batch as a whole, rather than about its part in
/// the shard.
#[must_use]
pub fn is_of_whole_batch(key: &[u8]) -> bool {
    key.get(2).is_some_and(|kind| *kind != PART)
}

/// The caller's own name for a batch, in the batch's home shard.
#[must_use]
pub fn batch_name(shard: Shard, namespace: &str, key: &str) -> Bytes {
    Key::of(shard).byte(NAME).text(namespace).text(key).done()
}

/// A job as a member of a batch, in the family of tags.
#[must_use]
pub fn batch_member(batch: BatchId, job: JobId) -> Bytes {
    Key::of(job.shard()).byte(TagKind::Batch as u8).id(JobId(batch.0)).id(job).done()
}

/// The members of a batch in a shard, with ids below `before`.
#[must_use]
pub fn batch_members(shard: Shard, batch: BatchId, before: Option<JobId>) -> (Bytes, Bytes) {
    let start = Key::of(shard).byte(TagKind::Batch as u8).id(JobId(batch.0));
    let (from, to) = start.clone().range();
    (from, before.map_or(to, |id| start.id(id).done()))
}

/// The members of a batch in a shard, with ids above `after`.
#[must_use]
pub fn batch_members_above(shard: Shard, batch: BatchId, after: JobId) -> (Bytes, Bytes) {
    let start = Key::of(shard).byte(TagKind::Batch as u8).id(JobId(batch.0));
    let (_, to) = start.clone().range();
    (start.id(after).after(), to)
}
