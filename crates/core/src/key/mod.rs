//! How keys are laid out: every key of every family, built and read here only.
//!
//! Numbers are big-endian so that keys sort as their parts do; every key starts with the shard.
//! Texts of variable length end with a mark, so that one is never a prefix of another and they sort
//! as texts do.
//!
//! ```text
//! meta     shard 'term' | 'shard' | 'store' | 'restore' time | 'group' ns group | 'token' name
//!          shard 'queue' name | 'node' number
//! due      shard time kind id [n]         value: the whole one-off job, or nothing
//! index    shard id                       a one-off job in compact form → where it is
//! job      shard id
//! state    shard id                       what changes about a job in full form
//!          shard id n                     a run of it → where it is filed
//! active   shard id n
//! history  shard class time id n
//! output   shard class time id n attempt sequence
//! tick     shard id time n                n is 0 but for what comes of manual triggers
//! key      shard ns key
//! tag      shard kind ns value id         shard 5 batch id for the members of a batch
//! order    shard 1 ns ordering-key time id n      runs waiting for their ordering key
//!          shard 2 ns group id                    one-off jobs held back by their group
//!          shard 3 ns ordering-key                the run whose turn it is
//! dead     shard time id n
//! audit    shard time sequence
//! batch    shard 1 id | shard 2 id (a shard's part) | shard 3 id chunk (items) | shard 4 ns key
//! ```

mod batch;
mod due;
mod place;
#[cfg(test)]
mod tests;

use bytes::Bytes;

use crate::id::{JobId, RunId};
use crate::time::Time;
use crate::waist::{Shard, StoreError};

pub use batch::*;
pub use due::{DueKey, DueKind, due_range};
pub use place::{Place, class_range, read_output};

/// Follows a zero byte that ends a text.
const TEXT_END: u8 = 1;
/// Follows a zero byte that is part of a text.
const TEXT_ZERO: u8 = 0xFF;

/// Builds one key.
#[derive(Clone, Debug)]
pub struct Key(Vec<u8>);

impl Key {
    /// Starts with the shard.
    #[must_use]
    pub fn of(shard: Shard) -> Key {
        let mut bytes = Vec::with_capacity(32);
        bytes.extend_from_slice(&shard.to_be_bytes());
        Key(bytes)
    }

    fn byte(mut self, value: u8) -> Key {
        self.0.push(value);
        self
    }

    fn u16(mut self, value: u16) -> Key {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Key {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    fn id(mut self, id: JobId) -> Key {
        self.0.extend_from_slice(&id.0.to_be_bytes());
        self
    }

    /// Times before 1970 sort before those after it: the sign bit is turned over.
    fn time(mut self, time: Time) -> Key {
        self.0.extend_from_slice(&((time.0 as u64) ^ (1 << 63)).to_be_bytes());
        self
    }

    fn text(mut self, text: &str) -> Key {
        for part in text.as_bytes().split_inclusive(|byte| *byte == 0) {
            self.0.extend_from_slice(part);
            if part.last() == Some(&0) {
                self.0.push(TEXT_ZERO);
            }
        }
        self.0.extend_from_slice(&[0, TEXT_END]);
        self
    }

    fn raw(mut self, bytes: &[u8]) -> Key {
        self.0.extend_from_slice(bytes);
        self
    }

    /// The finished key.
    #[must_use]
    pub fn done(self) -> Bytes {
        Bytes::from(self.0)
    }

    /// The first key after all keys that start with this one.
    #[must_use]
    pub fn after(mut self) -> Bytes {
        while let Some(last) = self.0.pop() {
            if last < u8::MAX {
                self.0.push(last + 1);
                return Bytes::from(self.0);
            }
        }
        Bytes::from_static(&[u8::MAX; 40])
    }

    /// The range of all keys that start with this one.
    #[must_use]
    pub fn range(self) -> (Bytes, Bytes) {
        (Bytes::from(self.0.clone()), self.after())
    }
}

/// Takes a key apart from the left.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        match self.0.split_first_chunk::<N>() {
            Some((head, rest)) => {
                self.0 = rest;
                Ok(*head)
            }
            None => Err(StoreError::Corrupt("a key is too short".to_owned())),
        }
    }

    fn time(&mut self) -> Result<Time, StoreError> {
        Ok(Time((u64::from_be_bytes(self.take()?) ^ (1 << 63)) as i64))
    }

    fn id(&mut self) -> Result<JobId, StoreError> {
        Ok(JobId(u64::from_be_bytes(self.take()?)))
    }

    fn u32(&mut self) -> Result<u32, StoreError> {
        Ok(u32::from_be_bytes(self.take()?))
    }

    fn u16(&mut self) -> Result<u16, StoreError> {
        Ok(u16::from_be_bytes(self.take()?))
    }
}

