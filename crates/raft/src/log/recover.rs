//! Reading a log back after a start.
//!
//! Zeros at the very end of the newest segment are room that was made and not used. What is invalid
//! there is a write that was interrupted: nobody was told that it is durable. Both are cut off.
//! Anything else that is invalid is damage: bytes that were durable have gone bad. It is reported,
//! and nothing is changed, because a node that forgets what it has acknowledged can make the whole
//! cluster forget.

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;

use super::files::Files;
use super::group::{Group, Place};
use super::record::{self, MAGIC, Record, SEGMENT_HEADER, What};
use super::writer::Segment;

/// What was found.
#[derive(Default)]
pub(super) struct Found {
    pub groups: BTreeMap<u16, Group>,
    pub segments: BTreeMap<u64, Segment>,
    /// Bytes in the newest segment.
    pub length: u64,
}

fn damaged(segment: u64, at: u64, what: &str) -> io::Error {
    let text = format!("the log is damaged in segment {segment:016x} at byte {at}: {what}");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Reads all segments. Entries stay on disk; only their places are kept.
pub(super) fn recover(files: &dyn Files) -> io::Result<Found> {
    let mut found = Found::default();
    let numbers = files.list()?;
    for (at, number) in numbers.iter().enumerate() {
        let newest = at + 1 == numbers.len();
        if at > 0 && *number != numbers[at - 1] + 1 {
            return Err(damaged(*number, 0, "the segment before it is missing"));
        }
        if let Some(length) = segment(files, *number, newest, &mut found)? {
            found.length = length;
        }
    }
    for (group, log) in &found.groups {
        for (point, place) in log.places().unwrap_or_default() {
            if let Some(segment) = found.segments.get_mut(&place.segment) {
                segment.highest.insert(*group, point.index);
            }
        }
        log.check().map_err(|error| io::Error::other(format!("group {group}: {error}")))?;
    }
    Ok(found)
}

/// Reads a segment. How long it is, after cutting off an interrupted write; `None` if it had only
/// just been made.
fn segment(
    files: &dyn Files,
    number: u64,
    newest: bool,
    found: &mut Found,
) -> io::Result<Option<u64>> {
    let bytes = files.read(number)?;
    let header = SEGMENT_HEADER as usize;
    // Nothing is written to a segment before its beginning is durable, and whatever is written then
    // begins with a mark. Without one, the beginning may lack how some groups stand: if it became
    // the oldest segment, they would have forgotten their votes.
    if newest && (bytes.len() < header || !has_mark(&bytes.slice(header..))) {
        files.remove(number)?;
        return Ok(None);
    }
    if bytes.len() < header || bytes[..8] != MAGIC[..] || bytes[8..header] != number.to_le_bytes() {
        return Err(damaged(number, 0, "it does not begin as one"));
    }
    found.segments.insert(number, Segment::default());
    let mut at = header;
    while at < bytes.len() {
        let Some((record, length)) = record::read(&bytes.slice(at..)) else {
            return cut(files, number, newest, &bytes, at).map(Some);
        };
        let place = Place { segment: number, at: at as u64, length: length as u32 };
        take(found, record, place).map_err(|error| damaged(number, at as u64, &error))?;
        at += length;
    }
    if newest {
        // Whoever wrote it may have been killed before it was durable, and from here on it counts.
        files.sync(number)?;
    }
    Ok(Some(at as u64))
}

/// Whether anything was written after the beginning of a segment. Also behind bytes that have gone bad:
/// then it is damaged, and not one that was never used.
pub(super) fn has_mark(bytes: &Bytes) -> bool {
    let mut at = 0;
    while at < bytes.len() {
        match record::read(&bytes.slice(at..)) {
            Some((Record { what: Some(What::Mark(_)), .. }, _)) => return true,
            Some((_, length)) => at += length,
            None => at += 1,
        }
    }
    false
}

/// Cuts off room that has not been written to, or an interrupted write.
fn cut(files: &dyn Files, number: u64, newest: bool, bytes: &Bytes, at: usize) -> io::Result<u64> {
    if !newest {
        return Err(damaged(number, at as u64, "a record is not what was written"));
    }
    if bytes[at..].iter().all(|byte| *byte == 0) {
        files.cut(number, at as u64)?;
        return Ok(at as u64);
    }
    // A later write that knew more to be durable than this shows that it had been.
    let later = (at + 1..bytes.len()).filter_map(|from| record::read(&bytes.slice(from..)));
    for (record, _) in later {
        if let Some(What::Mark(mark)) = record.what
            && mark.durable > at as u64
        {
            return Err(damaged(number, at as u64, "a record is not what was written"));
        }
    }
    tracing::warn!(segment = number, at, bytes = bytes.len() - at, "cut off an interrupted write");
    files.cut(number, at as u64)?;
    Ok(at as u64)
}

fn take(found: &mut Found, record: Record, place: Place) -> Result<(), String> {
    let number = u16::try_from(record.group).map_err(|_| "a group has no such number")?;
    let Some(what) = record.what else {
        let why = "a record is of a kind that only later versions know: upgrade this node";
        return Err(why.to_owned());
    };
    if let What::Mark(_) = what {
        return Ok(());
    }
    if let What::Forgotten(_) = what {
        found.groups.remove(&number);
        return Ok(());
    }
    let group = found.groups.entry(number).or_default();
    match what {
        What::Mark(_) | What::Forgotten(_) => {}
        What::Entry(entry) => {
            let point = entry.point.ok_or("an entry has no place")?;
            group.push(point, None, Some(place)).map_err(|error| error.to_string())?;
        }
        What::Carried(entry) => group.carried(entry.point.ok_or("an entry has no place")?, place),
        What::Vote(vote) => group.state.vote = Some(vote),
        What::Committed(point) => group.state.committed = Some(point),
        What::Truncated(cut) => group.truncate(cut.after),
        What::Purged(point) => {
            if group.state.purged.is_none_or(|purged| purged.index <= point.index) {
                group.purge(point);
            }
        }
    }
    Ok(())
}
