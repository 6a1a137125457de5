//! The database of a node: one keyspace per family, one journal for all of them.
//!
//! This is the only place that knows the storage library. What is relied on, checked by tests:
//! - a write batch with a durability is appended to the journal and synced *before* it is applied
//!   to the memtables, so a failed sync leaves no trace and nothing unsynced is ever readable;
//! - all rows of a write batch carry one sequence number, and within it the later write to a key
//!   replaces the earlier one;
//! - a snapshot finds the tables of its own time, so dropping a range leaves open views alone.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bellwether_core::waist::{Family, Shard, StoreError};
use fjall::{Keyspace, OwnedWriteBatch, PersistMode};
use lsm_tree::AbstractTree;

use super::directory::{Directory, OpenError};
use super::options::{DiskOptions, keyspace_options};
use crate::engine::FamilyStats;

/// A key that lies before every shard's keys, since those have two bytes at least. See
/// [`Database::touch`].
const MARKER_KEY: [u8; 1] = [0];

/// An open database. Fields are dropped in this order: the lock goes last.
pub(super) struct Database {
    keyspaces: Vec<Keyspace>,
    fjall: fjall::Database,
    durability: PersistMode,
    path: PathBuf,
    _directory: Directory,
}

impl Database {
    /// Opens the database, creating it if it is not there.
    pub(super) fn open(options: &DiskOptions) -> Result<Arc<Self>, OpenError> {
        let directory = Directory::prepare(&options.dir, options.sync)?;
        directory.check_journals(options.sync)?;
        let path = directory.database();
        let fjall = fjall::Database::builder(&path)
            .cache_size(options.cache_bytes)
            .max_journaling_size(options.journal_bytes.max(64 << 20))
            .worker_threads(options.threads.max(1))
            .manual_journal_persist(true)
            .open()
            .map_err(|e| directory.database_error(e))?;
        let mut keyspaces = Vec::with_capacity(Family::ALL.len());
        for family in Family::ALL {
            let keyspace = fjall.keyspace(family.name(), || keyspace_options(family, options));
            keyspaces.push(keyspace.map_err(|e| directory.database_error(e))?);
        }
        directory.seal()?;
        let durability = if options.sync { PersistMode::SyncData } else { PersistMode::Buffer };
        Ok(Arc::new(Self { keyspaces, fjall, durability, path, _directory: directory }))
    }

    pub(super) fn fjall(&self) -> &fjall::Database {
        &self.fjall
    }

    pub(super) fn keyspace(&self, family: Family) -> &Keyspace {
        &self.keyspaces[family as usize]
    }

    /// A batch that will be synced before anybody can see it, unless syncing is left to others.
    pub(super) fn batch(&self, capacity: usize) -> OwnedWriteBatch {
        OwnedWriteBatch::with_capacity(self.fjall.clone(), capacity)
            .durability(Some(self.durability))
    }

