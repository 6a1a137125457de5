//! The waist between the rules and the stores: ordered keys, a consistent view, a batch of writes.
//!
//! The rules above know only these types; an engine below (in `bellwether-store`) knows nothing
//! of jobs. Every key starts with its shard's number, two bytes big-endian, so that one engine can
//! hold many shards and a shard can be copied as a set of ranges.
//!
//! Invariants an engine keeps, checked by one conformance suite:
//! - a batch is applied whole or not at all, in the order of its operations;
//! - a batch whose term is not the shard's newest changes nothing;
//! - a view shows only what is durable, and does not change while it is held.

use bytes::Bytes;

/// A shard's number.
pub type Shard = u16;

/// The fencing token of a shard's leader. A higher one makes all lower ones void.
pub type Term = u64;

/// A family of keys, stored apart from the others because it is written, read and dropped in its
/// own way. The number is part of the stored format and never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Family {
    /// A few small records per shard: its term, cursors, groups, tokens.
    Meta = 0,
    /// What is due when: `(time, id)`; for a one-off job the whole record.
    Due = 1,
    /// Where a one-off job is to be found: `id` to its time. Written once.
    Index = 2,
    /// Definitions of jobs that are more than a plain one-off.
    Job = 3,
    /// What changes about such a job: counters, last outcome, cursor; and where its runs are filed.
    State = 4,
    /// Runs that are open.
    Active = 5,
    /// Runs that have ended, by retention class and time.
    History = 6,
    /// The tick ledger, by job and time.
    Tick = 7,
    /// Callers' keys to ids.
    Key = 8,
    /// Jobs by owner, group, namespace and label.
    Tag = 9,
    /// Open runs by ordering key, in schedule order.
    Order = 10,
    /// Ended runs that failed or were lost, by time.
    Dead = 11,
    /// What runs have printed, in chunks, laid out like history.
    Output = 12,
    /// Who changed what, by time.
    Audit = 13,
    /// Batches, how they stand in each shard, and items that are yet to become jobs.
    Batch = 14,
}

impl Family {
    /// All families, in the order of their numbers.
    pub const ALL: [Family; 15] = [
        Family::Meta,
        Family::Due,
        Family::Index,
        Family::Job,
        Family::State,
        Family::Active,
        Family::History,
        Family::Tick,
        Family::Key,
        Family::Tag,
        Family::Order,
        Family::Dead,
        Family::Output,
        Family::Audit,
        Family::Batch,
    ];

    /// The family's name, as it stands in directory names and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Family::Meta => "meta",
            Family::Due => "due",
            Family::Index => "index",
            Family::Job => "job",
            Family::State => "state",
            Family::Active => "active",
            Family::History => "history",
            Family::Tick => "tick",
            Family::Key => "key",
            Family::Tag => "tag",
            Family::Order => "order",
            Family::Dead => "dead",
            Family::Output => "output",
            Family::Audit => "audit",
            Family::Batch => "batch",
        }
    }
}

/// One write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Sets a key to a value.
    Put {
        /// Where.
        family: Family,
        /// The key, shard first.
        key: Bytes,
        /// The value.
        value: Bytes,
    },
    /// Removes a key; nothing happens if there is none.
    Delete {
        /// Where.
        family: Family,
        /// The key, shard first.
        key: Bytes,
    },
    /// Says that nothing in `from..to` will be looked at again. An engine drops what it cheaply
    /// can, when it can: some of it may stay visible, so readers must not rely on its absence.
    DropRange {
        /// Where.
        family: Family,
        /// First key of the range, shard first.
        from: Bytes,
        /// First key after the range, of the same shard.
        to: Bytes,
    },
}

/// Writes of one shard that become durable together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// Whose keys these are; every key starts with it.
    pub shard: Shard,
    /// The term under which they were decided.
    pub term: Term,
    /// What to write, in order; a later operation on a key wins.
    pub ops: Vec<Op>,
}

/// What can go wrong below the waist.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Another leader has taken the shard over. Stop acting for it.
    #[error("shard {shard} has moved on to term {newest}; term {held} is void")]
    Fenced {
        /// The shard.
        shard: Shard,
        /// The term of the refused batch.
        held: Term,
        /// The term that is valid now.
        newest: Term,
    },
    /// This node does not lead the shard, or not any more: the batch was not even proposed. Stop
    /// acting for the shard.
    #[error("shard {shard} is led by another node")]
    NotLeader {
        /// The shard.
        shard: Shard,
    },
    /// Another node has come to lead the shard after the batch was proposed. Stop acting for it;
    /// whether the batch takes effect, nobody knows yet.
    #[error("shard {shard} has come to be led by another node")]
    Replaced {
        /// The shard.
        shard: Shard,
    },
    /// The disk failed, or a sync did. Nothing after it can be trusted: stop, and say so.
    #[error("the store has failed and accepts nothing more: {0}")]
    Failed(String),
    /// Stored bytes could not be understood.
    #[error("stored data is damaged: {0}")]
    Corrupt(String),
    /// The engine is shutting down.
    #[error("the store is closed")]
    Closed,
    /// The shard is stored on other nodes, none of which could be asked. Try again.
    #[error("no node that has shard {shard} can be reached")]
    Unreachable {
        /// The shard.
        shard: Shard,
    },
}

/// One row of a scan: key and value.
pub type Row = (Bytes, Bytes);

/// Rows in key order (or reverse), each of which may fail to be read.
pub type Rows<'a> = Box<dyn Iterator<Item = Result<Row, StoreError>> + 'a>;

/// A consistent state of all shards at one moment.
pub trait View: Send + Sync {
    /// The value of a key.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Bytes>, StoreError>;

    /// The rows with `from <= key < to`, ascending.
    fn scan<'a>(&'a self, family: Family, from: &[u8], to: &[u8]) -> Rows<'a>;

    /// The rows with `from <= key < to`, descending.
    fn scan_back<'a>(&'a self, family: Family, from: &[u8], to: &[u8]) -> Rows<'a>;

    /// Whether reading may mean asking another node. Whoever is about to read much then says so
    /// first, with [`View::foresee`].
    fn is_far(&self) -> bool {
        false
    }

    /// Says which keys are read next, so that they can be fetched together.
    ///
    /// # Errors
    /// When they cannot be read.
    fn foresee(&self, _keys: &[(Family, Bytes)]) -> Result<(), StoreError> {
        Ok(())
    }
}
