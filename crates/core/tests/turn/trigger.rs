//! Running a job now, in every form and state.

use bellwether_core::read;
use bellwether_core::record::{Cause, OverlapPolicy, RunStatus as S};
use bellwether_core::time::Time;

use crate::world::job::run;
use crate::world::{World, job, t};

#[test]
fn r31_a_waiting_one_off_is_brought_forward_and_does_not_fire_again() {
    let mut w = World::new();
    let compact = w.add(job().at(t(100)));
    let full = w.add(job().at(t(100)).ordering("k"));
    w.until(5);
    for id in [compact, full] {
        assert_eq!(w.trigger(id), run(id, 1));
        assert_eq!(w.run(run(id, 1)).cause(), Cause::Trigger);
        w.succeed(run(id, 1));
    }
    w.until(200);
    assert_eq!(w.start_seconds(), [5, 5]);
}

#[test]
fn r71_the_own_time_of_a_triggered_one_off_is_in_its_ledger() {
    let mut w = World::new();
    let compact = w.add(job().at(t(100)));
    let full = w.add(job().at(t(100)).ordering("k"));
    let delayed = w.add(job().delay("100s").jitter("10s"));
    w.until(5);
    for id in [compact, full, delayed] {
        let run = w.trigger(id);
        assert_eq!(w.ledger_text(id), ["5 triggered", "100 merged>5"]);
        let (_, row) = &w.ledger(id)[1];
        assert_eq!((row.run, row.reason.as_str()), (1, "trigger"));
        assert_eq!(row.detail, format!("brought forward by trigger ({run})"));
        w.succeed(run);
        let at = |at| why(&w, id, Some(at));
        let forward = format!(
            "It did not wait for {}: a trigger brought it forward to {}, {run}.",
            t(100),
            t(5)
        );
        assert_eq!(at(t(100)), forward);
        assert_eq!(at(t(5)), format!("Somebody triggered it at {}: {run}.", t(5)));
    }
    w.until(30 * 86_400);
    w.prune();
    assert_eq!(w.leftovers(), [], "the ledger goes with the job");
}

#[test]
fn r71_a_tick_of_a_later_schedule_does_not_write_over_it() {
    let mut w = World::new();
    let id = w.add(job().at(t(100)));
    w.trigger(id);
    w.succeed(run(id, 1));
    w.replace(id, &job().every("50s"));
    w.until(101);
    let rows = ["0 triggered", "50 fired", "100 skipped:overlap", "100 merged>0"];
    assert_eq!(w.ledger_text(id), rows);
}

#[test]
fn r71_a_one_off_that_was_held_back_and_triggered_says_so() {
    let mut w = World::new();
    let id = w.add(job().at(t(10)));
    w.pause(id);
    w.until(50);
    let run = w.trigger(id);
    assert_eq!(w.ledger_text(id), ["10 merged>50", "50 triggered"]);
    assert_eq!(
        why(&w, id, Some(t(10))),
        format!("It was held back when {} came, and run by a trigger at {}: {run}.", t(10), t(50))
    );
}

fn why(w: &World, id: bellwether_core::id::JobId, at: Option<Time>) -> String {
    let job = read::job(&w.store, id).unwrap().unwrap();
    read::why(&w.store, &job, None, at, w.now).unwrap().answer
}

#[test]
fn r31_a_one_off_that_has_run_runs_again() {
    let mut w = World::new();
    let id = w.add(job().at(t(1)));
    w.until(1);
    assert_eq!(w.try_trigger(id).unwrap_err().code, "overlap", "while it runs");
    w.succeed(run(id, 1));
    assert_eq!(w.trigger(id), run(id, 2));
    assert_eq!(w.ledger_text(id), ["1 triggered"], "its own time led to its first run");
    w.succeed(run(id, 2));
    assert_eq!(w.status(run(id, 1)), S::Succeeded, "its history stays");
    w.until(30 * 86_400);
    w.prune();
    assert_eq!(w.leftovers(), [], "and goes when its time has come");
}

#[test]
fn r31_a_recurring_job_keeps_its_schedule() {
    let mut w = World::new();
    let id = w.add(job().every("10s").max_runs(2));
    w.until(5);
    w.trigger(id);
    assert_eq!(w.ledger_text(id), ["5 triggered"]);
    assert_eq!(w.try_trigger(id).unwrap_err().code, "overlap");
    w.succeed(run(id, 1));
    w.until(10);
    w.succeed(run(id, 2));
    w.until(20);
    assert_eq!(w.started(id), [1, 2, 3], "a trigger does not count for max_runs");
}

#[test]
fn r31_overlap_applies_to_triggers() {
    let mut w = World::new();
    let queue = w.add(job().every("1h").overlap(OverlapPolicy::Queue, 1));
    w.trigger(queue);
    w.trigger(queue);
    assert_eq!(w.try_trigger(queue).unwrap_err().code, "overlap");
    assert_eq!(w.with_workers(), [run(queue, 1)]);
    let replace = w.add(job().every("1h").overlap(OverlapPolicy::Replace, 0));
    w.trigger(replace);
    w.trigger(replace);
    assert_eq!(w.stops, [(run(replace, 1), w.running[&run(replace, 1)].token)]);
}

#[test]
fn r38_a_trigger_runs_a_paused_job_and_leaves_it_paused() {
    let mut w = World::new();
    let id = w.add(job().every("10s").group("g"));
    w.pause(id);
    w.pause_group("g");
    w.trigger(id);
    assert_eq!(w.with_workers(), [run(id, 1)]);
    assert!(w.state(id).paused.is_some());
    let held = w.add(job().at(t(1)).group("g"));
    w.until(5);
    assert!(w.started(held).is_empty());
    w.trigger(held);
    assert_eq!(w.started(held), [1]);
    w.succeed(run(held, 1));
    w.group("g", bellwether_core::turn::GroupChange::Resume);
    w.until(50);
    assert_eq!(w.started(held), [1], "it has had its run");
}
