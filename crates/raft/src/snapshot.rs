//! Copies of whole shards, for replicas that are too far behind.
//!
//! A copy is sent from a view of the tables, row by row. It is received into a file; once that is
//! complete it has a name by which it is found, also after a crash, and the shard's rows become those
//! in the file (`taking_in`). Doing that twice is the same as doing it once, so whatever interrupts it,
//! it is done again at the next start, before anybody looks at the shard.
//!
//! Several copies of a shard may come at the same time: a leader that was replaced may still send one
//! when its successor begins with another. So each has a file of its own.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bellwether_core::key::shard_range;
use bellwether_core::waist::{Family, Shard, StoreError, View};
use bellwether_protocol::peer::v1::SnapshotRows;
use bellwether_store::position_key;
use bytes::Bytes;
use prost::Message;

use crate::codec::{decode_position, malformed};
use crate::types::SnapshotMeta;

/// Bytes of rows in one part.
pub(crate) const PART_BYTES: usize = 1024 * 1024;
/// Rows in one part.
pub(crate) const PART_ROWS: usize = 4_096;
/// The largest part that is read back.
const PART_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A copy of a shard.
pub enum ShardCopy {
    /// At its source: a view of the tables.
    View(ShardView),
    /// Where it was received: a complete file.
    File(PathBuf),
}

/// A shard at one moment.
#[derive(Clone)]
pub struct ShardView {
    /// The tables.
    pub view: Arc<dyn View>,
    /// Which shard.
    pub shard: Shard,
}

pub(crate) fn failed(error: StoreError) -> io::Error {
    io::Error::other(error)
}

impl ShardView {
    /// Hands all rows on, part by part, until somebody has had enough. How many there were.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn parts(&self, mut send: impl FnMut(SnapshotRows) -> bool) -> io::Result<u64> {
        let (from, to) = bellwether_core::key::shard_range(self.shard);
        let mut count = 0;
        for family in Family::ALL {
            let mut part = SnapshotRows { family: family as u32, ..SnapshotRows::default() };
            let mut bytes = 0;
            for row in self.view.scan(family, &from, &to) {
                let (key, value) = row.map_err(failed)?;
                if key == position_key(self.shard) {
                    continue; // That comes last, when all rows are there.
                }
                bytes += key.len() + value.len();
                // Rows may share memory with a whole block of the store.
                part.keys.push(Bytes::copy_from_slice(&key));
                part.values.push(Bytes::copy_from_slice(&value));
                count += 1;
                if bytes >= PART_BYTES || part.keys.len() >= PART_ROWS {
                    let empty = SnapshotRows { family: family as u32, ..SnapshotRows::default() };
                    bytes = 0;
                    if !send(std::mem::replace(&mut part, empty)) {
                        return Ok(count);
                    }
                }
            }
            if !part.keys.is_empty() && !send(part) {
                return Ok(count);
            }
        }
        Ok(count)
    }
}

/// Where copies are received.
#[derive(Clone, Debug)]
pub struct Receiving {
    dir: PathBuf,
    /// The number of the next file.
    next: Arc<AtomicU64>,
}

