//! One suite that every engine must pass: the invariants of the waist, as checks.
//!
//! An engine's tests call [`run_all`] with a function that makes empty stores:
//!
//! ```
//! use std::sync::Arc;
//! use bellwether_store::{Engine, MemoryEngine, conformance};
//!
//! conformance::run_all(|| {
//!     let mut engine: Option<Arc<MemoryEngine>> = None;
//!     Box::new(move || {
//!         let next = Arc::new(engine.as_ref().map_or_else(MemoryEngine::new, |e| e.reopen()));
//!         engine = Some(Arc::clone(&next));
//!         next as Arc<dyn Engine>
//!     })
//! });
//! ```
//!
//! The checks panic when an engine breaks a rule, and name it.

mod batches;
mod callbacks;
mod fencing;
mod lifetime;
mod views;

use std::sync::Arc;

use bellwether_core::waist::{Batch, Family, Op, Row, Rows, Shard, Term};
use bytes::Bytes;

use crate::engine::Engine;

/// Opens one store: empty the first time, and each time after that with what is durable in it.
/// The engine opened before has been closed and dropped by then.
pub type Opener = Box<dyn FnMut() -> Arc<dyn Engine>>;

/// A check and its name.
pub type Check = (&'static str, fn(Opener));

/// All checks, for a test that wants to run them one by one.
#[must_use]
pub fn all() -> Vec<Check> {
    let groups =
        [batches::CHECKS, callbacks::CHECKS, fencing::CHECKS, lifetime::CHECKS, views::CHECKS];
    groups.concat()
}

/// Runs every check, each on a store of its own.
///
/// # Panics
/// When a check fails; its name has been printed.
pub fn run_all(make: impl Fn() -> Opener) {
    for (name, check) in all() {
        println!("conformance: {name}");
        check(make());
    }
}

/// A key: the shard, then `suffix`.
fn key(shard: Shard, suffix: impl AsRef<[u8]>) -> Bytes {
    let mut key = shard.to_be_bytes().to_vec();
    key.extend_from_slice(suffix.as_ref());
    Bytes::from(key)
}

/// The first key after all keys of a shard, for shards below the last.
fn end(shard: Shard) -> Bytes {
    key(shard + 1, "")
}

fn put(family: Family, key: Bytes, value: impl Into<Bytes>) -> Op {
    let value = value.into();
    Op::Put { family, key, value }
}

fn delete(family: Family, key: Bytes) -> Op {
    Op::Delete { family, key }
}

fn batch(shard: Shard, term: Term, ops: Vec<Op>) -> Batch {
    Batch { shard, term, ops }
}

/// Acquires a shard, which must succeed.
fn acquire(engine: &dyn Engine, shard: Shard) -> Term {
    engine.acquire(shard).expect("a shard can be acquired")
}

/// Commits, which must succeed.
fn commit(engine: &dyn Engine, shard: Shard, term: Term, ops: Vec<Op>) {
    let result = engine.commit(batch(shard, term, ops));
    result.expect("a batch of the newest term is committed");
}

/// The newest value of a key.
fn value(engine: &dyn Engine, family: Family, key: &Bytes) -> Option<Bytes> {
    engine.view().get(family, key).expect("a key can be read")
}

fn collect(rows: Rows<'_>) -> Vec<Row> {
    rows.map(|row| row.expect("a row can be read")).collect()
}

/// All rows of a family in a shard, as they are now.
fn rows(engine: &dyn Engine, family: Family, shard: Shard) -> Vec<Row> {
    let view = engine.view();
    collect(view.scan(family, &key(shard, ""), &end(shard)))
}
