//! R70, R111: kill -9 at random moments loses nothing that was acknowledged and leaves no batch
//! in part. A real process writes; the test kills it and looks at what it finds.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::thread;

use bellwether_core::waist::{Family, Op, Shard};
use bellwether_store::{DiskEngine, Engine};
use rand::Rng;

use support::{child, command, commit, key, noise, put, small};

const DIR: &str = "STORE_CRASH_DIR";
const SHARDS: u16 = 4;
const ROWS: u64 = 6;
const ROUNDS: u32 = 25;

/// Batch `n` of a shard: rows in three families, and the due entry of the batch before goes.
fn ops(shard: Shard, n: u64) -> Vec<Op> {
    let mut ops = Vec::new();
    for row in 0..ROWS {
        let value = noise(n * 31 + row, 300);
        ops.push(put(Family::Active, key(shard, &[n, row]), value.clone()));
        ops.push(put(Family::History, key(shard, &[row, n]), value));
    }
    ops.push(put(Family::Due, key(shard, &[n]), "due"));
    if n > 1 {
        ops.push(Op::Delete { family: Family::Due, key: key(shard, &[n - 1]) });
    }
    ops
}

#[test]
#[ignore = "run by r70_kill_9_loses_no_acknowledged_batch_and_leaves_none_in_part"]
fn child_writes_until_it_is_killed() {
    let dir = std::env::var(DIR).unwrap();
    let engine = Arc::new(DiskEngine::open(small(Path::new(&dir))).unwrap());
    let threads: Vec<_> = (0..SHARDS)
        .map(|shard| {
            let engine = Arc::clone(&engine);
            thread::spawn(move || {
                let term = engine.acquire(shard).unwrap();
                for n in last_batch(&engine, shard) + 1.. {
                    commit(&engine, shard, term, ops(shard, n)).unwrap();
                    println!("ack {shard} {n}");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
}

fn last_batch(engine: &DiskEngine, shard: Shard) -> u64 {
    let view = engine.view();
    let mut newest = view.scan_back(Family::Due, &key(shard, &[]), &key(shard + 1, &[]));
    let row = newest.next().map(|row| row.unwrap().0);
    row.map_or(0, |key| u64::from_be_bytes(key[2..10].try_into().unwrap()))
}

/// Lets a child write until it has acknowledged a random number of batches, and kills it.
/// Returns the last batch it acknowledged, by shard.
fn write_and_kill(dir: &Path, rng: &mut impl Rng) -> [u64; SHARDS as usize] {
    let mut writer = command(&child("child_writes_until_it_is_killed"))
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    let mut acknowledged = [0; SHARDS as usize];
    let mut note = |line: String| {
        let mut words = line.split(' ').skip_while(|word| *word != "ack").skip(1);
        if let (Some(shard), Some(n)) = (words.next(), words.next()) {
            let shard: usize = shard.parse().unwrap();
            acknowledged[shard] = n.parse().unwrap();
        }
    };
    for line in lines.by_ref().take(rng.random_range(1..400)) {
        note(line.unwrap());
    }
    writer.kill().unwrap();
    // What it printed before it died counts as acknowledged too. A last line may be cut short,
    // and then names a smaller number or none, which is no worse.
    lines.map_while(Result::ok).for_each(note);
    writer.wait().unwrap();
    acknowledged
}

fn check(engine: &DiskEngine, shard: Shard, acknowledged: u64) {
    let last = last_batch(engine, shard);
    assert!(
        last >= acknowledged,
        "shard {shard}: {acknowledged} was acknowledged, {last} is there"
    );
    let view = engine.view();
    let all =
        |family| view.scan(family, &key(shard, &[]), &key(shard + 1, &[])).map(Result::unwrap);
    assert_eq!(all(Family::Due).count(), usize::from(last > 0), "shard {shard}: deletes are whole");
    let expected = usize::try_from(last * ROWS).unwrap();
    assert_eq!(all(Family::Active).count(), expected, "shard {shard}: active rows");
    assert_eq!(all(Family::History).count(), expected, "shard {shard}: history rows");
    for (found, value) in all(Family::Active) {
        let n = u64::from_be_bytes(found[2..10].try_into().unwrap());
        let row = u64::from_be_bytes(found[10..18].try_into().unwrap());
        assert_eq!(value, noise(n * 31 + row, 300), "shard {shard}: batch {n}, row {row}");
    }
}

#[test]
fn r70_kill_9_loses_no_acknowledged_batch_and_leaves_none_in_part() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("data");
    let mut rng = rand::rng();
    let mut terms = [0; SHARDS as usize];
    for round in 0..ROUNDS {
        let acknowledged = write_and_kill(&dir, &mut rng);
        let engine = DiskEngine::open(small(&dir)).unwrap();
        for shard in 0..SHARDS {
            check(&engine, shard, acknowledged[usize::from(shard)]);
            let term = engine.acquire(shard).unwrap();
            let before = std::mem::replace(&mut terms[usize::from(shard)], term);
            assert!(term > before, "round {round}: a term came back");
        }
        engine.close().unwrap();
    }
}
