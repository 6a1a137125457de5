//! Copies of whole shards, for replicas that are too far behind.
//!
//! A copy is sent from a view of the tables, row by row. It is received into a file; once that is
//! complete it has a name by which it is found, also after a crash, and the shard's rows are replaced
//! by those in the file. Doing that twice is the same as doing it once, so whatever interrupts it, it
//! is done again at the next start, before anybody looks at the shard.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bellwether_core::waist::{Family, Op, Shard, StoreError, View};
use bellwether_protocol::peer::v1::SnapshotRows;
use bellwether_store::{Applied, Replicated, Tables, position_key};
use bytes::Bytes;
use prost::Message;

use crate::codec::{decode_position, malformed};
use crate::types::SnapshotMeta;

/// Bytes of rows in one part.
const PART_BYTES: usize = 1024 * 1024;
/// Rows in one part.
const PART_ROWS: usize = 4_096;
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
        Ok(Receiving { dir })
    }

    /// Removes the copy of a shard, if there is one.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn forget(&self, shard: Shard) -> io::Result<()> {
        match self.complete(shard) {
            Some(path) => fs::remove_file(path),
            None => Ok(()),
        }
    }

    /// The copy of a shard that has been received and not yet been taken in to the end, if any.
    #[must_use]
    pub fn complete(&self, shard: Shard) -> Option<PathBuf> {
        Some(self.name(shard)).filter(|path| path.exists())
    }

    fn name(&self, shard: Shard) -> PathBuf {
        self.dir.join(format!("shard-{shard}.copy"))
    }

    /// Begins to receive a copy.
    ///
    /// # Errors
    /// When there can be no file.
    pub fn begin(&self, shard: Shard, position: Bytes) -> io::Result<Incoming> {
        let part = self.dir.join(format!("shard-{shard}.part"));
        let file = BufWriter::new(File::create(&part)?);
        let mut incoming = Incoming { part, name: self.name(shard), file, rows: 0 };
        incoming.write(&position)?;
        Ok(incoming)
    }
}

/// A copy that is being received.
pub struct Incoming {
    part: PathBuf,
    name: PathBuf,
    file: BufWriter<File>,
    rows: u64,
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
        if rows.keys.len() != rows.values.len() {
            return Err(malformed("a part of a copy"));
        }
        self.rows += rows.keys.len() as u64;
        self.write(&rows.encode_to_vec())
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
        Ok(self.name)
    }
}

/// A file that was received.
struct Stored {
    file: BufReader<File>,
}

impl Stored {
    fn open(path: &Path) -> io::Result<(Bytes, Stored)> {
        let mut stored = Stored { file: BufReader::new(File::open(path)?) };
        let position = stored.next()?.ok_or_else(|| malformed("a copy of a shard"))?;
        Ok((position, stored))
    }

    fn next(&mut self) -> io::Result<Option<Bytes>> {
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

/// Replaces the rows of a shard by those of a copy, and removes the file. Blocks.
///
/// # Errors
/// When the file cannot be read or the tables cannot be written.
pub fn take_in(tables: &dyn Tables, shard: Shard, path: &Path) -> io::Result<()> {
    let (position, mut stored) = Stored::open(path)?;
    remove_rows(tables, shard)?;
    while let Some(bytes) = stored.next()? {
        let rows = SnapshotRows::decode(bytes).map_err(|_| malformed("a part of a copy"))?;
        load_rows(tables, shard, rows)?;
    }
    load(tables, shard, Vec::new(), position)?;
    tables.persist().map_err(failed)?;
    fs::remove_file(path)
}

/// Replaces the rows of a shard by those of a view. Blocks.
///
/// # Errors
/// When the tables cannot be read or written.
pub fn copy_rows(tables: &dyn Tables, from: &ShardView, position: Bytes) -> io::Result<()> {
    remove_rows(tables, from.shard)?;
    let mut result = Ok(());
    from.parts(|rows| {
        result = load_rows(tables, from.shard, rows);
        result.is_ok()
    })?;
    result?;
    load(tables, from.shard, Vec::new(), position)?;
    tables.persist().map_err(failed)
}

/// Removes everything that is stored of a shard. Blocks.
///
/// # Errors
/// When the tables cannot be read or written.
pub fn erase(tables: &dyn Tables, shard: Shard) -> io::Result<()> {
    remove_rows(tables, shard)?;
    load(tables, shard, Vec::new(), Bytes::new())?;
    tables.persist().map_err(failed)
}

/// Removes all rows of a shard.
fn remove_rows(tables: &dyn Tables, shard: Shard) -> io::Result<()> {
    let (from, to) = bellwether_core::key::shard_range(shard);
    for family in Family::ALL {
        loop {
            let view = tables.view();
            let keys: Result<Vec<Bytes>, StoreError> =
                view.scan(family, &from, &to).take(PART_ROWS).map(|row| Ok(row?.0)).collect();
            let keys: Vec<Bytes> = keys.map_err(failed)?;
            let keys: Vec<Bytes> =
                keys.into_iter().filter(|key| *key != position_key(shard)).collect();
            if keys.is_empty() {
                break;
            }
            let ops = keys.into_iter().map(|key| Op::Delete { family, key }).collect();
            load(tables, shard, ops, Bytes::new())?;
        }
    }
    Ok(())
}

fn load_rows(tables: &dyn Tables, shard: Shard, rows: SnapshotRows) -> io::Result<()> {
    let family = Family::ALL.get(rows.family as usize).copied();
    let family = family.ok_or_else(|| malformed("a family of keys"))?;
    let ops = rows.keys.into_iter().zip(rows.values);
    let ops = ops.map(|(key, value)| Op::Put { family, key, value }).collect();
    load(tables, shard, ops, Bytes::new())
}

fn load(tables: &dyn Tables, shard: Shard, ops: Vec<Op>, position: Bytes) -> io::Result<()> {
    let (sender, done) = crossbeam_channel::bounded(1);
    let call = Box::new(move |result: Result<Applied, StoreError>| {
        // The receiver waits below, so this cannot fail.
        let _ = sender.send(result);
    });
    tables.apply(shard, Replicated::Load(ops), position, call);
    done.recv().unwrap_or(Err(StoreError::Closed)).map(drop).map_err(failed)
}
