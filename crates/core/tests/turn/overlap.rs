//! A tick comes while a run is open (R34).

use bellwether_core::record::{Hold, OverlapPolicy as O, RunStatus as S};
use bellwether_core::turn::Ending;

use crate::world::job::run;
use crate::world::{World, job, t};

#[test]
fn r34_skip_lets_one_instance_run_at_a_time() {
    let mut w = World::new();
    let id = w.add(job().every("10s"));
    w.until(35);
    assert_eq!(w.ledger_text(id), ["10 fired", "20 skipped:overlap", "30 skipped:overlap"]);
    w.succeed(run(id, 1));
    w.until(40);
    assert_eq!(w.started(id), [1, 2]);
}

#[test]
fn r71_a_tick_after_a_take_over_waits_for_what_workers_have_to_say_of_the_run_before() {
    let mut w = World::new();
    let id = w.add(job().every("10s"));
    w.until(15);
    w.now = t(20);
    w.restart(false);
    w.settle();
    assert_eq!(w.ledger_text(id), ["10 fired"], "whether the run is still open is not known");
    w.now = t(20).plus_ms(50);
    w.succeed(run(id, 1));
    assert_eq!(w.ledger_text(id), ["10 fired", "20 fired"]);
    assert_eq!(w.with_workers(), [run(id, 2)], "at once, and not when the time is over");
}

#[test]
fn r34_a_tick_after_a_take_over_is_skipped_if_nothing_is_said_of_the_run_before() {
    let mut w = World::new();
    let id = w.add(job().every("10s"));
    w.until(15);
    w.now = t(20);
    w.restart(false);
    w.until_time(t(20).plus_ms(999));
    assert_eq!(w.ledger_text(id), ["10 fired"]);
    w.until(21);
    assert_eq!(w.ledger_text(id), ["10 fired", "20 skipped:overlap"]);
    w.until(30);
    assert_eq!(w.ledger_text(id).last().unwrap(), "30 skipped:overlap", "not a moment later");
    w.succeed(run(id, 1));
    w.until(40);
    assert_eq!(w.started(id), [1, 2]);
}

#[test]
fn r34_a_tick_after_a_take_over_does_not_wait_where_all_is_known() {
    let mut w = World::new();
    w.slots = 1;
    let [with_worker, waiting] = [(); 2].map(|()| w.add(job().every("10s")));
    let replaces = w.add(job().every("10s").overlap(O::Replace, 0));
    w.until(15);
    w.now = t(20);
    w.restart(false);
    w.settle();
    assert_eq!(w.ledger_text(with_worker), ["10 fired"]);
    assert_eq!(w.ledger_text(waiting), ["10 fired", "20 skipped:overlap"], "nobody has it");
    assert_eq!(w.ledger_text(replaces), ["10 fired", "20 fired"]);
    // A tick that would be missed by waiting is decided about.
    let mut w = World::new();
    let id = w.add(job().every("10s"));
    w.until(15);
    w.now = t(24).plus_ms(500);
    w.restart(false);
    w.settle();
    assert_eq!(w.ledger_text(id), ["10 fired", "20 skipped:overlap"]);
}

#[test]
fn r34_a_tick_does_not_wait_longer_when_the_clock_is_set_back_after_a_take_over() {
    let mut w = World::new();
    let id = w.add(job().every("10s"));
    w.until(15);
    w.now = t(1_000);
    w.restart(false);
    w.now = t(20);
    w.settle();
    assert_eq!(w.ledger_text(id), ["10 fired", "20 skipped:overlap"]);
}

#[test]
fn r34_queue_waits_up_to_its_bound() {
    let mut w = World::new();
    let id = w.add(job().every("10s").overlap(O::Queue, 2));
    w.until(45);
    assert_eq!(w.ledger_text(id), ["10 fired", "20 fired", "30 fired", "40 skipped:overlap"]);
    assert_eq!(w.run(run(id, 2)).hold(), Hold::Overlap);
    w.succeed(run(id, 1));
    assert_eq!(w.with_workers(), [run(id, 2)]);
    w.fail(run(id, 2));
    assert_eq!(w.with_workers(), [run(id, 3)], "a failed one lets the next go as well");
}

#[test]
fn r34_queued_runs_wait_also_across_a_crash() {
    let mut w = World::new();
    let id = w.add(job().every("10s").overlap(O::Queue, 2).at_least_once());
    w.until(25);
    w.crash();
    w.settle();
    assert_eq!(w.with_workers(), [run(id, 1)], "the first is tried again, the second waits");
    w.succeed(run(id, 1));
    assert_eq!(w.with_workers(), [run(id, 2)]);
}

#[test]
fn r34_replace_stops_the_old_run_before_the_new_one_starts() {
    let mut w = World::new();
    let id = w.add(job().every("10s").overlap(O::Replace, 0));
    w.until(20);
    assert_eq!(w.stops.len(), 1);
    assert_eq!(w.with_workers(), [run(id, 1)], "until the old one has stopped, the new one waits");
    w.end(run(id, 1), Ending::Canceled);
    assert_eq!(w.status(run(id, 1)), S::Canceled);
    assert_eq!(w.with_workers(), [run(id, 2)]);
    w.until(40);
    assert_eq!(w.status(run(id, 3)), S::Canceled, "one that had not started is gone at once");
    w.end(run(id, 2), Ending::Failed);
    assert_eq!(w.status(run(id, 2)), S::Canceled, "it was killed, it did not fail");
    assert_eq!(w.with_workers(), [run(id, 4)]);
}

#[test]
fn r34_allow_runs_side_by_side() {
    let mut w = World::new();
    let id = w.add(job().every("10s").overlap(O::Allow, 0));
    w.until(30);
    assert_eq!(w.with_workers(), [run(id, 1), run(id, 2), run(id, 3)]);
}

#[test]
fn r57_priority_goes_first_then_the_earlier_tick() {
    let mut w = World::new();
    w.slots = 0;
    let low = w.add(job().at(t(1)).priority(-1));
    let late = w.add(job().at(t(3)));
    let soon = w.add(job().at(t(2)));
    let high = w.add(job().at(t(4)).priority(9));
    w.until(5);
    for expected in [high, soon, late, low] {
        w.slots = 1;
        w.settle();
        assert_eq!(w.with_workers(), [run(expected, 1)]);
        w.slots = 0;
        w.succeed(run(expected, 1));
    }
}

#[test]
fn r105_a_full_worker_gets_nothing() {
    let mut w = World::new();
    w.slots = 2;
    for _ in 0..5 {
        w.add(job().at(t(1)));
    }
    w.until(10);
    assert_eq!(w.running.len(), 2);
    assert_eq!(w.memory.ready.len(), 3);
    let first = w.with_workers()[0];
    w.succeed(first);
    assert_eq!((w.running.len(), w.memory.ready.len()), (2, 2));
}
