//! The log of a node stays small, whatever its groups do.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bellwether_core::waist::{Batch, Family, Op, Shard};
use bellwether_raft::engine::RaftEngine;
use bellwether_raft::log::LogOptions;
use bellwether_raft::types::Peer;
use bellwether_store::Engine;
use bytes::Bytes;

use crate::opened::open;

const MIB: usize = 1024 * 1024;
const PATIENCE: Duration = Duration::from_secs(60);

async fn founded(dir: &Path) -> Arc<RaftEngine> {
    let log = LogOptions { segment_bytes: 4 * MIB as u64, ..LogOptions::default() };
    let engine = open(dir, 1, &[0, 1], log).await;
    engine.found(&Peer::default()).await.unwrap();
    Arc::new(engine)
}

fn key(shard: Shard, n: usize) -> Bytes {
    [&shard.to_be_bytes()[..], format!("k{n}").as_bytes()].concat().into()
}

fn put(shard: Shard, term: u64, n: usize, bytes: usize) -> Batch {
    let value = Bytes::from(vec![n as u8; bytes]);
    Batch { shard, term, ops: vec![Op::Put { family: Family::Job, key: key(shard, n), value }] }
}

fn size_of(dir: &Path) -> usize {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    files.filter_map(|file| file.metadata().ok()).map(|meta| meta.len() as usize).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn r112_the_log_stays_small_and_nothing_is_missing_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let engine = founded(dir.path()).await;
    let busy = engine.clone();
    let written = tokio::task::spawn_blocking(move || {
        let (idle, much) = (busy.acquire(1).unwrap(), busy.acquire(0).unwrap());
        busy.commit(put(1, idle, 0, 10)).unwrap();
        for n in 0..512 {
            busy.commit(put(0, much, n, MIB / 8)).unwrap();
        }
        512 * MIB / 8
    });
    let written = written.await.unwrap();
    let log = dir.path().join("log");
    let begun = Instant::now();
    let mut interval = tokio::time::interval(Duration::from_millis(50));
    while size_of(&log) > written / 2 {
        assert!(begun.elapsed() < PATIENCE, "{} of {written} bytes are still there", size_of(&log));
        interval.tick().await;
    }
    assert!(size_of(&log) > 12 * MIB, "what is new stays for nodes that are away for a while");
    let stats = engine.stats();
    assert!(stats.log_bytes > 12 * MIB as u64, "{stats:?}");
    assert!(stats.disk_bytes > stats.log_bytes, "{stats:?}");
    let closing = engine.clone();
    tokio::task::spawn_blocking(move || closing.close()).await.unwrap().unwrap();
    drop(engine);
    let engine = founded(dir.path()).await;
    let view = engine.view();
    for n in 0..512 {
        assert!(view.get(Family::Job, &key(0, n)).unwrap().is_some(), "{n}");
    }
    assert!(view.get(Family::Job, &key(1, 0)).unwrap().is_some(), "of the idle one");
    tokio::task::spawn_blocking(move || engine.close()).await.unwrap().unwrap();
}
