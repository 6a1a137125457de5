//! The suite, run against both engines.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use bellwether_store::conformance::{self, Opener};
use bellwether_store::{DiskEngine, DiskOptions, Engine, MemoryEngine};

fn memory() -> Opener {
    let mut engine: Option<Arc<MemoryEngine>> = None;
    Box::new(move || {
        let next = engine.as_ref().map_or_else(MemoryEngine::new, |e| e.reopen());
        let next = Arc::new(next);
        engine = Some(Arc::clone(&next));
        next
    })
}

fn disk() -> Opener {
    let dir = tempfile::tempdir().unwrap();
    Box::new(move || {
        let options = DiskOptions {
            cache_bytes: 4 << 20,
            // Small, so that backpressure and several commits come into play.
            queue_bytes_max: 1 << 20,
            commit_ops_max: 100,
            ..DiskOptions::new(dir.path().join("data"))
        };
        Arc::new(DiskEngine::open(options).unwrap()) as Arc<dyn Engine>
    })
}

#[test]
fn the_engine_in_memory_conforms() {
    conformance::run_all(memory);
}

#[test]
fn r70_the_engine_on_disk_conforms() {
    conformance::run_all(disk);
}
