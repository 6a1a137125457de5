//! Looks at the journals before the storage library recovers from them.
//!
//! The library cuts a journal off at the first entry it cannot read, whatever follows. That is
//! right for a batch that was being written when the machine went down. It is wrong when bytes in
//! the middle have gone bad: batches behind them were acknowledged and would vanish in silence.
//! And it refuses to open when the last batch has all its parts but a wrong checksum, which an
//! interrupted write can leave too. So this comes first:
//!
//! - what is invalid at the very end of the newest journal is a write that was interrupted: at
//!   most one batch is ever unsynced, it was not acknowledged, and is cut off;
//! - anything else is damage, is reported, and nothing is changed.
//!
//! A journal is a sequence of batches, then zeros:
//! ```text
//! batch  1, count: u32, sequence number: u64; item × count; 3, xxh3 of the items: u64, "FJL" 3
//! item   2, kind: u8, compression: u8, keyspace: u64, key: u16, value: u32, stored: u32, key, stored
//! ```
//! All numbers are little-endian. The library's version is pinned, and a test reads its journals.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

const TRAILER: &[u8] = b"FJL\x03";
const START_BYTES: usize = 13;
const ITEM_BYTES: usize = 21;
const END_BYTES: usize = 13;
/// Between two batches of a journal lie at most so many sequence numbers; flushes and compactions
/// take some too.
const SEQNO_STEP_MAX: u64 = 1 << 32;
const CHUNK_BYTES: usize = 1 << 20;

/// What was found in the journals.
pub(super) enum Finding {
    /// Nothing to worry about.
    Sound,
    /// The newest journal ended in an interrupted write, which was cut off.
    Cut {
        /// The journal.
        path: PathBuf,
        /// How many bytes went.
        bytes: u64,
    },
    /// A journal is damaged.
    Damaged(String),
}

/// Checks the journals of a database, oldest first. If writes were not synced, everything from the
/// first invalid one on goes: whoever wrote it writes it again.
pub(super) fn check(database: &Path, synced: bool) -> io::Result<Finding> {
    let mut journals = journals(database)?;
    if !synced {
        return cut_unsynced(journals);
    }
    let Some(newest) = journals.pop() else {
        return Ok(Finding::Sound);
    };
    for path in journals {
        if let Some(tail) = invalid_tail(&path)? {
            return Ok(damaged(&path, &tail));
        }
    }
    let Some(tail) = invalid_tail(&newest)? else {
        return Ok(Finding::Sound);
    };
    if holds_batch(&newest, &tail)? {
        return Ok(damaged(&newest, &tail));
    }
    cut(newest, &tail)
}

fn cut(path: PathBuf, tail: &Tail) -> io::Result<Finding> {
    let file = File::options().write(true).open(&path)?;
    file.set_len(tail.from)?;
    file.sync_all()?;
    Ok(Finding::Cut { path, bytes: tail.to - tail.from })
}

fn cut_unsynced(journals: Vec<PathBuf>) -> io::Result<Finding> {
    let mut journals = journals.into_iter();
    while let Some(path) = journals.next() {
        if let Some(tail) = invalid_tail(&path)? {
            for later in journals {
                std::fs::remove_file(later)?;
            }
            return cut(path, &tail);
        }
    }
    Ok(Finding::Sound)
}

fn damaged(path: &Path, tail: &Tail) -> Finding {
    Finding::Damaged(format!(
        "the journal {} cannot be read from byte {} on, but goes on after it",
        path.display(),
        tail.from
    ))
}

/// The journal files, by their number.
fn journals(database: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(database) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut journals = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_suffix(".jnl")?.parse::<u64>().ok());
        journals.extend(number.map(|number| (number, path)));
    }
    journals.sort();
    Ok(journals.into_iter().map(|(_, path)| path).collect())
}

/// The part of a journal behind its last valid batch, up to the last byte that is not zero.
struct Tail {
    from: u64,
    to: u64,
    /// The sequence number of that last valid batch.
    seqno: u64,
}

/// A batch that was read.
struct Found {
    bytes: u64,
    seqno: u64,
}