impl Receiving {
    /// A directory, made if need be; what was not received to the end is removed.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn open(dir: impl Into<PathBuf>) -> io::Result<Receiving> {
        let dir = dir.into();
        fs::create_dir_all(&dir)?;
        for entry in fs::read_dir(&dir)? {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == "part") {
                fs::remove_file(path)?;
            }
        }
        Ok(Receiving { dir, next: Arc::default() })
    }

    /// Removes all complete copies but those of these shards: nobody would ever take them in.
    ///
    /// # Errors
    /// When they cannot be removed.
    pub fn forget_all_but(&self, shards: &BTreeSet<Shard>) -> io::Result<()> {
        self.all_complete(|shard| !shards.contains(&shard))?
            .iter()
            .try_for_each(|path| discard(path))
    }

    /// Removes all complete copies of a shard. Only while nobody takes any in.
    ///
    /// # Errors
    /// When they cannot be removed.
    pub fn forget(&self, shard: Shard) -> io::Result<()> {
        self.all_complete(|of| of == shard)?.iter().try_for_each(|path| discard(path))
    }

    /// The newest copy of a shard that has been received and not yet been taken in to the end, if
    /// any.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn complete(&self, shard: Shard) -> io::Result<Option<PathBuf>> {
        let mut newest = None;
        for path in self.all_complete(|of| of == shard)? {
            match meta_of(&path) {
                Ok(meta) => newest = newest.max(Some((meta.last_log_id, path))),
                // One that was not wanted any more is being removed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(newest.map(|(_, path)| path))
    }

    /// The complete copies of some shards.
    fn all_complete(&self, wanted: impl Fn(Shard) -> bool) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            if complete_of(&path).is_some_and(&wanted) {
                found.push(path);
            }
        }
        Ok(found)
    }

    /// Begins to receive a copy.
    ///
    /// # Errors
    /// When there can be no file.
    pub fn begin(&self, shard: Shard, position: Bytes) -> io::Result<Incoming> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let part = self.dir.join(format!("shard-{shard}.{number}.part"));
        let name = self.dir.join(format!("shard-{shard}.{number}.copy"));
        let file = BufWriter::new(File::create(&part)?);
        let mut incoming = Incoming { part, name, file, shard, rows: 0, last: None };
        incoming.write(&position)?;
        Ok(incoming)
    }
}

/// Of which shard a file is a complete copy, if it is one.
fn complete_of(path: &Path) -> Option<Shard> {
    let name = path.file_name()?.to_str()?;
    let (shard, _) = name.strip_prefix("shard-")?.strip_suffix(".copy")?.split_once('.')?;
    shard.parse().ok()
}

/// Removes the file of a copy, if it is still there: one that was taken in has been removed.
///
/// # Errors
/// When it cannot be removed.
pub fn discard(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A copy that is being received. What was not received to the end is removed.
pub struct Incoming {
    part: PathBuf,
    name: PathBuf,
    file: BufWriter<File>,
    shard: Shard,
    rows: u64,
    /// The family and the key of the last row.
    last: Option<(u32, Bytes)>,
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // If it cannot be removed now, it is at the next start.
        let _ = discard(&self.part);
    }
}

impl Incoming {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(&(bytes.len() as u32).to_le_bytes())?;
        self.file.write_all(bytes)
    }

    /// Some more rows.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn add(&mut self, rows: SnapshotRows) -> io::Result<()> {
        // What cannot be taken in must not become durable: it would be tried at every start.
        if rows.keys.len() != rows.values.len() || rows.family as usize >= Family::ALL.len() {
            return Err(malformed("a part of a copy"));
        }
        let (from, to) = shard_range(self.shard);
        let of_the_shard = from..to;
        for key in &rows.keys {
            let next = (rows.family, key.clone());
            if !of_the_shard.contains(key) || self.last.as_ref().is_some_and(|last| *last >= next) {
                return Err(malformed("the order of the rows of a copy"));
            }
            self.last = Some(next);
        }
        self.rows += rows.keys.len() as u64;
        let part = rows.encode_to_vec();
        if part.len() > PART_BYTES_MAX {
            return Err(malformed("a part of a copy, which is too large"));
        }
        self.write(&part)
    }

    /// That was all. The file, once it is durable.
    ///
    /// # Errors
    /// When rows are missing, or it cannot be made durable.
    pub fn end(mut self, rows: u64) -> io::Result<PathBuf> {
        if rows != self.rows {
            return Err(malformed(&format!("a copy of {rows} rows of which {} came", self.rows)));
        }
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        fs::rename(&self.part, &self.name)?;
        let dir = self.name.parent().unwrap_or(Path::new("."));
        File::open(dir)?.sync_all()?;
        Ok(std::mem::take(&mut self.name))
    }
}

/// A file that was received.
pub(crate) struct Stored {
    file: BufReader<File>,
}

