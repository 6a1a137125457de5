//! A store whose shards are groups of Raft passes what every engine must, and openraft's own suite.

use std::sync::Arc;

use bellwether_raft::engine::{RaftEngine, RaftOptions};
use bellwether_raft::log::{Directory, Log, LogOptions};
use bellwether_raft::machine::Machine;
use bellwether_raft::net::{Dialing, Identity};
use bellwether_raft::snapshot::Receiving;
use bellwether_raft::storage::LogStore;
use bellwether_raft::types::{Peer, Types};
use bellwether_store::{DiskEngine, DiskOptions, Engine, conformance};
use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};

#[test]
fn r113_a_node_alone_passes_the_conformance_suite() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    conformance::run_all(move || {
        let dir = tempfile::tempdir().unwrap();
        let handle = handle.clone();
        Box::new(move || {
            let tables = DiskOptions { sync: false, ..DiskOptions::new(dir.path().join("tables")) };
            let options = RaftOptions {
                tables: Arc::new(DiskEngine::open(tables).unwrap()),
                log_dir: dir.path().join("log"),
                log: LogOptions::default(),
                identity: Identity { cluster: "c".to_owned(), node: 1 },
                dialing: Dialing::default(),
                shards: (0..=16).chain([0x00FF, 0x0100, 0x0101, 0x0102, 0x0200, 0xFFFE]).collect(),
            };
            let engine = handle.block_on(async {
                let engine = RaftEngine::open(options).await.unwrap();
                engine.found(&Peer::default()).await.unwrap();
                engine
            });
            Arc::new(engine) as Arc<dyn Engine>
        })
    });
}

/// Makes empty logs and tables for openraft's suite.
struct Stores;

impl StoreBuilder<Types, LogStore, Machine, (tempfile::TempDir, Log)> for Stores {
    async fn build(
        &self,
    ) -> Result<((tempfile::TempDir, Log), LogStore, Machine), StorageError<Types>> {
        let dir = tempfile::tempdir().unwrap();
        let log = Directory::open(dir.path().join("log")).unwrap();
        let log = Log::open(log, LogOptions::default()).unwrap();
        let storage = LogStore::new(log.group(3).unwrap());
        let mut options = DiskOptions::new(dir.path().join("tables"));
        options.sync = false;
        let tables = Arc::new(DiskEngine::open(options).unwrap());
        let receiving = Receiving::open(dir.path().join("copies")).unwrap();
        let machine = Machine::new(tables, 3, &receiving).unwrap();
        Ok(((dir, log), storage, machine))
    }
}

#[test]
fn openrafts_own_suite_passes() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(Suite::test_all(Stores)).unwrap();
}