fn invalid_tail(path: &Path) -> io::Result<Option<Tail>> {
    let mut reader = BufReader::with_capacity(CHUNK_BYTES, File::open(path)?);
    let (mut from, mut seqno, mut buffer) = (0, 0, Vec::new());
    while let Some(batch) = read_batch(&mut reader, &mut buffer)? {
        from += batch.bytes;
        seqno = batch.seqno;
    }
    let to = end_of_data(reader.into_inner(), from)?;
    Ok((to > from).then_some(Tail { from, to, seqno }))
}

/// One past the last byte that is not zero, counted from the start of the file.
fn end_of_data(mut file: File, from: u64) -> io::Result<u64> {
    let mut position = file.seek(SeekFrom::Start(from))?;
    // Whole chunks are compared first: a new journal is tens of megabytes of zeros.
    let zeros = vec![0; CHUNK_BYTES];
    let (mut end, mut chunk) = (from, vec![0; CHUNK_BYTES]);
    loop {
        let read = file.read(&mut chunk)?;
        if read == 0 {
            return Ok(end);
        }
        if chunk[..read] != zeros[..read]
            && let Some(last) = chunk[..read].iter().rposition(|byte| *byte != 0)
        {
            end = position + last as u64 + 1;
        }
        position += read as u64;
    }
}

/// Whether a whole, valid batch begins anywhere within the tail, except at its start, where there
/// is none. Bytes that cannot begin a batch are passed over without reading on.
fn holds_batch(path: &Path, tail: &Tail) -> io::Result<bool> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(tail.from))?;
    let mut bytes = Vec::new();
    file.take(tail.to - tail.from).read_to_end(&mut bytes)?;
    let mut buffer = Vec::new();
    for position in 1..bytes.len() {
        let rest = &bytes[position..];
        if may_begin(rest, tail.seqno) && read_batch(&mut &*rest, &mut buffer)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether these bytes look like a batch that was written soon after `seqno`.
fn may_begin(bytes: &[u8], seqno: u64) -> bool {
    let Some((start, rest)) = bytes.split_first_chunk::<START_BYTES>() else {
        return false;
    };
    let number = seqno_of(start);
    start[0] == 1 && rest.first() == Some(&2) && number > seqno && number - seqno < SEQNO_STEP_MAX
}

fn seqno_of(start: &[u8; START_BYTES]) -> u64 {
    let [_, _, _, _, _, seqno @ ..] = *start;
    u64::from_le_bytes(seqno)
}

/// Reads one batch; `None` if there is no valid one.
fn read_batch(reader: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<Option<Found>> {
    match try_read_batch(reader, buffer) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        result => result,
    }
}

fn try_read_batch(reader: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<Option<Found>> {
    let mut start = [0; START_BYTES];
    reader.read_exact(&mut start)?;
    let [1, c0, c1, c2, c3, ..] = start else {
        return Ok(None);
    };
    let count = u32::from_le_bytes([c0, c1, c2, c3]);
    let (mut hash, mut bytes) = (Xxh3::new(), START_BYTES);
    for _ in 0..count {
        let Some(item_bytes) = read_item(reader, buffer, &mut hash)? else {
            return Ok(None);
        };
        bytes += item_bytes;
    }
    let mut end = [0; END_BYTES];
    reader.read_exact(&mut end)?;
    let valid = end[0] == 3 && end[1..9] == hash.digest().to_le_bytes() && end[9..] == *TRAILER;
    Ok(valid.then(|| Found { bytes: (bytes + END_BYTES) as u64, seqno: seqno_of(&start) }))
}

fn read_item(
    reader: &mut impl Read,
    buffer: &mut Vec<u8>,
    hash: &mut Xxh3,
) -> io::Result<Option<usize>> {
    let mut head = [0; ITEM_BYTES];
    reader.read_exact(&mut head)?;
    if head[0] != 2 {
        return Ok(None);
    }
    let key_bytes = u64::from(u16::from_le_bytes([head[11], head[12]]));
    let stored_bytes = u64::from(u32::from_le_bytes([head[17], head[18], head[19], head[20]]));
    let body_bytes = key_bytes + stored_bytes;
    buffer.clear();
    // Damaged lengths may promise gigabytes: read what is there, do not allocate what is not.
    let read = reader.by_ref().take(body_bytes).read_to_end(buffer)? as u64;
    if read < body_bytes {
        return Ok(None);
    }
    hash.update(&head);
    hash.update(buffer);
    Ok(Some(ITEM_BYTES + buffer.len()))
}
