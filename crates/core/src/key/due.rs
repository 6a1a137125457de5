//! Keys of the due index: what is due when.

use bytes::Bytes;

use super::{Key, Reader};
use crate::id::JobId;
use crate::time::Time;
use crate::waist::{Shard, StoreError};

/// What an entry of the due index stands for. The number is part of its key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum DueKind {
    /// A one-off job in compact form; the value is the whole of it.
    OneOff = 1,
    /// The next tick of a job in full form.
    Tick = 2,
    /// The next attempt of a run.
    Retry = 3,
    /// A run must have started by now.
    Expire = 4,
    /// A job or group comes back from maintenance.
    Release = 5,
    /// A piece of clearing up after a deleted or expired job.
    Sweep = 6,
    /// A batch that is over, or a shard's part of it, may be forgotten.
    Forget = 7,
}

impl DueKind {
    fn from_byte(byte: u8) -> Option<DueKind> {
        [
            DueKind::OneOff,
            DueKind::Tick,
            DueKind::Retry,
            DueKind::Expire,
            DueKind::Release,
            DueKind::Sweep,
            DueKind::Forget,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == byte)
    }
}

/// The key of an entry of the due index, taken apart. Sorts as the keys do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DueKey {
    /// When.
    pub time: Time,
    /// What.
    pub kind: DueKind,
    /// Of which job.
    pub job: JobId,
    /// Of which of its runs; 0 if of none.
    pub n: u32,
}

impl DueKey {
    /// The key as stored.
    #[must_use]
    pub fn key(&self, shard: Shard) -> Bytes {
        let key = Key::of(shard).time(self.time).byte(self.kind as u8).id(self.job);
        if self.n == 0 { key.done() } else { key.u32(self.n).done() }
    }

    /// Takes a stored key apart.
    ///
    /// # Errors
    /// If it is none.
    pub fn read(key: &[u8]) -> Result<DueKey, StoreError> {
        let mut reader = Reader(key);
        let _shard = reader.u16()?;
        let time = reader.time()?;
        let [kind] = reader.take()?;
        let kind = DueKind::from_byte(kind)
            .ok_or_else(|| StoreError::Corrupt(format!("due entry of unknown kind {kind}")))?;
        let job = reader.id()?;
        let n = if reader.0.is_empty() { 0 } else { reader.u32()? };
        Ok(DueKey { time, kind, job, n })
    }
}

/// The range of the due index in `from <= time < to`.
#[must_use]
pub fn due_range(shard: Shard, from: Time, to: Time) -> (Bytes, Bytes) {
    (Key::of(shard).time(from).done(), Key::of(shard).time(to).done())
}
