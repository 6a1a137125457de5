//! Callbacks: exactly once, in order, after the batch is visible.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bellwether_core::waist::Family;
use bytes::Bytes;

use super::{Check, Opener, acquire, batch, key, put, rows};
use crate::engine::Engine;

pub(super) const CHECKS: &[Check] = &[
    ("callbacks come once, in order", callbacks_come_once_in_order),
    ("a callback sees its batch", a_callback_sees_its_batch),
    ("a callback may submit", a_callback_may_submit),
    ("backpressure does not lose anything", backpressure_loses_nothing),
];

fn callbacks_come_once_in_order(mut open: Opener) {
    let engine = open();
    let (old, other) = (acquire(&*engine, 1), acquire(&*engine, 2));
    let term = acquire(&*engine, 1);
    let (sender, outcomes) = crossbeam_channel::unbounded();
    for n in 0..200u32 {
        // Every fifth is refused, and keeps its place all the same.
        let (shard, term) = match n % 5 {
            0 => (1, old),
            1 => (2, other),
            _ => (1, term),
        };
        let ops = vec![put(Family::Job, key(shard, n.to_be_bytes()), "v")];
        let sender = sender.clone();
        let done = Box::new(move |result: Result<_, _>| {
            sender.send((n, result.is_ok())).expect("somebody listens");
        });
        engine.submit(batch(shard, term, ops), done);
    }
    drop(sender);
    let outcomes: Vec<_> = outcomes.iter().collect();
    let of_shard =
        |wanted: u32| outcomes.iter().filter(move |(n, _)| u32::from(n % 5 == 1) == wanted);
    assert!(of_shard(0).is_sorted() && of_shard(1).is_sorted(), "in order: {outcomes:?}");
    assert_eq!(outcomes.len(), 200, "each exactly once");
    for (n, ok) in outcomes {
        assert_eq!(ok, n % 5 != 0, "batch {n}");
    }
}

fn a_callback_sees_its_batch(mut open: Opener) {
    let engine = open();
    let term = acquire(&*engine, 1);
    let (sender, seen) = crossbeam_channel::unbounded();
    for n in 0..50u32 {
        let sender = sender.clone();
        let reader = Arc::clone(&engine);
        let done = Box::new(move |result: Result<_, _>| {
            let found = reader.view().get(Family::Job, &key(1, n.to_be_bytes()));
            sender.send((result.is_ok(), found)).expect("somebody listens");
        });
        let ops = vec![put(Family::Job, key(1, n.to_be_bytes()), "v")];
        engine.submit(batch(1, term, ops), done);
    }
    drop(sender);
    for (ok, found) in seen.iter() {
        assert!(ok);
        assert_eq!(found.expect("reads"), Some(Bytes::from("v")));
    }
}

fn a_callback_may_submit(mut open: Opener) {
    fn chain(engine: &Arc<dyn Engine>, term: u64, left: u32, last: crossbeam_channel::Sender<()>) {
        let next = Arc::clone(engine);
        let ops = vec![put(Family::Job, key(1, left.to_be_bytes()), "v")];
        let done = Box::new(move |result: Result<_, _>| {
            assert!(result.is_ok());
            match left.checked_sub(1) {
                Some(left) => chain(&next, term, left, last),
                None => last.send(()).expect("somebody listens"),
            }
        });
        engine.submit(batch(1, term, ops), done);
    }
    let engine = open();
    let term = acquire(&*engine, 1);
    let (sender, finished) = crossbeam_channel::bounded(1);
    chain(&engine, term, 20, sender);
    finished.recv().expect("the chain comes to its end");
    assert_eq!(rows(&*engine, Family::Job, 1).len(), 21);
}

fn backpressure_loses_nothing(mut open: Opener) {
    let engine = open();
    let term = acquire(&*engine, 1);
    let answered = Arc::new(AtomicU32::new(0));
    let payload = Bytes::from(vec![b'x'; 64 << 10]);
    let (sender, last) = crossbeam_channel::bounded(1);
    for n in 0..1_000u32 {
        let (answered, sender) = (Arc::clone(&answered), sender.clone());
        let done = Box::new(move |result: Result<_, _>| {
            assert!(result.is_ok());
            if answered.fetch_add(1, Ordering::Relaxed) + 1 == 1_000 {
                sender.send(()).expect("somebody listens");
            }
        });
        let ops = vec![put(Family::Output, key(1, n.to_be_bytes()), payload.clone())];
        engine.submit(batch(1, term, ops), done);
    }
    last.recv().expect("all are answered");
    assert_eq!(rows(&*engine, Family::Output, 1).len(), 1_000);
}
