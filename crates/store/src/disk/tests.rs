//! Tests that make upkeep go round when they say so, rather than wait for it.

use bellwether_core::waist::{Family, Op};
use bytes::Bytes;
use fjall::Readable;
use lsm_tree::AbstractTree;

use super::*;

const MIB: u64 = 1 << 20;

fn open(dir: &tempfile::TempDir) -> DiskEngine {
    DiskEngine::open(DiskOptions {
        cache_bytes: 4 * MIB,
        memtable_bytes_max: 8 * MIB,
        journal_bytes: 64 * MIB,
        journal_lag_bytes: 32 * MIB,
        ..DiskOptions::new(dir.path())
    })
    .unwrap()
}

fn key(n: u64) -> Bytes {
    Bytes::from([&[0, 1, b'k'][..], &n.to_be_bytes()].concat())
}

fn put(family: Family, n: u64, value: Bytes) -> Op {
    let key = key(n);
    Op::Put { family, key, value }
}

impl DiskEngine {
    /// Waits until upkeep has done what it was asked, and has gone round once more.
    fn round(&self) {
        let (sender, done) = crossbeam_channel::bounded(1);
        let tasks = self.tasks.lock().clone().unwrap();
        tasks.send(upkeep::Task::Round(sender)).unwrap();
        done.recv().unwrap();
    }

    /// Writes a family's memtable out.
    fn flush(&self, family: Family) {
        self.shared.database.keyspace(family).rotate_memtable_and_wait().unwrap();
    }

    fn write(&self, term: Term, ops: Vec<Op>) {
        self.commit(Batch { shard: 1, term, ops }).unwrap();
    }
}

/// Writes `mib` to one family, in rows too short to be compressed in the journal.
fn write_history(engine: &DiskEngine, term: Term, from: u64, mib: u64) {
    let value = Bytes::from(vec![7; 4000]);
    for batch in 0..mib {
        let ops =
            (0..262).map(|row| put(Family::History, from + batch * 1000 + row, value.clone()));
        engine.write(term, ops.collect());
        if batch % 8 == 0 {
            engine.round();
        }
    }
}

#[test]
fn journals_stay_few_when_only_one_family_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&dir);
    let term = engine.acquire(1).unwrap();
    let one_each = Family::ALL.map(|family| put(family, 1, Bytes::from("once")));
    engine.write(term, one_each.to_vec());
    let mut most = 0;
    for part in 0..8 {
        write_history(&engine, term, part << 32, 60);
        most = most.max(engine.stats().journal_count);
    }
    assert!(most <= 4, "{most} journals");
    assert!(engine.stats().memtables_rotated >= 13, "the other families were written out");
}

#[test]
fn journals_stay_few_when_a_family_is_compacted_to_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&dir);
    let term = engine.acquire(1).unwrap();
    engine.write(term, vec![put(Family::Active, 1, Bytes::from("run"))]);
    engine.flush(Family::Active);
    engine.write(term, vec![Op::Delete { family: Family::Active, key: key(1) }]);
    engine.flush(Family::Active);
    let active = engine.shared.database.keyspace(Family::Active);
    active.tree.major_compact(64 * MIB, u64::MAX).unwrap();
    assert_eq!(active.table_count(), 0, "nothing is left to say how far it was written");
    let mut most = 0;
    for part in 0..8 {
        write_history(&engine, term, part << 32, 60);
        most = most.max(engine.stats().journal_count);
    }
    assert!(most <= 5, "{most} journals");
}

#[test]
fn a_dropped_range_frees_its_tables_and_leaves_views_alone() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&dir);
    let term = engine.acquire(1).unwrap();
    let value = Bytes::from(vec![7; 100]);
    for part in 0..3 {
        let rows = (0..1000).map(|n| put(Family::History, part * 1000 + n, value.clone()));
        engine.write(term, rows.collect());
        engine.flush(Family::History);
    }
    let held = engine.view();
    let (from, to) = (key(1000), key(2000));
    engine.write(term, vec![Op::DropRange { family: Family::History, from, to }]);
    engine.round();
    // The next commit publishes a view of the tables that are left.
    engine.write(term, vec![put(Family::Job, 1, Bytes::from("v"))]);
    let rows = |view: &dyn View| {
        let keys = view.scan(Family::History, &[0, 1], &[0, 2]).map(|row| row.unwrap().0);
        keys.collect::<Vec<_>>()
    };
    let now = rows(&*engine.view());
    assert_eq!(now.len(), 2000, "the table within the range is gone");
    assert!(now.iter().all(|k| *k < key(1000) || *k >= key(2000)));
    assert_eq!(rows(&*held).len(), 3000, "a view that is held still sees it");
    assert_eq!(engine.stats().ranges_dropped, 1);
    drop((now, held));
    drop(engine);
    assert_eq!(rows(&*open(&dir).view()).len(), 2000, "it stays gone");
}

#[test]
fn the_later_write_wins_in_tables_too() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&dir);
    let term = engine.acquire(1).unwrap();
    let delete = |n| Op::Delete { family: Family::Job, key: key(n) };
    let ops = vec![
        put(Family::Job, 1, Bytes::from("1")),
        delete(1),
        put(Family::Job, 1, Bytes::from("2")),
        put(Family::Job, 2, Bytes::from("1")),
        delete(2),
    ];
    engine.write(term, ops);
    engine.flush(Family::Job);
    let view = engine.view();
    assert_eq!(view.get(Family::Job, &key(1)).unwrap(), Some(Bytes::from("2")));
    assert_eq!(view.get(Family::Job, &key(2)).unwrap(), None);
}

#[test]
fn the_marker_row_is_nobodys() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&dir);
    engine.shared.database.touch(Family::Job).unwrap();
    engine.acquire(1).unwrap();
    let view = engine.view();
    let end = [0xFF; 4];
    assert_eq!(view.scan(Family::Job, &[0, 0], &end).count(), 0, "no shard sees it");
    let stored = engine.shared.database.fjall().snapshot();
    assert_eq!(stored.iter(engine.shared.database.keyspace(Family::Job)).count(), 1);
}

/// R111. A writer that panics in the middle of a commit leaves nobody waiting.
#[test]
fn r111_a_failed_engine_answers_what_was_in_flight() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&dir);
    let term = engine.acquire(1).unwrap();
    let empty = move || Batch { shard: 1, term, ops: Vec::new() };
    let (sender, answers) = crossbeam_channel::unbounded();
    let shared = engine.shared.clone();
    let done: crate::Done = Box::new(move |result| {
        let again = queue::Request::Write(empty(), Box::new(|_| {}));
        sender.send((result, shared.queue.push(again).is_ok())).unwrap();
    });
    engine.shared.in_flight.lock().push(writer::Reply::Write(done, Ok(())));
    engine.shared.fail(&StoreError::Failed("the writer of the store panicked".to_owned()));
    let (result, let_in_again) = answers.try_recv().unwrap();
    assert!(matches!(result, Err(StoreError::Failed(_))) && !let_in_again);
    assert!(matches!(engine.commit(empty()), Err(StoreError::Failed(_))));
}
