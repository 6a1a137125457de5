//! A store whose shards are groups of Raft passes what every engine must, and openraft's own suite.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use bellwether_raft::engine::{RaftEngine, RaftOptions};
use bellwether_raft::log::LogOptions;
use bellwether_store::{DiskOptions, Engine, conformance};

#[test]
fn r67_a_node_alone_passes_the_conformance_suite() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    conformance::run_all(move || {
        let dir = tempfile::tempdir().unwrap();
        let handle = handle.clone();
        Box::new(move || {
            let options = RaftOptions {
                tables: DiskOptions::new(dir.path().join("tables")),
                log_dir: dir.path().join("log"),
                log: LogOptions::default(),
                node: 1,
                shards: (0..=16).chain([0x00FF, 0x0100, 0x0101, 0x0102, 0x0200, 0xFFFE]).collect(),
            };
            Arc::new(handle.block_on(RaftEngine::open_alone(options)).unwrap()) as Arc<dyn Engine>
        })
    });
}