    /// Syncs the journal with its metadata. Fails if any earlier write did.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.fjall.persist(PersistMode::SyncAll).map_err(write_error)
    }

    /// Why nothing can be written any more, if the library has given up.
    pub(super) fn failure(&self) -> Option<StoreError> {
        self.fjall.persist(PersistMode::Buffer).map_err(write_error).err()
    }

    /// Removes the tables that lie within a range; rows in others stay. Returns whether any went.
    pub(super) fn drop_range(
        &self,
        family: Family,
        from: &[u8],
        to: &[u8],
    ) -> Result<bool, StoreError> {
        if from >= to {
            return Ok(false);
        }
        let tree = &self.keyspace(family).tree;
        let tables_before = tree.table_count();
        tree.drop_range(from..to).map_err(|e| write_error(e.into()))?;
        Ok(tree.table_count() < tables_before)
    }

    /// Starts writing a family's memtable out; `false` if it was empty.
    pub(super) fn rotate(&self, family: Family) -> Result<bool, StoreError> {
        self.keyspace(family).rotate_memtable().map_err(write_error)
    }

    /// Writes one row that nobody reads and starts writing the memtable out.
    ///
    /// A journal is deleted once the tables of each family have reached the sequence number
    /// the family had in it. A family whose newest tables were dropped, or compacted away because
    /// they held nothing but deletes, falls behind that and would keep the journal for ever.
    /// The row lifts it again.
    pub(super) fn touch(&self, family: Family) -> Result<(), StoreError> {
        let keyspace = self.keyspace(family);
        // Synced like any other write: at most one batch of the journal may ever be unsynced.
        let mut batch = self.batch(1);
        batch.insert(keyspace, MARKER_KEY, []);
        batch.commit().map_err(write_error)?;
        self.rotate(family).map(drop)
    }

    /// The identity of a family's active memtable, unless it is empty.
    pub(super) fn memtable(&self, family: Family) -> Option<u64> {
        let memtable = self.keyspace(family).tree.active_memtable();
        (!memtable.is_empty()).then(|| memtable.id())
    }

    /// Number and size of the journal files. They are looked up in the directory, because asking
    /// the library waits for a running sync, and a watchdog must not.
    pub(super) fn journals(&self) -> (u64, u64) {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        let journals = entries.filter(|e| e.path().extension().is_some_and(|x| x == "jnl"));
        journals
            .fold((0, 0), |(count, bytes), entry| (count + 1, bytes + used_bytes(&entry.path())))
    }

    /// Bytes of all tables, by those of the given shards whose rows may be in them.
    pub(super) fn bytes_by_shard(&self, shards: &BTreeSet<Shard>) -> BTreeMap<Shard, u64> {
        let mut bytes: BTreeMap<Shard, u64> = shards.iter().map(|shard| (*shard, 0)).collect();
        for keyspace in &self.keyspaces {
            for table in keyspace.tree.current_version().iter_tables() {
                let range = &table.metadata.key_range;
                share(&mut bytes, (range.min(), range.max()), table.metadata.file_size);
            }
        }
        bytes
    }

    pub(super) fn family_stats(&self, family: Family) -> FamilyStats {
        let keyspace = self.keyspace(family);
        FamilyStats {
            family,
            disk_bytes: keyspace.disk_space(),
            tables: keyspace.table_count() as u64,
            l0_runs: keyspace.tree.l0_run_count() as u64,
            memtables_sealed: keyspace.sealed_memtable_count() as u64,
            memtable_bytes: keyspace.tree.active_memtable().size(),
            rows_approximate: keyspace.approximate_len() as u64,
        }
    }
}

/// Shares the bytes of a table out among the shards whose rows may be in it, in equal parts: what
/// lies where in a table only reading it would tell. Most of what is stored is in tables of the last level,
/// which have rows of one shard or two.
fn share(bytes: &mut BTreeMap<Shard, u64>, (first, last): (&[u8], &[u8]), table_bytes: u64) {
    // A key that is shorter is no shard's, and lies before all of them.
    let Some(last) = last.first_chunk::<2>() else { return };
    let first = first.first_chunk::<2>().map_or(0, |first| Shard::from_be_bytes(*first));
    let within = first..=Shard::from_be_bytes(*last);
    let parts = bytes.range(within.clone()).count() as u64;
    for (_, bytes) in bytes.range_mut(within) {
        *bytes += table_bytes / parts;
    }
}

/// What a file uses on disk; journals are allocated sparsely, so their length says little.
fn used_bytes(path: &Path) -> u64 {
    path.metadata().map_or(0, |meta| meta.blocks() * 512)
}

pub(super) fn write_error(error: fjall::Error) -> StoreError {
    StoreError::Failed(match error {
        fjall::Error::Poisoned => "an earlier write or background task failed".to_owned(),
        other => format!("writing failed: {other}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_counts_for_the_shards_whose_rows_may_be_in_it() {
        let mut bytes = BTreeMap::from([(0, 0), (2, 0), (3, 0), (300, 0)]);
        let mut add = |first: &[u8], last: &[u8], table| share(&mut bytes, (first, last), table);
        add(b"\x00\x02a", b"\x00\x02z", 100);
        add(b"\x00\x02a", b"\x00\x03z", 60);
        add(b"\x00", b"\x00\x00z", 7);
        add(b"\x00", b"\x00", 1_000);
        add(b"\x00\x01a", b"\x00\x01z", 1_000);
        add(b"\x01\x00a", b"\x01\xffz", 9);
        assert_eq!(bytes, BTreeMap::from([(0, 7), (2, 130), (3, 30), (300, 9)]));
    }
}
