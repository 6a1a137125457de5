//! The format of one object with rows: a header, then blocks.
//!
//! ```text
//! header   "bwbackup" format:u16 shard:u16 section:u8 number:u32
//! block    raw:u32 packed:u32 hash:u64 bytes        hash: XXH3 of the packed bytes
//! bytes    LZ4 of rows: family:u8 key:u16 value:u32 key value
//! ```
//! Numbers are little-endian. The whole object is covered by the SHA-256 in the manifest; the
//! blocks' own hashes say where the damage is. Rows are in order: by family, then by key.

use bellwether_core::waist::{Family, Shard};
use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use crate::{BackupError, Result, Section};

const MAGIC: &[u8; 8] = b"bwbackup";
const HEADER: usize = 17;
const BLOCK_HEADER: usize = 16;
const ROW_HEADER: usize = 7;
/// Bytes of rows after which a block is full.
const BLOCK_BYTES: usize = 256 * 1024;
/// The largest block that is read: one row may be as large as a store takes.
const BLOCK_BYTES_MAX: usize = 80 << 20;

/// One row, and where it belongs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BackupRow {
    pub family: Family,
    pub key: Bytes,
    pub value: Bytes,
}

impl BackupRow {
    pub fn bytes(&self) -> u64 {
        (self.key.len() + self.value.len()) as u64
    }
}

/// Which object it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PartId {
    pub shard: Shard,
    pub section: Section,
    /// From 1.
    pub number: u32,
}

impl PartId {
    /// Its name within the backup.
    pub fn name(&self) -> String {
        format!("shard-{:05}/{}-{:05}", self.shard, self.section.name(), self.number)
    }

    fn header(&self) -> Vec<u8> {
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&(crate::FORMAT as u16).to_le_bytes());
        header.extend_from_slice(&self.shard.to_le_bytes());
        header.push(self.section.number());
        header.extend_from_slice(&self.number.to_le_bytes());
        header
    }
}

/// A part that is being written.
pub(crate) struct PartWriter {
    done: Vec<u8>,
    block: Vec<u8>,
    pub rows: u64,
    pub bytes: u64,
}

impl PartWriter {
    pub fn new(id: PartId) -> PartWriter {
        PartWriter { done: id.header(), block: Vec::new(), rows: 0, bytes: 0 }
    }

    /// Adds a row. Whether that filled a block.
    pub fn add(&mut self, family: Family, key: &[u8], value: &[u8]) -> bool {
        let (key_len, value_len) = (key.len() as u16, value.len() as u32);
        self.block.push(family as u8);
        self.block.extend_from_slice(&key_len.to_le_bytes());
        self.block.extend_from_slice(&value_len.to_le_bytes());
        self.block.extend_from_slice(key);
        self.block.extend_from_slice(value);
        self.rows += 1;
        self.bytes += (key.len() + value.len()) as u64;
        let full = self.block.len() >= BLOCK_BYTES;
        if full {
            self.end_block();
        }
        full
    }

    fn end_block(&mut self) {
        if self.block.is_empty() {
            return;
        }
        let packed = lz4_flex::block::compress(&self.block);
        self.done.extend_from_slice(&(self.block.len() as u32).to_le_bytes());
        self.done.extend_from_slice(&(packed.len() as u32).to_le_bytes());
        self.done.extend_from_slice(&xxh3_64(&packed).to_le_bytes());
        self.done.extend_from_slice(&packed);
        self.block.clear();
    }

    /// Bytes that the object has by now.
    pub fn stored_bytes(&self) -> usize {
        self.done.len()
    }

    /// The object.
    pub fn finish(mut self) -> Bytes {
        self.end_block();
        Bytes::from(self.done)
    }
}

/// A part that is being read, block by block.
pub(crate) struct PartReader {
    id: PartId,
    rest: Bytes,
    last: Option<(Family, Bytes)>,
}

impl PartReader {
    /// Begins to read. `last` is the last row before it, of the same section.
    pub fn open(id: PartId, bytes: Bytes, last: Option<(Family, Bytes)>) -> Result<PartReader> {
        if bytes.len() < HEADER || bytes[..HEADER] != id.header()[..] {
            return Err(BackupError::damaged(format!("{} does not begin as it should", id.name())));
        }
        Ok(PartReader { id, rest: bytes.slice(HEADER..), last })
    }

    /// The last row that was read.
    pub fn last(self) -> Option<(Family, Bytes)> {
        self.last
    }

    fn damaged(&self, what: &str) -> BackupError {
        BackupError::damaged(format!("{}: {what}", self.id.name()))
    }