impl Stored {
    /// The position of the shard that it is a copy of, and the parts.
    pub fn open(path: &Path) -> io::Result<(Bytes, Stored)> {
        let mut stored = Stored { file: BufReader::new(File::open(path)?) };
        let position = stored.next()?.ok_or_else(|| malformed("a copy of a shard"))?;
        Ok((position, stored))
    }

    /// The rows of the next part, encoded.
    pub fn next(&mut self) -> io::Result<Option<Bytes>> {
        let mut length = [0; 4];
        match self.file.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        let length = u32::from_le_bytes(length) as usize;
        if length > PART_BYTES_MAX {
            return Err(malformed("a part of a copy"));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact(&mut bytes)?;
        Ok(Some(Bytes::from(bytes)))
    }
}

/// What a received copy is of.
///
/// # Errors
/// When it cannot be read.
pub fn meta_of(path: &Path) -> io::Result<SnapshotMeta> {
    let (position, _) = Stored::open(path)?;
    let (last_log_id, last_membership) = decode_position(position)?;
    Ok(SnapshotMeta { last_log_id, last_membership })
}

#[cfg(test)]
mod tests {
    use bellwether_store::{MemoryTables, Tables};
    use openraft::vote::RaftLeaderId;

    use super::*;
    use crate::codec::encode_position;
    use crate::machine::Machine;
    use crate::taking_in::take_in;
    use crate::types::{LogId, StoredMembership, Types};

    fn position(index: u64) -> Bytes {
        let leader = <Types as openraft::RaftTypeConfig>::LeaderId::new(1, 1).to_committed();
        encode_position(Some(LogId::new(leader, index)), &StoredMembership::default())
    }

    fn rows(name: &'static str) -> SnapshotRows {
        let key = Bytes::from(format!("\0\x03{name}"));
        SnapshotRows {
            family: Family::Job as u32,
            keys: vec![key],
            values: vec![Bytes::from_static(b"row")],
        }
    }

    fn names(tables: &MemoryTables) -> Vec<Bytes> {
        let view = tables.view();
        view.scan(Family::Job, b"\0\x03", b"\0\x04").map(|row| row.unwrap().0).collect()
    }

    #[test]
    fn r115_copies_that_come_at_the_same_time_do_not_mix() {
        let dir = tempfile::tempdir().unwrap();
        let receiving = Receiving::open(dir.path()).unwrap();
        let mut old = receiving.begin(3, position(5)).unwrap();
        let mut new = receiving.begin(3, position(9)).unwrap();
        old.add(rows("old")).unwrap();
        new.add(rows("new")).unwrap();
        let old = old.end(1).unwrap();
        let new = new.end(1).unwrap();
        assert_eq!(receiving.complete(3).unwrap().as_ref(), Some(&new), "the newest");
        let tables = MemoryTables::default();
        for (path, index, name) in [(old, 5, "\0\x03old"), (new, 9, "\0\x03new")] {
            assert_eq!(meta_of(&path).unwrap().last_log_id.unwrap().index, index);
            take_in(&tables, 3, &path).unwrap();
            assert_eq!(names(&tables), [Bytes::from(name)]);
            discard(&path).unwrap();
        }
        assert_eq!(receiving.complete(3).unwrap(), None);
    }

    #[test]
    fn a_copy_that_breaks_off_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let receiving = Receiving::open(dir.path()).unwrap();
        receiving.begin(3, position(5)).unwrap().end(1).unwrap_err();
        drop(receiving.begin(3, position(5)).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn r115_after_a_crash_the_newest_copy_is_taken_in_and_no_other_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let receiving = Receiving::open(dir.path()).unwrap();
        for (index, name) in [(9, "new"), (5, "old")] {
            let mut copy = receiving.begin(3, position(index)).unwrap();
            copy.add(rows(name)).unwrap();
            copy.end(1).unwrap();
        }
        let tables = Arc::new(MemoryTables::default());
        let receiving = Receiving::open(dir.path()).unwrap();
        Machine::new(tables.clone(), 3, &receiving).unwrap();
        assert_eq!(names(&tables), [Bytes::from("\0\x03new")]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
