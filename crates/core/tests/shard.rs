//! What a leader does between turns: when it has something to do, and what it leaves to others.

#![allow(clippy::unwrap_used)]

#[path = "world/mod.rs"]
mod world;

use std::collections::BTreeSet;
use std::sync::Arc;

use bellwether_core::bounds::{Answer, Ask, Left, Limit, Limits};
use bellwether_core::settings::Settings;
use bellwether_core::shard::{Leading, Reserved, Slots, recover};
use bellwether_core::time::{HOUR_MS, MINUTE_MS, Time};
use bellwether_core::turn::{Effect, Ending, Input, Lane, Roster, Turnstile, load};
use bellwether_core::waist::{Op, Shard};

use world::worker::finished;
use world::{SHARD, Store, ZERO, job, t};

/// One worker with room for everything.
struct Room;

impl Slots for Room {
    fn roster(&self) -> Arc<Roster> {
        Arc::default()
    }
    fn reserve(&self, _: Shard, _: &Lane, _: Turnstile, want: usize) -> Option<Reserved> {
        Some(Reserved { worker: "w".into(), slots: want, others: 0 })
    }
    fn put_back(&self, _: &str, _: &Lane, _: usize) {}
    fn declare(&self, _: Shard, _: Vec<(Lane, Turnstile, usize)>) {}
}

/// A turn with these inputs: what is to be performed.
fn turn(leading: &mut Leading, store: &mut Store, now: Time, inputs: Vec<Input>) -> Vec<Effect> {
    let before = store.clone();
    let mut step = leading.begin(&before, now, &Room, false).unwrap();
    for input in inputs {
        step.decide(input).unwrap();
    }
    let decided = step.finish(&Room, false).unwrap();
    store.commit(&decided.ops);
    leading.committed(decided.effects)
}

fn leading(store: &Store) -> Leading {
    Leading::new(load(store, SHARD, 1, Settings::default()).unwrap(), ZERO)
}

#[test]
fn r101_a_shard_rests_until_something_is_due_and_launches_it_then() {
    let mut store = Store::default();
    let mut leading = leading(&store);
    let jobs = vec![job().at(t(30)).request()];
    let create = Input::Create { actor: "ana".to_owned(), jobs };
    let effects = turn(&mut leading, &mut store, ZERO, vec![create]);
    assert!(effects.is_empty(), "what is planned stays inside: {effects:?}");
    let rest_ms = leading.rest_ms(ZERO);
    assert!(rest_ms > 0 && rest_ms <= 30_000, "{rest_ms}");
    let effects = turn(&mut leading, &mut store, t(30), Vec::new());
    assert!(matches!(&effects[..], [Effect::Assign(start)] if start.scheduled == t(30)));
}

/// What one turn writes is one record of the log, and one message to each replica.
#[test]
fn r91_a_turn_writes_only_so_much_however_large_the_jobs_are() {
    const JOBS: usize = 1_000;
    let mut store = Store::default();
    let mut leading = leading(&store);
    let about = "x".repeat(100_000);
    let jobs = (0..JOBS).map(|_| job().at(t(30)).about(&about).request()).collect();
    turn(&mut leading, &mut store, ZERO, vec![Input::Create { actor: "ana".to_owned(), jobs }]);
    let mut launched = BTreeSet::new();
    let mut turns = 0;
    while launched.len() < JOBS {
        assert_eq!(leading.rest_ms(t(30)), 0, "there is more to do");
        let before = store.clone();
        let decided = leading.begin(&before, t(30), &Room, false).unwrap().finish(&Room, false);
        let decided = decided.unwrap();
        let bytes = decided.ops.iter().map(|op| match op {
            Op::Put { key, value, .. } => key.len() + value.len(),
            Op::Delete { key, .. } => key.len(),
            Op::DropRange { .. } => 0,
        });
        let bytes: usize = bytes.sum();
        assert!(bytes < 66 << 20, "{bytes} bytes in one turn");
        store.commit(&decided.ops);
        for effect in leading.committed(decided.effects) {
            let Effect::Assign(start) = effect else { continue };
            assert!(launched.insert(start.run), "{} is launched once", start.run);
        }
        turns += 1;
        assert!((1..20).contains(&turns), "{} launched", launched.len());
    }
    assert!(turns > 2, "{turns}");
}

