//! Batches: whole or not at all, in order, for any key and value.

use std::sync::Arc;
use std::thread;

use bellwether_core::waist::{Family, Op};
use bytes::Bytes;

use super::{Check, Opener, acquire, commit, delete, end, key, put, rows, value};

pub(super) const CHECKS: &[Check] = &[
    ("a batch spans families", a_batch_spans_families),
    ("the later operation on a key wins", the_later_operation_wins),
    ("deleting what is not there is fine", deleting_nothing_is_fine),
    ("short and binary keys", short_and_binary_keys),
    ("empty and large values", empty_and_large_values),
    ("an empty batch is committed", an_empty_batch_is_committed),
    ("shards do not see each other", shards_do_not_see_each_other),
    ("many shards write at the same time", many_shards_at_once),
    ("dropping a range leaves the rest", dropping_a_range_leaves_the_rest),
];

fn a_batch_spans_families(mut open: Opener) {
    let engine = open();
    let term = acquire(&*engine, 1);
    let ops = Family::ALL.map(|f| put(f, key(1, "k"), f.name()));
    commit(&*engine, 1, term, ops.to_vec());
    for family in Family::ALL {
        let found = value(&*engine, family, &key(1, "k"));
        assert_eq!(found, Some(Bytes::from(family.name())), "{family:?}");
    }
}

fn the_later_operation_wins(mut open: Opener) {
    let engine = open();
    let term = acquire(&*engine, 1);
    let (a, b, c) = (key(1, "a"), key(1, "b"), key(1, "c"));
    let ops = vec![
        put(Family::Job, a.clone(), "1"),
        delete(Family::Job, a.clone()),
        put(Family::Job, a.clone(), "2"),
        put(Family::Job, b.clone(), "1"),
        delete(Family::Job, b.clone()),
        put(Family::Job, c.clone(), "1"),
        put(Family::Job, c.clone(), "2"),
    ];
    commit(&*engine, 1, term, ops);
    let check = |engine: &dyn crate::Engine| {
        assert_eq!(value(engine, Family::Job, &a), Some(Bytes::from("2")));
        assert_eq!(value(engine, Family::Job, &b), None);
        assert_eq!(value(engine, Family::Job, &c), Some(Bytes::from("2")));
        assert_eq!(rows(engine, Family::Job, 1).len(), 2);
    };
    check(&*engine);
    engine.close().expect("closes");
    drop(engine);
    check(&*open());
}

fn deleting_nothing_is_fine(mut open: Opener) {
    let engine = open();
    let term = acquire(&*engine, 1);
    commit(&*engine, 1, term, vec![delete(Family::Tag, key(1, "x"))]);
    assert_eq!(value(&*engine, Family::Tag, &key(1, "x")), None);
    assert!(rows(&*engine, Family::Tag, 1).is_empty());
}

fn short_and_binary_keys(mut open: Opener) {
    let engine = open();
    for shard in [0, 1, 0x00FF, 0x0100, 0xFFFE] {
        let term = acquire(&*engine, shard);
        let mut suffixes: Vec<Vec<u8>> = vec![vec![], vec![0], vec![0, 0], vec![0xFF; 40]];
        suffixes.extend((0..=255u8).map(|byte| vec![1, byte]));
        suffixes.push(vec![7; 4_000]);
        let ops = suffixes.iter().map(|s| put(Family::Key, key(shard, s), s.clone()));
        commit(&*engine, shard, term, ops.collect());
        suffixes.sort();
        let found: Vec<_> = rows(&*engine, Family::Key, shard);
        let expected = suffixes.iter().map(|s| (key(shard, s), Bytes::from(s.clone())));
        assert_eq!(found, expected.collect::<Vec<_>>(), "shard {shard}");
    }
}

