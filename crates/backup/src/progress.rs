//! How far a backup, a check or a restore has come, for whoever watches; and their way to stop it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::{BackupError, Result};

/// How far it has come.
#[derive(Debug, Default)]
pub struct Progress {
    shards: AtomicU32,
    shards_done: AtomicU32,
    rows: AtomicU64,
    bytes: AtomicU64,
    stored_bytes: AtomicU64,
    stop: AtomicBool,
}

impl Progress {
    /// How many shards there are.
    pub fn shards(&self) -> u32 {
        self.shards.load(Ordering::Relaxed)
    }

    /// How many of them are done.
    pub fn shards_done(&self) -> u32 {
        self.shards_done.load(Ordering::Relaxed)
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Bytes of their keys and values.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of objects written or read.
    pub fn stored_bytes(&self) -> u64 {
        self.stored_bytes.load(Ordering::Relaxed)
    }

    /// Asks whoever works on it to stop soon.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn go_on(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) { Err(BackupError::Stopped) } else { Ok(()) }
    }

    pub(crate) fn begin(&self, shards: usize) {
        self.shards.store(u32::try_from(shards).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    pub(crate) fn shard_done(&self) {
        self.shards_done.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_rows(&self, rows: u64, bytes: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_stored(&self, bytes: u64) {
        self.stored_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