/// All keys of a shard in any one family.
#[must_use]
pub fn shard_range(shard: Shard) -> (Bytes, Bytes) {
    Key::of(shard).range()
}

/// The shard's own record.
#[must_use]
pub fn shard_row(shard: Shard) -> Bytes {
    Key::of(shard).raw(b"shard").done()
}

/// The store's own record, in shard 0.
#[must_use]
pub fn store_row() -> Bytes {
    Key::of(0).raw(b"store").done()
}

/// That the store came out of a backup, in shard 0.
#[must_use]
pub fn restore(restored: Time) -> Bytes {
    Key::of(0).raw(b"restore").time(restored).done()
}

/// All times that the store came out of a backup.
#[must_use]
pub fn restores() -> (Bytes, Bytes) {
    Key::of(0).raw(b"restore").range()
}

/// A group's switches.
#[must_use]
pub fn group(shard: Shard, namespace: &str, group: &str) -> Bytes {
    Key::of(shard).raw(b"group").text(namespace).text(group).done()
}

/// All groups with switches, or those of one namespace.
#[must_use]
pub fn groups(shard: Shard, namespace: Option<&str>) -> (Bytes, Bytes) {
    let start = Key::of(shard).raw(b"group");
    namespace.map_or_else(|| start.clone().range(), |name| start.clone().text(name).range())
}

/// The first key after a group's switches.
#[must_use]
pub fn after_group(shard: Shard, namespace: &str, group: &str) -> Bytes {
    Key::of(shard).raw(b"group").text(namespace).text(group).after()
}

/// Takes the key of a group's switches apart: namespace and group.
///
/// # Errors
/// If it is none.
pub fn read_group(key: &[u8]) -> Result<(String, String), StoreError> {
    let (namespace, rest) = read_text(key.get(7..).unwrap_or_default())?;
    let (group, _) = read_text(rest)?;
    Ok((namespace, group))
}

fn read_text(bytes: &[u8]) -> Result<(String, &[u8]), StoreError> {
    let mut text = Vec::new();
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == 0) {
        text.extend_from_slice(&rest[..at]);
        match rest.get(at + 1) {
            Some(&TEXT_END) => {
                return Ok((String::from_utf8_lossy(&text).into_owned(), &rest[at + 2..]));
            }
            Some(&TEXT_ZERO) => text.push(0),
            _ => break,
        }
        rest = &rest[at + 2..];
    }
    Err(StoreError::Corrupt("a text in a key has no end".to_owned()))
}

/// A queue's bounds.
#[must_use]
pub fn queue(shard: Shard, name: &str) -> Bytes {
    Key::of(shard).raw(b"queue").text(name).done()
}

/// All queues with bounds.
#[must_use]
pub fn queues(shard: Shard) -> (Bytes, Bytes) {
    Key::of(shard).raw(b"queue").range()
}

/// A node of the cluster.
#[must_use]
pub fn node(shard: Shard, number: u64) -> Bytes {
    Key::of(shard).raw(b"node").raw(&number.to_be_bytes()).done()
}

/// All nodes of the cluster.
#[must_use]
pub fn nodes(shard: Shard) -> (Bytes, Bytes) {
    Key::of(shard).raw(b"node").range()
}

/// Takes the key of a queue's bounds apart.
///
/// # Errors
/// If it is none.
pub fn read_queue(key: &[u8]) -> Result<String, StoreError> {
    Ok(read_text(key.get(7..).unwrap_or_default())?.0)
}

/// A token's record.
#[must_use]
pub fn token(shard: Shard, name: &str) -> Bytes {
    Key::of(shard).raw(b"token").text(name).done()
}

/// All tokens.
#[must_use]
pub fn tokens(shard: Shard) -> (Bytes, Bytes) {
    Key::of(shard).raw(b"token").range()
}

/// A job's record: in `index` (compact form), `job` and `state` alike.
#[must_use]
pub fn job(id: JobId) -> Bytes {
    Key::of(id.shard()).id(id).done()
}

/// A run's record in `active` and, for jobs in full form, where it is filed, in `state`.
#[must_use]
pub fn run(run: RunId) -> Bytes {
    Key::of(run.job.shard()).id(run.job).u32(run.n).done()
}

