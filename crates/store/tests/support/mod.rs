//! What the tests of the engine on disk share.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::Command;

use bellwether_core::waist::{Batch, Family, Op, Shard, StoreError, Term};
use bellwether_store::{DiskEngine, DiskOptions, Engine};
use bytes::Bytes;

/// Settings that bring everything into play with little data.
pub fn small(dir: &Path) -> DiskOptions {
    DiskOptions { cache_bytes: 4 << 20, memtable_bytes_max: 256 << 10, ..DiskOptions::new(dir) }
}

pub fn key(shard: Shard, parts: &[u64]) -> Bytes {
    let mut key = shard.to_be_bytes().to_vec();
    parts.iter().for_each(|part| key.extend_from_slice(&part.to_be_bytes()));
    Bytes::from(key)
}

pub fn put(family: Family, key: Bytes, value: impl Into<Bytes>) -> Op {
    let value = value.into();
    Op::Put { family, key, value }
}

pub fn commit(
    engine: &DiskEngine,
    shard: Shard,
    term: Term,
    ops: Vec<Op>,
) -> Result<(), StoreError> {
    engine.commit(Batch { shard, term, ops })
}

pub fn count(engine: &DiskEngine, family: Family, shard: Shard) -> usize {
    let view = engine.view();
    let rows = view.scan(family, &key(shard, &[]), &key(shard + 1, &[]));
    rows.inspect(|row| assert!(row.is_ok())).count()
}

/// Bytes that do not compress, the same for the same seed.
pub fn noise(seed: u64, len: usize) -> Bytes {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// A command that runs one ignored test of this very binary, as a process of its own.
pub fn child(test: &str) -> Vec<String> {
    let program = std::env::current_exe().expect("a test knows its binary");
    let program = program.to_str().expect("a path in UTF-8").to_owned();
    [program.as_str(), "--exact", test, "--ignored", "--nocapture"].map(str::to_owned).to_vec()
}

pub fn command(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// The newest journal of a store.
pub fn journal(dir: &Path) -> PathBuf {
    let number = |path: &PathBuf| -> u64 {
        let stem = path.file_stem().and_then(|s| s.to_str());
        stem.and_then(|s| s.parse().ok()).expect("a journal has a number")
    };
    let entries = std::fs::read_dir(dir.join("db")).expect("the database is there");
    let paths = entries.map(|entry| entry.expect("a directory can be read").path());
    let journals = paths.filter(|path| path.extension().is_some_and(|x| x == "jnl"));
    journals.max_by_key(number).expect("there is a journal")
}
