//! Fencing: a batch whose term is not the newest changes nothing.

use bellwether_core::waist::{Family, StoreError};
use bytes::Bytes;

use super::{Check, Opener, acquire, batch, commit, key, put, rows, value};
use crate::rules::meta_term_key;

pub(super) const CHECKS: &[Check] = &[
    ("terms rise", terms_rise),
    ("terms rise over a restart", terms_rise_over_a_restart),
    ("a stale term changes nothing", a_stale_term_changes_nothing),
    ("a term nobody acquired is refused", an_unknown_term_is_refused),
    ("fencing one shard leaves others", fencing_one_shard_leaves_others),
    ("a term is where it is documented", a_term_is_where_documented),
];

fn terms_rise(mut open: Opener) {
    let engine = open();
    let mut last = 0;
    for _ in 0..5 {
        let term = acquire(&*engine, 9);
        assert!(term > last, "{term} comes after {last}");
        last = term;
    }
}

fn terms_rise_over_a_restart(mut open: Opener) {
    let mut last = 0;
    for round in 0..4 {
        let engine = open();
        let stale = engine.commit(batch(9, last, vec![put(Family::Job, key(9, "x"), "x")]));
        if round > 0 {
            stale.expect("a restart alone does not make a term void");
        }
        let term = acquire(&*engine, 9);
        assert!(term > last, "{term} comes after {last}");
        last = term;
        engine.close().expect("closes");
    }
}

fn a_stale_term_changes_nothing(mut open: Opener) {
    let engine = open();
    let old = acquire(&*engine, 1);
    commit(&*engine, 1, old, vec![put(Family::Job, key(1, "k"), "old")]);
    let new = acquire(&*engine, 1);
    let ops = vec![put(Family::Job, key(1, "k"), "stale"), put(Family::Due, key(1, "k"), "stale")];
    match engine.commit(batch(1, old, ops)) {
        Err(StoreError::Fenced { shard, held, newest }) => {
            assert_eq!((shard, held, newest), (1, old, new));
        }
        other => panic!("a stale batch got {other:?}"),
    }
    assert_eq!(value(&*engine, Family::Job, &key(1, "k")), Some(Bytes::from("old")));
    assert!(rows(&*engine, Family::Due, 1).is_empty());
    commit(&*engine, 1, new, vec![put(Family::Job, key(1, "k"), "new")]);
    assert_eq!(value(&*engine, Family::Job, &key(1, "k")), Some(Bytes::from("new")));
}

fn an_unknown_term_is_refused(mut open: Opener) {
    let engine = open();
    let ops = vec![put(Family::Job, key(1, "k"), "v")];
    let before_any = engine.commit(batch(1, 1, ops.clone()));
    assert!(matches!(before_any, Err(StoreError::Fenced { newest: 0, .. })), "{before_any:?}");
    let term = acquire(&*engine, 1);
    let ahead = engine.commit(batch(1, term + 1, ops));
    assert!(matches!(ahead, Err(StoreError::Fenced { .. })), "{ahead:?}");
    assert!(rows(&*engine, Family::Job, 1).is_empty());
}

fn fencing_one_shard_leaves_others(mut open: Opener) {
    let engine = open();
    let (one, two) = (acquire(&*engine, 1), acquire(&*engine, 2));
    acquire(&*engine, 1);
    assert!(engine.commit(batch(1, one, vec![])).is_err(), "even an empty batch is refused");
    commit(&*engine, 2, two, vec![put(Family::Job, key(2, "k"), "v")]);
    assert_eq!(value(&*engine, Family::Job, &key(2, "k")), Some(Bytes::from("v")));
}

fn a_term_is_where_documented(mut open: Opener) {
    let engine = open();
    let term = acquire(&*engine, 0x0102);
    let stored = value(&*engine, Family::Meta, &meta_term_key(0x0102));
    assert_eq!(stored.as_deref(), Some(&term.to_be_bytes()[..]));
}
