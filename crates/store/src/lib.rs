//! The engines below the waist: they keep ordered keys, and know nothing of jobs.
//!
//! The waist itself (families, batches, views, errors) is `bellwether_core::waist`; this crate adds
//! the trait [`Engine`] and what stands behind it:
//!
//! - [`MemoryEngine`], for tests and the simulator, with [`Faults`] to lose what was not synced;
//! - [`MemoryTables`], for the simulator, to which a replicated log is applied ([`Tables`]);
//! - [`DiskEngine`], the product's storage on one machine, on an LSM tree with a journal.
//!
//! ```text
//!   shard ─ submit ─┐                       ┌─ append to the journal, fdatasync
//!   shard ─ submit ─┼─► queue ─► one writer ┼─ apply to the memtables
//!   shard ─ submit ─┘  (bounded)            ├─ publish a new view
//!                                           └─ call every `done`, in order
//! ```
//!
//! [`conformance`] holds one suite that every engine must pass. [`probe`] measures what the disk
//! itself can do, so that figures can be read against it.
//!
//! What is not here: replication, record formats, any meaning of a key beyond its shard prefix.

#![forbid(unsafe_code)]

mod answer;
pub mod conformance;
mod disk;
mod engine;
mod memory;
pub mod probe;
mod rules;
mod tables;

pub use disk::{
    Applied, AppliedDone, DiskEngine, DiskOptions, OpenError, Replicated, position_key,
};
pub use engine::{Done, Engine, EngineStats, FamilyStats};
pub use memory::{Faults, MemoryEngine, MemoryTables};
pub use rules::{meta_term_key, op_bytes, shard_of};
pub use tables::Tables;