#[test]
fn history_is_looked_at_every_minute_also_when_the_clock_is_set_back() {
    let mut store = Store::default();
    let mut leading = leading(&store);
    assert_eq!(leading.rest_ms(ZERO), 0, "it has yet to read what is due");
    turn(&mut leading, &mut store, ZERO, Vec::new());
    assert_eq!(leading.rest_ms(ZERO), MINUTE_MS, "nothing to do, but a clock may be set");
    // Something that is kept for a while: its class is to be looked at.
    let jobs = vec![job().at(ZERO).request()];
    let create = Input::Create { actor: "ana".to_owned(), jobs };
    let mut effects = turn(&mut leading, &mut store, ZERO, vec![create]);
    effects.extend(turn(&mut leading, &mut store, ZERO, Vec::new()));
    let [Effect::Assign(start)] = &effects[..] else { panic!("it is launched: {effects:?}") };
    let report = finished(start.run, start.token, ZERO, Ending::Succeeded);
    turn(&mut leading, &mut store, ZERO, vec![report]);
    assert_eq!(leading.rest_ms(t(10)), MINUTE_MS - 10_000);
    assert_eq!(leading.rest_ms(ZERO.minus_ms(HOUR_MS)), 0);
}

#[test]
fn r94_a_run_of_a_deleted_job_is_still_with_its_worker_after_a_take_over() {
    let mut store = Store::default();
    let mut leading = leading(&store);
    let jobs = vec![job().at(ZERO).request()];
    let create = Input::Create { actor: "ana".to_owned(), jobs };
    let mut effects = turn(&mut leading, &mut store, ZERO, vec![create]);
    effects.extend(turn(&mut leading, &mut store, ZERO, Vec::new()));
    let [Effect::Assign(start)] = &effects[..] else { panic!("it is launched: {effects:?}") };
    let delete = Input::Delete { actor: "ana".to_owned(), job: start.run.job };
    turn(&mut leading, &mut store, ZERO, vec![delete]);
    let mut memory = load(&store, SHARD, 2, Settings::default()).unwrap();
    let recovered = recover(&store, &mut memory, ZERO, None, &|_, _| None).unwrap();
    let [held] = &recovered.held[..] else { panic!("somebody has it: {recovered:?}") };
    assert_eq!((held.run, held.token, held.stop), (start.run, start.token, true));
    assert_eq!((held.worker.as_str(), &held.lane), ("w", &start.lane()));
}

/// What the keeper says to this: so much.
fn answer(ask: &Ask, ceiling: u64) -> Answer {
    let left = ask.wants.keys().map(|name| (name.clone(), Left { ceiling, launches: 0 }));
    let Ask { shard, term, queue, seq, .. } = ask.clone();
    Answer { shard, term, queue, seq: Some(seq), left: left.collect() }
}

#[test]
fn a_shard_launches_of_a_queue_with_bounds_what_it_was_left() {
    let mut store = Store::default();
    let mut leading = leading(&store);
    let limit = Limit { concurrency: Some(2), ..Limit::default() };
    leading.shares().set_limits(&Arc::new(Limits::from([("default".to_owned(), limit)])));
    let jobs = (0..4).map(|_| job().at(ZERO).request()).collect();
    let create = Input::Create { actor: "ana".to_owned(), jobs };
    let mut effects = turn(&mut leading, &mut store, ZERO, vec![create]);
    effects.extend(turn(&mut leading, &mut store, ZERO, Vec::new()));
    assert!(effects.is_empty() && leading.heads().is_empty(), "it was left nothing: {effects:?}");
    let said = |leading: &mut Leading| {
        let asks = leading.tell(ZERO, &Room);
        let want = asks[0].wants["default"];
        (asks[0].clone(), (want.under_way, want.ceiling, want.waiting))
    };
    let (ask, stands) = said(&mut leading);
    assert_eq!(stands, (0, 0, 4));
    assert!(leading.tell(ZERO, &Room).is_empty(), "it has not been answered");
    leading.shares().take(&answer(&ask, 2));
    let effects = turn(&mut leading, &mut store, ZERO, Vec::new());
    let [Effect::Assign(first), Effect::Assign(_)] = &effects[..] else { panic!("{effects:?}") };
    let (ask, stands) = said(&mut leading);
    assert_eq!(stands, (2, 2, 2));
    // What has ended makes room for the next in the same turn.
    let report = finished(first.run, first.token, ZERO, Ending::Succeeded);
    let effects = turn(&mut leading, &mut store, ZERO, vec![report]);
    let [Effect::Assign(second)] = &effects[..] else { panic!("{effects:?}") };
    // It is left less: what is under way stays, and nothing follows.
    leading.shares().take(&answer(&ask, 1));
    let report = finished(second.run, second.token, ZERO, Ending::Succeeded);
    assert!(turn(&mut leading, &mut store, ZERO, vec![report]).is_empty());
    assert_eq!(said(&mut leading).1, (1, 1, 1));
    let mut memory = load(&store, SHARD, 2, Settings::default()).unwrap();
    recover(&store, &mut memory, ZERO, None, &|_, _| None).unwrap();
    assert_eq!(memory.shares.under_way().collect::<Vec<_>>(), [("default", 1)]);
}
