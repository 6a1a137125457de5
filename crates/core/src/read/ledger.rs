//! The tick ledger and the audit log.

use crate::id::JobId;
use crate::key;
use crate::record::{self, Audit, NodeRow, QueueRow, RestoreRow, Tick, TokenRow};
use crate::time::Time;
use crate::waist::{Family, Shard, StoreError, View};

/// A row of the ledger with its instant.
#[derive(Clone, Debug)]
pub struct StoredTick {
    /// The instant, the first of several.
    pub at: Time,
    /// What became of it.
    pub tick: Tick,
    /// Where to go on from.
    pub cursor: (Time, u32),
}

/// Up to `limit` rows of a job's ledger before `before`, newest first.
///
/// # Errors
/// When the store cannot be read.
pub fn ticks_of(
    view: &dyn View,
    job: JobId,
    before: Option<(Time, u32)>,
    limit: usize,
) -> Result<Vec<StoredTick>, StoreError> {
    let (from, to) = key::runs(job);
    let to = before.map_or(to, |(time, n)| key::tick(job, time, n));
    view.scan_back(Family::Tick, &from, &to)
        .take(limit)
        .map(|row| {
            let (key, value) = row?;
            let at = key::read_tick(&key)?;
            let tail = key.len().saturating_sub(4);
            let n = key[tail..].try_into().map_or(0, u32::from_be_bytes);
            Ok(StoredTick { at, tick: record::decode("tick", value)?, cursor: (at, n) })
        })
        .collect()
}

/// An entry of the audit log with its time.
#[derive(Clone, Debug)]
pub struct StoredAudit {
    /// When.
    pub at: Time,
    /// Which of several in that millisecond.
    pub sequence: u32,
    /// What.
    pub entry: Audit,
}

/// Up to `limit` entries of a shard's audit log before `before`, newest first.
///
/// # Errors
/// When the store cannot be read.
pub fn audits(
    view: &dyn View,
    shard: Shard,
    before: Option<(Time, u32)>,
    limit: usize,
) -> Result<Vec<StoredAudit>, StoreError> {
    let (from, to) = key::audits_before(shard, before);
    view.scan_back(Family::Audit, &from, &to)
        .take(limit)
        .map(|row| {
            let (key, value) = row?;
            let (at, sequence) = key::read_audit(&key)?;
            Ok(StoredAudit { at, sequence, entry: record::decode("audit", value)? })
        })
        .collect()
}

/// The queues of a shard that have bounds, by name.
///
/// # Errors
/// When the store cannot be read.
pub fn queues(view: &dyn View, shard: Shard) -> Result<Vec<(String, QueueRow)>, StoreError> {
    let (from, to) = key::queues(shard);
    let rows = view.scan(Family::Meta, &from, &to).map(|row| {
        let (key, value) = row?;
        Ok((key::read_queue(&key)?, record::decode("queue", value)?))
    });
    rows.collect()
}

/// All nodes of the cluster, also those that have left.
///
/// # Errors
/// When the store cannot be read.
pub fn nodes(view: &dyn View, shard: Shard) -> Result<Vec<NodeRow>, StoreError> {
    let (from, to) = key::nodes(shard);
    view.scan(Family::Meta, &from, &to).map(|row| record::decode("node", row?.1)).collect()
}

/// The times that the store came out of a backup, oldest first.
///
/// # Errors
/// When the store cannot be read.
pub fn restores(view: &dyn View) -> Result<Vec<RestoreRow>, StoreError> {
    let (from, to) = key::restores();
    view.scan(Family::Meta, &from, &to).map(|row| record::decode("restore", row?.1)).collect()
}

/// All tokens of a shard.
///
/// # Errors
/// When the store cannot be read.
pub fn tokens(view: &dyn View, shard: Shard) -> Result<Vec<TokenRow>, StoreError> {
    let (from, to) = key::tokens(shard);
    view.scan(Family::Meta, &from, &to).map(|row| record::decode("token", row?.1)).collect()
}
