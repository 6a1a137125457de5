//! Keys of history and output: by retention class and time.

use bytes::Bytes;

use super::{Key, Reader};
use crate::id::RunId;
use crate::time::Time;
use crate::waist::{Shard, StoreError};

/// A run's place in history.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// How long it is kept.
    pub class: u16,
    /// The time it is filed under.
    pub time: Time,
    /// Which run.
    pub run: RunId,
}

impl Place {
    fn start(&self) -> Key {
        Key::of(self.run.job.shard())
            .u16(self.class)
            .time(self.time)
            .id(self.run.job)
            .u32(self.run.n)
    }

    /// The key in `history`.
    #[must_use]
    pub fn history(&self) -> Bytes {
        self.start().done()
    }

    /// A chunk's key in `output`.
    #[must_use]
    pub fn output(&self, attempt: u32, sequence: u32) -> Bytes {
        self.start().u32(attempt).u32(sequence).done()
    }

    /// All chunks of an attempt in `output`.
    #[must_use]
    pub fn outputs(&self, attempt: u32) -> (Bytes, Bytes) {
        self.start().u32(attempt).range()
    }

    /// All chunks of the run in `output`.
    #[must_use]
    pub fn all_outputs(&self) -> (Bytes, Bytes) {
        self.start().range()
    }

    /// Takes a key of `history` apart.
    ///
    /// # Errors
    /// If it is none.
    pub fn read(key: &[u8]) -> Result<Place, StoreError> {
        let mut reader = Reader(key);
        let _shard = reader.u16()?;
        let class = reader.u16()?;
        let time = reader.time()?;
        let job = reader.id()?;
        let n = reader.u32()?;
        Ok(Place { class, time, run: RunId { job, n } })
    }
}

/// Reads the attempt and the number of a chunk from a key of `output`.
///
/// # Errors
/// If it is none.
pub fn read_output(key: &[u8]) -> Result<(u32, u32), StoreError> {
    let tail = key.len().saturating_sub(8);
    let mut reader = Reader(key.get(tail..).unwrap_or_default());
    Ok((reader.u32()?, reader.u32()?))
}

/// The part of `history` or `output` of a class in `from <= time < to`.
#[must_use]
pub fn class_range(shard: Shard, class: u16, from: Time, to: Time) -> (Bytes, Bytes) {
    (Key::of(shard).u16(class).time(from).done(), Key::of(shard).u16(class).time(to).done())
}
