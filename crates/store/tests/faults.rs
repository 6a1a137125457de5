//! The engine in memory misbehaves the way a test asks for, and in no other.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bellwether_core::waist::{Batch, Family, Op, StoreError};
use bellwether_store::{Engine, MemoryEngine};
use bytes::Bytes;

fn batch(term: u64, name: &str) -> Batch {
    let key = Bytes::from([&[0, 1], name.as_bytes()].concat());
    let put = Op::Put { family: Family::Job, key, value: Bytes::from("v") };
    Batch { shard: 1, term, ops: vec![put] }
}

fn has(engine: &MemoryEngine, name: &str) -> bool {
    let key = [&[0, 1], name.as_bytes()].concat();
    engine.view().get(Family::Job, &key).unwrap().is_some()
}

/// Submits and counts the answers.
fn submit(engine: &MemoryEngine, term: u64, name: &str, answers: &Arc<AtomicU32>) {
    let answers = Arc::clone(answers);
    engine.submit(
        batch(term, name),
        Box::new(move |_| {
            answers.fetch_add(1, Ordering::Relaxed);
        }),
    );
}

#[test]
fn what_is_held_back_is_neither_visible_nor_acknowledged() {
    let engine = MemoryEngine::new();
    let term = engine.acquire(1).unwrap();
    let (faults, answers) = (engine.faults(), Arc::default());
    faults.hold();
    submit(&engine, term, "a", &answers);
    submit(&engine, term, "b", &answers);
    assert_eq!((faults.held(), has(&engine, "a")), (2, false));
    assert_eq!(answers.load(Ordering::Relaxed), 0);
    faults.sync(1);
    assert!(has(&engine, "a") && !has(&engine, "b"));
    assert_eq!(answers.load(Ordering::Relaxed), 1);
    faults.release();
    assert!(has(&engine, "b"));
    submit(&engine, term, "c", &answers);
    assert!(has(&engine, "c"));
    assert_eq!(answers.load(Ordering::Relaxed), 3);
}

#[test]
fn a_crash_keeps_what_reached_the_disk_and_acknowledges_nothing() {
    let engine = MemoryEngine::new();
    let term = engine.acquire(1).unwrap();
    let (faults, answers) = (engine.faults(), Arc::default());
    submit(&engine, term, "before", &answers);
    faults.hold();
    for name in ["a", "b", "c"] {
        submit(&engine, term, name, &answers);
    }
    let after = faults.crash(2);
    assert_eq!(answers.load(Ordering::Relaxed), 1, "only what was synced before the crash");
    assert!(["before", "a", "b"].iter().all(|name| has(&after, name)));
    assert!(!has(&after, "c"));
    assert!(matches!(engine.commit(batch(term, "d")), Err(StoreError::Failed(_))));
    assert!(after.acquire(1).unwrap() > term, "terms survive");
}

#[test]
fn a_failed_sync_changes_nothing_and_ends_the_engine() {
    let engine = MemoryEngine::new();
    let term = engine.acquire(1).unwrap();
    engine.faults().fail_after(1);
    engine.commit(batch(term, "a")).unwrap();
    assert!(matches!(engine.commit(batch(term, "b")), Err(StoreError::Failed(_))));
    assert!(matches!(engine.commit(batch(term, "c")), Err(StoreError::Failed(_))));
    assert!(engine.acquire(1).is_err() && engine.close().is_err());
    assert!(engine.stats().failure.is_some());
    let after = engine.reopen();
    assert!(has(&after, "a") && !has(&after, "b") && !has(&after, "c"));
}