    /// The rows of the next block; `None` at the end.
    pub fn next_block(&mut self) -> Result<Option<Vec<BackupRow>>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let cut = || self.damaged("a block is cut off");
        let (header, rest) = self.rest.split_first_chunk::<BLOCK_HEADER>().ok_or_else(cut)?;
        let [raw, packed] = [0, 4].map(|at| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
                as usize
        });
        let (_, hash) = header.split_last_chunk::<8>().ok_or_else(cut)?;
        if packed > rest.len() || raw > BLOCK_BYTES_MAX {
            return Err(cut());
        }
        let body = self.rest.slice(BLOCK_HEADER..BLOCK_HEADER + packed);
        if xxh3_64(&body) != u64::from_le_bytes(*hash) {
            return Err(self.damaged("a block is not what was written"));
        }
        let block = lz4_flex::block::decompress(&body, raw)
            .map_err(|error| self.damaged(&format!("a block cannot be unpacked: {error}")))?;
        self.rest = self.rest.slice(BLOCK_HEADER + packed..);
        self.rows(Bytes::from(block)).map(Some)
    }

    fn rows(&mut self, mut block: Bytes) -> Result<Vec<BackupRow>> {
        let mut rows = Vec::new();
        while !block.is_empty() {
            let Some((header, rest)) = block.split_first_chunk::<ROW_HEADER>() else {
                return Err(self.damaged("a row is cut off"));
            };
            let [family, k0, k1, v0, v1, v2, v3] = *header;
            let key = usize::from(u16::from_le_bytes([k0, k1]));
            let value = u32::from_le_bytes([v0, v1, v2, v3]) as usize;
            if key + value > rest.len() {
                return Err(self.damaged("a row is cut off"));
            }
            let Some(family) = Family::ALL.get(usize::from(family)).copied() else {
                return Err(self.damaged("a row is of an unknown family"));
            };
            let body = block.split_off(ROW_HEADER);
            let row =
                BackupRow { family, key: body.slice(..key), value: body.slice(key..key + value) };
            block = body.slice(key + value..);
            self.check(&row)?;
            rows.push(row);
        }
        Ok(rows)
    }

    /// Rows are those of the shard and section, and in order.
    fn check(&mut self, row: &BackupRow) -> Result<()> {
        if bellwether_store::shard_of(&row.key) != Some(self.id.shard) {
            return Err(self.damaged("a row belongs to another shard"));
        }
        if !self.id.section.has(row.family, &row.key, &row.value) {
            return Err(self.damaged("a row belongs elsewhere"));
        }
        let place = (row.family, row.key.clone());
        if self.last.as_ref().is_some_and(|last| *last >= place) {
            return Err(self.damaged("rows are out of order"));
        }
        self.last = Some(place);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: PartId = PartId { shard: 3, section: Section::Rows, number: 1 };

    fn read(id: PartId, bytes: Bytes) -> Result<Vec<BackupRow>> {
        let mut reader = PartReader::open(id, bytes, None)?;
        let mut rows = Vec::new();
        while let Some(block) = reader.next_block()? {
            rows.extend(block);
        }
        Ok(rows)
    }

    fn part(rows: &[(Family, &[u8], &[u8])]) -> Bytes {
        let mut writer = PartWriter::new(ID);
        for (family, key, value) in rows {
            writer.add(*family, key, value);
        }
        writer.finish()
    }

    #[test]
    fn what_is_written_is_read() {
        let large = vec![7; BLOCK_BYTES * 2];
        let rows: [(Family, &[u8], &[u8]); 3] = [
            (Family::Job, b"\0\x03a", b"one"),
            (Family::Job, b"\0\x03b", &large),
            (Family::Tick, b"\0\x03a", b""),
        ];
        let found = read(ID, part(&rows)).unwrap();
        let expected = rows.map(|(family, key, value)| BackupRow {
            family,
            key: Bytes::copy_from_slice(key),
            value: Bytes::copy_from_slice(value),
        });
        assert_eq!(found, expected);
        assert!(read(ID, part(&[])).unwrap().is_empty());
    }

    #[test]
    fn rows_in_the_wrong_place_are_found() {
        let row: (Family, &[u8], &[u8]) = (Family::Job, b"\0\x03b", b"");
        for (other, why) in [
            ((Family::Job, &b"\0\x03a"[..], &b""[..]), "out of order"),
            ((Family::Job, b"\0\x03b", b""), "out of order"),
            ((Family::Job, b"\0\x04b", b""), "another shard"),
            ((Family::Batch, b"\0\x03\x01x", b""), "elsewhere"),
        ] {
            let error = read(ID, part(&[row, other])).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        let other = PartId { number: 2, ..ID };
        assert!(read(other, part(&[row])).unwrap_err().to_string().contains("begin"));
    }
}
