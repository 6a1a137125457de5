//! The settings of the disk engine, and how each family is laid out in the LSM tree.
//!
//! The engine keeps a family's layout from the day it was created: changing it here affects new
//! data directories only. Sizes of cache and journal are read anew at every start.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bellwether_core::waist::Family;
use fjall::compaction::Leveled;
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    PartitioningPolicy, PinningPolicy,
};
use fjall::{CompressionType, KeyspaceCreateOptions};

const MIB: u64 = 1 << 20;

/// How to open a data directory.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// Where the data is; created, readable by its owner only, if it is not there.
    pub dir: PathBuf,
    /// What the cache of blocks may grow to.
    pub cache_bytes: u64,
    /// What the journals may grow to; bounds the time to open after a crash. At least 64 MiB.
    pub journal_bytes: u64,
    /// What the memtable of a family may grow to before it is written out; a family's own limit
    /// may be lower. Takes effect when the directory is created.
    pub memtable_bytes_max: u64,
    /// Threads that write memtables out and compact.
    pub threads: usize,
    /// Operations a commit takes at most (a single larger batch is still taken).
    pub commit_ops_max: usize,
    /// Bytes a commit takes at most (a single larger batch is still taken).
    pub commit_bytes_max: usize,
    /// Bytes that may wait for the writer; submitting blocks above that.
    pub queue_bytes_max: usize,
    /// Whether a commit is synced before anybody is told. Without that, what is in the store after
    /// a crash of the machine is some state between the last [`super::DiskEngine::persist`] and the
    /// crash, possibly mixed: whoever writes must be able to write all of it again.
    pub sync: bool,
    /// A commit that takes longer than this is warned about.
    pub slow_commit: Duration,
    /// How many journal bytes a memtable may keep alive before it is written out early.
    pub journal_lag_bytes: u64,
}

impl DiskOptions {
    /// The settings that suit a server, for a directory.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            cache_bytes: 256 * MIB,
            journal_bytes: 256 * MIB,
            memtable_bytes_max: 16 * MIB,
            threads: 2,
            commit_ops_max: 16_384,
            commit_bytes_max: 8 << 20,
            queue_bytes_max: 32 << 20,
            sync: true,
            slow_commit: Duration::from_secs(2),
            journal_lag_bytes: 64 * MIB,
        }
    }
}

/// What sets a family apart from the others.
struct Layout {
    memtable_bytes: u64,
    block_bytes: u32,
    table_bytes: u64,
    /// Readers look for keys that are there, so the lowest level needs no filter: that is nine
    /// tenths of the filters' memory.
    reads_hit: bool,
}

fn layout(family: Family) -> Layout {
    let (memtable_mib, block_kib, table_mib, reads_hit) = match family {
        // Written by every launch and every completion.
        Family::Due | Family::Index | Family::Active | Family::History => (16, 4, 64, true),
        // Looked up by callers' keys that are often not there.
        Family::Meta | Family::Job | Family::State | Family::Key | Family::Tag => {
            (16, 4, 64, false)
        }
        Family::Order => (16, 4, 64, true),
        // Written once, read by people, dropped by range: larger blocks compress better, smaller
        // tables fit sooner into a dropped range.
        Family::Tick | Family::Dead | Family::Audit => (16, 16, 32, true),
        Family::Output | Family::Batch => (16, 16, 32, true),
    };
    Layout {
        memtable_bytes: memtable_mib * MIB,
        block_bytes: block_kib * 1024,
        table_bytes: table_mib * MIB,
        reads_hit,
    }
}

/// How a family's keyspace is created.
pub(super) fn keyspace_options(family: Family, options: &DiskOptions) -> KeyspaceCreateOptions {
    let layout = layout(family);
    let filter = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0));
    KeyspaceCreateOptions::default()
        .manual_journal_persist(true)
        .max_memtable_size(layout.memtable_bytes.min(options.memtable_bytes_max))
        .data_block_size_policy(BlockSizePolicy::all(layout.block_bytes))
        .expect_point_read_hits(layout.reads_hit)
        .filter_policy(FilterPolicy::new([filter]))
        // Pinned and in one piece: a point read costs one block, and opening reads few.
        .index_block_pinning_policy(PinningPolicy::all(true))
        .filter_block_pinning_policy(PinningPolicy::all(true))
        .index_block_partitioning_policy(PartitioningPolicy::all(false))
        .filter_block_partitioning_policy(PartitioningPolicy::all(false))
        // What is young is rewritten soon, so only lower levels are worth compressing.
        .data_block_compression_policy(CompressionPolicy::new([
            CompressionType::None,
            CompressionType::None,
            CompressionType::Lz4,
        ]))
        .compaction_strategy(Arc::new(
            Leveled::default().with_table_target_size(layout.table_bytes),
        ))
}
