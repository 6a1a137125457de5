//! An engine on a directory, as a node opens it.

use std::path::Path;
use std::sync::Arc;

use bellwether_core::waist::Shard;
use bellwether_raft::engine::{RaftEngine, RaftOptions};
use bellwether_raft::log::LogOptions;
use bellwether_raft::net::{Dialing, Identity};
use bellwether_store::{DiskEngine, DiskOptions};

/// Opens the engine of a node of cluster `c`, whose tables are not synced.
pub async fn open(dir: &Path, node: u64, shards: &[Shard], log: LogOptions) -> RaftEngine {
    let tables = DiskOptions { sync: false, ..DiskOptions::new(dir.join("tables")) };
    let options = RaftOptions {
        tables: Arc::new(DiskEngine::open(tables).unwrap()),
        log_dir: dir.join("log"),
        log,
        identity: Identity { cluster: "c".to_owned(), node },
        dialing: Dialing::default(),
        shards: shards.to_vec(),
    };
    RaftEngine::open(options).await.unwrap()
}
