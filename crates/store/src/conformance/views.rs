//! Views: consistent, unchanging, scanned in both directions within bounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bellwether_core::waist::Family;
use bytes::Bytes;

use super::{Check, Opener, acquire, collect, commit, delete, end, key, put};

pub(super) const CHECKS: &[Check] = &[
    ("scans keep their bounds", scans_keep_their_bounds),
    ("scans find nothing where nothing is", scans_find_nothing),
    ("a view does not change", a_view_does_not_change),
    ("a view shows batches whole", a_view_shows_batches_whole),
    ("a scan is not disturbed by writes", a_scan_is_not_disturbed),
];

fn scans_keep_their_bounds(mut open: Opener) {
    let engine = open();
    let term = acquire(&*engine, 1);
    let name = |n: u32| key(1, format!("{n:03}"));
    let ops = (0..100).map(|n| put(Family::Tick, name(n * 2), "tick"));
    commit(&*engine, 1, term, ops.collect());
    let view = engine.view();
    let cases = [(0, 200), (10, 11), (11, 12), (10, 10), (20, 40), (21, 39), (198, 500), (0, 1)];
    for (from, to) in cases {
        let expected: Vec<_> =
            (0..200).step_by(2).filter(|n| (from..to).contains(n)).map(name).collect();
        let ahead = collect(view.scan(Family::Tick, &name(from), &name(to)));
        let keys: Vec<_> = ahead.iter().map(|(key, _)| key.clone()).collect();
        assert_eq!(keys, expected, "{from}..{to}");
        let mut back = collect(view.scan_back(Family::Tick, &name(from), &name(to)));
        back.reverse();
        assert_eq!(back, ahead, "{from}..{to} backwards");
    }
}

fn scans_find_nothing(mut open: Opener) {
    let engine = open();
    let term = acquire(&*engine, 1);
    commit(&*engine, 1, term, vec![put(Family::Job, key(1, "k"), "v")]);
    let view = engine.view();
    assert!(collect(view.scan(Family::Dead, &key(1, ""), &end(1))).is_empty());
    assert!(collect(view.scan(Family::Job, &key(2, ""), &end(2))).is_empty());
    let inverted = collect(view.scan(Family::Job, &end(1), &key(1, "")));
    assert!(inverted.is_empty(), "an inverted range is empty");
    assert!(collect(view.scan_back(Family::Job, &end(1), &key(1, ""))).is_empty());
}

fn a_view_does_not_change(mut open: Opener) {
    let engine = open();
    let term = acquire(&*engine, 1);
    let (kept, gone) = (key(1, "kept"), key(1, "gone"));
    let ops = vec![put(Family::Job, kept.clone(), "1"), put(Family::Job, gone.clone(), "1")];
    commit(&*engine, 1, term, ops);
    let held = engine.view();
    for n in 0..50 {
        let ops = vec![
            put(Family::Job, kept.clone(), format!("later {n}")),
            delete(Family::Job, gone.clone()),
            put(Family::Job, key(1, format!("new {n}")), "new"),
        ];
        commit(&*engine, 1, term, ops);
    }
    assert_eq!(held.get(Family::Job, &kept).expect("reads"), Some(Bytes::from("1")));
    assert_eq!(held.get(Family::Job, &gone).expect("reads"), Some(Bytes::from("1")));
    assert_eq!(collect(held.scan(Family::Job, &key(1, ""), &end(1))).len(), 2);
    let now = engine.view();
    assert_eq!(now.get(Family::Job, &kept).expect("reads"), Some(Bytes::from("later 49")));
    assert_eq!(collect(now.scan(Family::Job, &key(1, ""), &end(1))).len(), 51);
}

fn a_view_shows_batches_whole(mut open: Opener) {
    let engine = open();
    let term = acquire(&*engine, 1);
    let places = [Family::Due, Family::Index, Family::Active, Family::History];
    let write = |n: u32| {
        let puts = places.map(|f| put(f, key(1, "n"), n.to_be_bytes().to_vec()));
        commit(&*engine, 1, term, puts.to_vec());
    };
    write(0);
    let stop = Arc::new(AtomicBool::new(false));
    let reader = thread::spawn({
        let (engine, stop) = (Arc::clone(&engine), Arc::clone(&stop));
        move || {
            let mut last = Bytes::new();
            while !stop.load(Ordering::Relaxed) {
                let view = engine.view();
                let found =
                    places.map(|f| view.get(f, &key(1, "n")).expect("reads").expect("is there"));
                assert!(
                    found.iter().all(|v| *v == found[0]),
                    "a batch was seen in part: {found:?}"
                );
                assert!(found[0] >= last, "a later view shows an earlier state");
                last = found[0].clone();
            }
        }
    });
    (1..300).for_each(write);
    stop.store(true, Ordering::Relaxed);
    reader.join().expect("the reader found nothing wrong");
}

fn a_scan_is_not_disturbed(mut open: Opener) {
    let engine = open();
    let term = acquire(&*engine, 1);
    let name = |n: u32| key(1, n.to_be_bytes());
    let ops = (0..500).map(|n| put(Family::Due, name(n), "due"));
    commit(&*engine, 1, term, ops.collect());
    let view = engine.view();
    let mut found = 0;
    for (n, row) in view.scan(Family::Due, &key(1, ""), &end(1)).enumerate() {
        let (row_key, _) = row.expect("a row can be read");
        let n = u32::try_from(n).expect("is small");
        assert_eq!(row_key, name(n));
        if n % 100 == 0 {
            let ops =
                vec![delete(Family::Due, name(n + 1)), put(Family::Due, name(1_000 + n), "late")];
            commit(&*engine, 1, term, ops);
        }
        found += 1;
    }
    assert_eq!(found, 500);
}