/// All runs of a job in `active` or `state`, or rows of `tick`; without the job's own row.
#[must_use]
pub fn runs(id: JobId) -> (Bytes, Bytes) {
    let (from, to) = Key::of(id.shard()).id(id).range();
    let mut first = from.to_vec();
    first.push(0);
    (Bytes::from(first), to)
}

/// A range over the ids of a shard in `index`, `job`, `state` or `active`: ids above `after`.
#[must_use]
pub fn ids_above(shard: Shard, after: Option<JobId>) -> (Bytes, Bytes) {
    let (from, to) = shard_range(shard);
    (after.map_or(from, |id| Key::of(shard).id(id).after()), to)
}

/// A range over the ids of a shard: ids below `before`.
#[must_use]
pub fn ids_below(shard: Shard, before: Option<JobId>) -> (Bytes, Bytes) {
    let (from, to) = shard_range(shard);
    (from, before.map_or(to, |id| Key::of(shard).id(id).done()))
}

/// Reads the id, and the run's number if there is one, from a key of `index`, `job` or `active`.
///
/// # Errors
/// If it is none.
pub fn read_run(key: &[u8]) -> Result<(JobId, Option<u32>), StoreError> {
    let mut reader = Reader(key);
    let _shard = reader.u16()?;
    let id = reader.id()?;
    let n = if reader.0.is_empty() { None } else { Some(reader.u32()?) };
    Ok((id, n))
}

/// A row of the ledger.
#[must_use]
pub fn tick(id: JobId, time: Time, n: u32) -> Bytes {
    Key::of(id.shard()).id(id).time(time).u32(n).done()
}

/// The part of a job's ledger in `from <= time < to`.
#[must_use]
pub fn ticks(id: JobId, from: Time, to: Time) -> (Bytes, Bytes) {
    (Key::of(id.shard()).id(id).time(from).done(), Key::of(id.shard()).id(id).time(to).done())
}

/// Reads the time of a row of the ledger.
///
/// # Errors
/// If it is none.
pub fn read_tick(key: &[u8]) -> Result<Time, StoreError> {
    let mut reader = Reader(key);
    let _shard = reader.u16()?;
    let _id = reader.id()?;
    reader.time()
}

/// A caller's key.
#[must_use]
pub fn caller_key(shard: Shard, namespace: &str, key: &str) -> Bytes {
    Key::of(shard).text(namespace).raw(key.as_bytes()).done()
}

/// Callers' keys that start with a prefix and come after `after`.
#[must_use]
pub fn caller_keys(
    shard: Shard,
    namespace: &str,
    prefix: &str,
    after: Option<&str>,
) -> (Bytes, Bytes) {
    let (from, to) = Key::of(shard).text(namespace).raw(prefix.as_bytes()).range();
    match after {
        None => (from, to),
        Some(last) => (Key::of(shard).text(namespace).raw(last.as_bytes()).byte(0).done(), to),
    }
}

/// Reads the caller's key from a key of the family `key`.
///
/// # Errors
/// If it is none.
pub fn read_caller_key(key: &[u8]) -> Result<(String, String), StoreError> {
    let (namespace, rest) = read_text(key.get(2..).unwrap_or_default())?;
    Ok((namespace, String::from_utf8_lossy(rest).into_owned()))
}

/// By what jobs are listed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum TagKind {
    /// All of a namespace other than `default`.
    Namespace = 1,
    /// All of a group.
    Group = 2,
    /// All of an owner.
    Owner = 3,
    /// All with a label, written `name=value`.
    Label = 4,
    /// All members of a batch; see [`batch_member`].
    Batch = 5,
}

/// A job under a tag.
#[must_use]
pub fn tag(kind: TagKind, namespace: &str, value: &str, id: JobId) -> Bytes {
    Key::of(id.shard()).byte(kind as u8).text(namespace).text(value).id(id).done()
}

/// Jobs under a tag with ids below `before`.
#[must_use]
pub fn tagged(
    shard: Shard,
    kind: TagKind,
    namespace: &str,
    value: &str,
    before: Option<JobId>,
) -> (Bytes, Bytes) {
    let start = Key::of(shard).byte(kind as u8).text(namespace).text(value);
    let (from, to) = start.clone().range();
    (from, before.map_or(to, |id| start.id(id).done()))
}

/// All tags of a kind, or those of one namespace.
#[must_use]
pub fn tags(shard: Shard, kind: TagKind, namespace: Option<&str>) -> (Bytes, Bytes) {
    let start = Key::of(shard).byte(kind as u8);
    namespace.map_or_else(|| start.clone().range(), |name| start.clone().text(name).range())
}

