//! Records of the log as they lie on disk.
//!
//! ```text
//! segment  "BWLOG1\n\0", number: u64, then records
//! record   length of the body: u32, checksum: u32, body
//! ```
//! Numbers are little-endian. A body is a protobuf message, so that fields can be added; the
//! checksum is the lower half of xxh3 over length and body.

use bytes::{BufMut, Bytes, BytesMut};
use prost::{Message, Oneof};
use xxhash_rust::xxh3::Xxh3;

/// How a segment begins.
pub(super) const MAGIC: &[u8; 8] = b"BWLOG1\n\0";
/// Bytes before the first record of a segment.
pub(super) const SEGMENT_HEADER: u64 = 16;
/// Bytes before the body of a record.
pub(super) const RECORD_HEADER: usize = 8;
/// The largest body: an entry is a write batch, which is bounded far below this.
pub(super) const BODY_MAX: usize = 256 * 1024 * 1024;

/// Something that was written to the log.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Record {
    /// The group it is about.
    #[prost(uint32, tag = "1")]
    pub group: u32,
    /// What.
    #[prost(oneof = "What", tags = "2, 3, 4, 5, 6, 7, 8, 9")]
    pub what: Option<What>,
}

#[derive(Clone, PartialEq, Eq, Oneof)]
pub(super) enum What {
    /// Begins everything that is made durable by one sync.
    #[prost(message, tag = "2")]
    Mark(Mark),
    /// An entry follows the last one.
    #[prost(message, tag = "3")]
    Entry(StoredEntry),
    /// The group's vote, in its own encoding.
    #[prost(bytes = "bytes", tag = "4")]
    Vote(Bytes),
    /// The last entry known to be committed.
    #[prost(message, tag = "5")]
    Committed(Point),
    /// Entries after this one are void; all, if there is none.
    #[prost(message, tag = "6")]
    Truncated(Cut),
    /// Entries up to this one are not needed any more.
    #[prost(message, tag = "7")]
    Purged(Point),
    /// The group has left this node: nothing that was written for it before counts any more.
    #[prost(message, tag = "8")]
    Forgotten(Forgotten),
    /// An entry that was written before is here from now on. Of several, the last one comes first.
    #[prost(message, tag = "9")]
    Carried(StoredEntry),
}

/// That a group has left.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Forgotten {}

/// The beginning of a write.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Mark {
    /// Everything before this place in the segment was durable when this was written.
    #[prost(uint64, tag = "1")]
    pub durable: u64,
}

/// What is left after cutting off.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Cut {
    /// The last entry that stays; none if absent.
    #[prost(message, optional, tag = "1")]
    pub after: Option<Point>,
}

/// The place of an entry. A term has one leader, so these two say which entry it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Message)]
pub struct Point {
    /// The term of the leader that proposed it.
    #[prost(uint64, tag = "1")]
    pub term: u64,
    /// Its number in the log.
    #[prost(uint64, tag = "2")]
    pub index: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct StoredEntry {
    #[prost(message, optional, tag = "1")]
    pub point: Option<Point>,
    #[prost(bytes = "bytes", tag = "2")]
    pub data: Bytes,
}

fn checksum(length: u32, body: &[u8]) -> u32 {
    let mut hash = Xxh3::new();
    hash.update(&length.to_le_bytes());
    hash.update(body);
    hash.digest() as u32
}

/// Adds a record to what is to be written.
pub(super) fn write(record: &Record, to: &mut BytesMut) {
    let start = to.len();
    to.put_u64_le(0);
    // A BytesMut grows as needed, so this cannot fail.
    let _ = record.encode(to);
    let length = (to.len() - start - RECORD_HEADER) as u32;
    let sum = checksum(length, &to[start + RECORD_HEADER..]);
    to[start..start + 4].copy_from_slice(&length.to_le_bytes());
    to[start + 4..start + 8].copy_from_slice(&sum.to_le_bytes());
}

/// Takes the first record off `bytes`: the record and its length with header. `None` if there is
/// none that is whole and sound.
pub(super) fn read(bytes: &Bytes) -> Option<(Record, usize)> {
    let header = bytes.get(..RECORD_HEADER)?;
    let (length, sum) = header.split_at(4);
    let length = u32::from_le_bytes(length.try_into().ok()?);
    let sum = u32::from_le_bytes(sum.try_into().ok()?);
    let end = RECORD_HEADER + length as usize;
    if length == 0 || length as usize > BODY_MAX || bytes.len() < end {
        return None;
    }
    let body = bytes.slice(RECORD_HEADER..end);
    if checksum(length, &body) != sum {
        return None;
    }
    Some((Record::decode(body).ok()?, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_written_and_not_if_a_bit_is_wrong() {
        let point = Some(Point { term: 3, index: 9 });
        let entry = StoredEntry { point, data: Bytes::from_static(b"hello") };
        let record = Record { group: 7, what: Some(What::Entry(entry)) };
        let mut bytes = BytesMut::new();
        write(&record, &mut bytes);
        write(&record, &mut bytes);
        let bytes = bytes.freeze();
        let (found, length) = read(&bytes).unwrap();
        assert_eq!((&found, length * 2), (&record, bytes.len()));
        for bit in 0..length * 8 {
            let mut wrong = bytes.slice(..length).to_vec();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&Bytes::from(wrong)).is_none(), "bit {bit}");
        }
        for short in 0..length {
            assert!(read(&bytes.slice(..short)).is_none());
        }
    }

    fn hex(text: &str) -> Bytes {
        let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
        (0..text.len()).step_by(2).map(byte).collect()
    }

    /// The bytes were made by another program, from the description above.
    #[test]
    fn r117_logs_that_were_written_by_this_version_are_read_by_later_ones() {
        let at = |term, index| Point { term, index };
        let entry = StoredEntry { point: Some(at(3, 9)), data: Bytes::from_static(b"hello") };
        for (group, what, bytes) in [
            (0, What::Mark(Mark { durable: 300 }), "05000000e94a85c9120308ac02"),
            (7, What::Entry(entry.clone()), "11000000e2c3150d08071a0d0a0408031009120568656c6c6f"),
            (7, What::Vote(Bytes::from_static(b"me")), "060000000fbd75f8080722026d65"),
            (7, What::Committed(at(3, 9)), "08000000ae1972ef08072a0408031009"),
            (
                7,
                What::Truncated(Cut { after: Some(at(3, 8)) }),
                "0a0000003a620993080732060a0408031008",
            ),
            (7, What::Truncated(Cut { after: None }), "04000000ed1efd1008073200"),
            (7, What::Purged(at(3, 4)), "08000000c074324a08073a0408031004"),
            (7, What::Forgotten(Forgotten {}), "040000003034d81208074200"),
            (7, What::Carried(entry), "1100000029b6343508074a0d0a0408031009120568656c6c6f"),
        ] {
            let (record, bytes) = (Record { group, what: Some(what) }, hex(bytes));
            assert_eq!(read(&bytes), Some((record.clone(), bytes.len())));
            let mut written = BytesMut::new();
            write(&record, &mut written);
            assert_eq!(written, bytes, "{record:?}");
        }
    }
}
