//! Opening, closing, and what is there afterwards.

use std::sync::Arc;

use bellwether_core::waist::{Family, StoreError};
use bytes::Bytes;

use super::{Check, Opener, acquire, batch, commit, delete, key, put, rows, value};

pub(super) const CHECKS: &[Check] = &[
    ("a new store is empty", a_new_store_is_empty),
    ("what was written is there after a restart", what_was_written_is_there),
    ("a closed store refuses", a_closed_store_refuses),
    ("closing writes what was submitted", closing_writes_what_was_submitted),
    ("figures are counted", figures_are_counted),
];

fn a_new_store_is_empty(mut open: Opener) {
    let engine = open();
    for family in Family::ALL {
        // What an engine keeps for itself has a zero for its third byte.
        let of_others = rows(&*engine, family, 0).into_iter().filter(|(key, _)| key[2] != 0);
        assert_eq!(of_others.count(), 0, "{family:?}");
    }
    assert_eq!(engine.stats().batches, 0);
}

fn what_was_written_is_there(mut open: Opener) {
    for round in 0..3u32 {
        let engine = open();
        for earlier in 0..round {
            let found = rows(&*engine, Family::History, 1);
            assert_eq!(found.len(), round as usize * 100, "round {round}");
            let gone = value(&*engine, Family::Due, &key(1, earlier.to_be_bytes()));
            assert_eq!(gone, None, "a deleted row stays deleted");
        }
        let term = acquire(&*engine, 1);
        let ops = (0..100u32).map(|n| {
            let name = [round.to_be_bytes(), n.to_be_bytes()].concat();
            put(Family::History, key(1, name), "run")
        });
        commit(&*engine, 1, term, ops.collect());
        commit(&*engine, 1, term, vec![put(Family::Due, key(1, round.to_be_bytes()), "due")]);
        commit(&*engine, 1, term, vec![delete(Family::Due, key(1, round.to_be_bytes()))]);
        engine.close().expect("closes");
    }
}

fn a_closed_store_refuses(mut open: Opener) {
    let engine = open();
    let term = acquire(&*engine, 1);
    commit(&*engine, 1, term, vec![put(Family::Job, key(1, "k"), "v")]);
    engine.close().expect("closes");
    engine.close().expect("closing twice is fine");
    let late = engine.commit(batch(1, term, vec![put(Family::Job, key(1, "k"), "late")]));
    assert!(matches!(late, Err(StoreError::Closed)), "{late:?}");
    assert!(matches!(engine.acquire(1), Err(StoreError::Closed)));
    assert_eq!(value(&*engine, Family::Job, &key(1, "k")), Some(Bytes::from("v")));
}

fn closing_writes_what_was_submitted(mut open: Opener) {
    let engine = open();
    let term = acquire(&*engine, 1);
    let (sender, outcomes) = crossbeam_channel::unbounded();
    for n in 0..100u32 {
        let sender = sender.clone();
        let ops = vec![put(Family::Job, key(1, n.to_be_bytes()), "v")];
        let done = Box::new(move |result| sender.send(result).expect("somebody listens"));
        engine.submit(batch(1, term, ops), done);
    }
    drop(sender);
    engine.close().expect("closes");
    assert_eq!(outcomes.iter().filter(Result::is_ok).count(), 100);
    drop(engine);
    assert_eq!(rows(&*open(), Family::Job, 1).len(), 100);
}

fn figures_are_counted(mut open: Opener) {
    let engine = open();
    let old = acquire(&*engine, 1);
    let term = acquire(&*engine, 1);
    commit(
        &*engine,
        1,
        term,
        vec![put(Family::Job, key(1, "k"), "v"), delete(Family::Due, key(1, "k"))],
    );
    let fenced = engine.commit(batch(1, old, vec![]));
    assert!(fenced.is_err());
    let stats = Arc::clone(&engine).stats();
    assert_eq!((stats.batches, stats.batches_fenced), (1, 1));
    assert!(stats.ops >= 2 && stats.bytes > 0 && stats.syncs > 0);
    assert_eq!(stats.queue_len, 0);
    assert_eq!(stats.failure, None);
    assert_eq!(stats.families.len(), Family::ALL.len());
}