/// Takes a tag's key apart: namespace, value, job.
///
/// # Errors
/// If it is none.
pub fn read_tag(key: &[u8]) -> Result<(String, String, JobId), StoreError> {
    let (namespace, rest) = read_text(key.get(3..).unwrap_or_default())?;
    let (value, rest) = read_text(rest)?;
    Ok((namespace, value, Reader(rest).id()?))
}

/// The first key after all jobs under one tag.
#[must_use]
pub fn after_tag(shard: Shard, kind: TagKind, namespace: &str, value: &str) -> Bytes {
    Key::of(shard).byte(kind as u8).text(namespace).text(value).after()
}

/// A run that waits for its ordering key.
#[must_use]
pub fn order(shard: Shard, namespace: &str, ordering_key: &str, time: Time, run: RunId) -> Bytes {
    Key::of(shard)
        .byte(1)
        .text(namespace)
        .text(ordering_key)
        .time(time)
        .id(run.job)
        .u32(run.n)
        .done()
}

/// All runs that wait for an ordering key, in schedule order.
#[must_use]
pub fn ordered(shard: Shard, namespace: &str, ordering_key: &str) -> (Bytes, Bytes) {
    Key::of(shard).byte(1).text(namespace).text(ordering_key).range()
}

/// Reads the run from the key of one that waits for its ordering key.
///
/// # Errors
/// If it is none.
pub fn read_order(key: &[u8]) -> Result<RunId, StoreError> {
    let tail = key.len().saturating_sub(12);
    let mut reader = Reader(key.get(tail..).unwrap_or_default());
    Ok(RunId { job: reader.id()?, n: reader.u32()? })
}

/// The run of an ordering key whose turn it is.
#[must_use]
pub fn order_current(shard: Shard, namespace: &str, ordering_key: &str) -> Bytes {
    Key::of(shard).byte(3).text(namespace).text(ordering_key).done()
}

/// A one-off job held back by its group.
#[must_use]
pub fn held(namespace: &str, group: &str, id: JobId) -> Bytes {
    Key::of(id.shard()).byte(2).text(namespace).text(group).id(id).done()
}

/// All one-off jobs held back by a group.
#[must_use]
pub fn held_by(shard: Shard, namespace: &str, group: &str) -> (Bytes, Bytes) {
    Key::of(shard).byte(2).text(namespace).text(group).range()
}

/// Reads the job from the key of one that is held back.
///
/// # Errors
/// If it is none.
pub fn read_held(key: &[u8]) -> Result<JobId, StoreError> {
    let tail = key.len().saturating_sub(8);
    Reader(key.get(tail..).unwrap_or_default()).id()
}

/// A run that failed or was lost.
#[must_use]
pub fn dead(time: Time, run: RunId) -> Bytes {
    Key::of(run.job.shard()).time(time).id(run.job).u32(run.n).done()
}

/// Runs that failed or were lost, in `from <= time < to`.
#[must_use]
pub fn deads(shard: Shard, from: Time, to: Time) -> (Bytes, Bytes) {
    (Key::of(shard).time(from).done(), Key::of(shard).time(to).done())
}

/// Takes the key of a run that failed or was lost apart.
///
/// # Errors
/// If it is none.
pub fn read_dead(key: &[u8]) -> Result<(Time, RunId), StoreError> {
    let mut reader = Reader(key);
    let _shard = reader.u16()?;
    let time = reader.time()?;
    Ok((time, RunId { job: reader.id()?, n: reader.u32()? }))
}

/// An entry of the audit log.
#[must_use]
pub fn audit(shard: Shard, time: Time, sequence: u32) -> Bytes {
    Key::of(shard).time(time).u32(sequence).done()
}

/// Entries of the audit log before `before`, which is a time and a sequence number.
#[must_use]
pub fn audits_before(shard: Shard, before: Option<(Time, u32)>) -> (Bytes, Bytes) {
    let (from, to) = shard_range(shard);
    (from, before.map_or(to, |(time, sequence)| audit(shard, time, sequence)))
}

/// Takes the key of an entry of the audit log apart.
///
/// # Errors
/// If it is none.
pub fn read_audit(key: &[u8]) -> Result<(Time, u32), StoreError> {
    let mut reader = Reader(key);
    let _shard = reader.u16()?;
    Ok((reader.time()?, reader.u32()?))
}