fn empty_and_large_values(mut open: Opener) {
    let engine = open();
    let term = acquire(&*engine, 1);
    let large: Bytes =
        (0..1u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let ops = vec![
        put(Family::Output, key(1, "empty"), ""),
        put(Family::Output, key(1, "large"), large.clone()),
        put(Family::Output, key(1, "zeros"), vec![0; 1 << 20]),
    ];
    commit(&*engine, 1, term, ops);
    let check = |engine: &dyn crate::Engine| {
        assert_eq!(value(engine, Family::Output, &key(1, "empty")), Some(Bytes::new()));
        assert!(value(engine, Family::Output, &key(1, "large")) == Some(large.clone()));
        assert!(value(engine, Family::Output, &key(1, "zeros")) == Some(vec![0; 1 << 20].into()));
    };
    check(&*engine);
    engine.close().expect("closes");
    drop(engine);
    check(&*open());
}

fn an_empty_batch_is_committed(mut open: Opener) {
    let engine = open();
    let term = acquire(&*engine, 1);
    commit(&*engine, 1, term, vec![]);
}

fn shards_do_not_see_each_other(mut open: Opener) {
    let engine = open();
    for shard in 4..8 {
        let term = acquire(&*engine, shard);
        let name = format!("of {shard}");
        commit(&*engine, shard, term, vec![put(Family::Due, key(shard, "k"), name)]);
    }
    let term = acquire(&*engine, 5);
    commit(&*engine, 5, term, vec![delete(Family::Due, key(5, "k"))]);
    for shard in [4, 6, 7] {
        let expected = (key(shard, "k"), Bytes::from(format!("of {shard}")));
        assert_eq!(rows(&*engine, Family::Due, shard), vec![expected]);
    }
    assert!(rows(&*engine, Family::Due, 5).is_empty());
}

fn many_shards_at_once(mut open: Opener) {
    const BATCHES: u32 = 40;
    let engine = open();
    let threads: Vec<_> = (0..16u16)
        .map(|shard| {
            let engine = Arc::clone(&engine);
            thread::spawn(move || {
                let term = acquire(&*engine, shard);
                for n in 0..BATCHES {
                    let ops = vec![
                        put(Family::Active, key(shard, n.to_be_bytes()), "run"),
                        put(Family::State, key(shard, "last"), n.to_be_bytes().to_vec()),
                    ];
                    commit(&*engine, shard, term, ops);
                    let view = engine.view();
                    let last = view.get(Family::State, &key(shard, "last")).expect("reads");
                    assert_eq!(last.as_deref(), Some(&n.to_be_bytes()[..]), "own writes are seen");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().expect("a shard's thread"));
    for shard in 0..16 {
        assert_eq!(rows(&*engine, Family::Active, shard).len(), BATCHES as usize);
    }
}

fn dropping_a_range_leaves_the_rest(mut open: Opener) {
    let engine = open();
    let family = Family::History;
    let name = |n: u32| format!("{n:04}");
    for shard in [2, 3, 4] {
        let term = acquire(&*engine, shard);
        let ops = (0..100).map(|n| put(family, key(shard, name(n)), name(n)));
        commit(&*engine, shard, term, ops.collect());
    }
    let term = acquire(&*engine, 3);
    let held = engine.view();
    let before = collect_all(&*held, family);
    let drop_range = Op::DropRange { family, from: key(3, name(20)), to: key(3, name(60)) };
    commit(&*engine, 3, term, vec![drop_range, put(family, key(3, name(200)), "new")]);
    let view = engine.view();
    for shard in [2, 4] {
        assert_eq!(rows(&*engine, family, shard).len(), 100, "shard {shard} is untouched");
    }
    for n in (0..20).chain(60..100) {
        let found = view.get(family, &key(3, name(n))).expect("reads");
        assert_eq!(found, Some(Bytes::from(name(n))), "row {n} lies outside the range");
    }
    assert_eq!(view.get(family, &key(3, name(200))).expect("reads"), Some(Bytes::from("new")));
    assert_eq!(collect_all(&*held, family).len(), before.len(), "a view that is held stays");
}

fn collect_all(
    view: &dyn bellwether_core::waist::View,
    family: Family,
) -> Vec<bellwether_core::waist::Row> {
    super::collect(view.scan(family, &key(0, ""), &end(0xFFFE)))
}
