//! Jobs that run on every worker: one run for each that is there (R49).

use bellwether_core::id::JobId;
use bellwether_core::record::{Hold, OverlapPolicy as O, RunStatus as S, TickFate};
use bellwether_core::turn::{Ending, Input, Reply};

use crate::world::job::{ANA, run};
use crate::world::{World, job};

fn with_workers(names: &[&str]) -> World {
    let mut w = World::new();
    w.present = names.iter().map(|name| (*name).to_owned()).collect();
    w
}

/// Who got which run of a job, in order.
fn started(w: &World, job: JobId) -> Vec<(u32, &str)> {
    let of = w.starts.iter().filter(|start| start.run.job == job);
    of.map(|start| (start.run.n, start.worker.as_str())).collect()
}

#[test]
fn r49_each_tick_makes_one_run_for_each_worker_that_is_there() {
    let mut w = with_workers(&["w1", "w2", "w3"]);
    let id = w.add(job().every("10s").on_all_workers());
    w.until(10);
    assert_eq!(started(&w, id), [(1, "w1"), (2, "w2"), (3, "w3")]);
    for n in 1..=3 {
        w.succeed(run(id, n));
    }
    w.present.remove("w2");
    w.until(20);
    assert_eq!(started(&w, id)[3..], [(4, "w1"), (5, "w3")]);
    let rows = w.ledger(id);
    let told: Vec<_> = rows.iter().map(|(_, row)| (row.fate(), row.run, row.runs)).collect();
    assert_eq!(told, [(TickFate::Fired, 1, 3), (TickFate::Fired, 4, 2)], "one row for each tick");
}

#[test]
fn without_a_worker_the_tick_is_skipped_and_says_why() {
    let mut w = with_workers(&[]);
    let id = w.add(job().every("10s").on_all_workers());
    w.until(10);
    assert_eq!(w.ledger_text(id), ["10 skipped:no_worker"]);
    let refused = w.ask(Input::Trigger { actor: ANA.to_owned(), job: id }).unwrap_err();
    assert_eq!(refused.code, "no_worker");
    w.present.insert("w9".to_owned());
    w.until(20);
    assert_eq!(started(&w, id), [(1, "w9")]);
    assert_eq!(w.ledger(id)[1].1.runs, 1, "it was meant for all, of which there was one");
}

#[test]
fn a_run_waits_for_its_worker_and_its_retries_stay_there() {
    let mut w = with_workers(&["w1", "w2"]);
    let id = w.add(job().every("10s").on_all_workers().retries(2).at_least_once());
    w.until(10);
    w.succeed(run(id, 1));
    w.fail(run(id, 2));
    w.present.remove("w2");
    w.until(15);
    assert_eq!(w.status(run(id, 2)), S::Queued, "its worker has gone, and nobody else gets it");
    w.crash();
    w.until(18);
    assert_eq!(w.status(run(id, 2)), S::Queued, "also after a restart");
    w.present.insert("w2".to_owned());
    w.settle();
    assert_eq!(started(&w, id), [(1, "w1"), (2, "w2"), (2, "w2")]);
    w.lose(run(id, 2));
    assert_eq!(started(&w, id)[3..], [(2, "w2")], "what was lost is repeated where it was");
}

#[test]
fn a_run_whose_worker_does_not_come_back_expires_or_is_canceled() {
    let mut w = with_workers(&["w1", "w2"]);
    w.slots = 0;
    let id = w.add(job().every("60s").on_all_workers().expires("30s"));
    let other = w.add(job().every("60s").on_all_workers());
    w.until(60);
    w.present.remove("w2");
    w.slots = 1_000;
    w.until(100);
    assert_eq!(w.status(run(id, 2)), S::Skipped);
    assert_eq!(w.status(run(other, 2)), S::Queued);
    w.ask(Input::Cancel { actor: ANA.to_owned(), run: run(other, 2) }).unwrap();
    assert_eq!(w.status(run(other, 2)), S::Canceled);
}

#[test]
fn r34_overlap_is_about_the_job_as_a_whole() {
    let mut w = with_workers(&["w1", "w2"]);
    let skip = w.add(job().every("10s").on_all_workers());
    w.until(10);
    w.succeed(run(skip, 1));
    w.until(20);
    assert_eq!(w.ledger_text(skip), ["10 fired", "20 skipped:overlap"], "one is still open");
    w.succeed(run(skip, 2));
    w.until(30);
    assert_eq!(started(&w, skip)[2..], [(3, "w1"), (4, "w2")]);
}

#[test]
fn r34_runs_of_one_tick_that_waited_go_together() {
    let mut w = with_workers(&["w1", "w2"]);
    let id = w.add(job().every("10s").on_all_workers().overlap(O::Queue, 1));
    w.until(30);
    assert_eq!(w.ledger_text(id), ["10 fired", "20 fired", "30 skipped:overlap"], "one tick waits");
    assert_eq!(
        (w.run(run(id, 3)).hold(), w.run(run(id, 4)).hold()),
        (Hold::Overlap, Hold::Overlap)
    );
    w.succeed(run(id, 1));
    assert_eq!(w.with_workers(), [run(id, 2)]);
    w.succeed(run(id, 2));
    assert_eq!(w.with_workers(), [run(id, 3), run(id, 4)]);
}

#[test]
fn r34_replace_cancels_the_runs_of_the_tick_before() {
    let mut w = with_workers(&["w1", "w2"]);
    let id = w.add(job().every("10s").on_all_workers().overlap(O::Replace, 0));
    w.until(20);
    assert_eq!(w.stops.len(), 2);
    w.end(run(id, 1), Ending::Canceled);
    assert_eq!(w.with_workers(), [run(id, 2)], "until both have stopped");
    w.end(run(id, 2), Ending::Canceled);
    assert_eq!(w.with_workers(), [run(id, 3), run(id, 4)]);
}

#[test]
fn a_trigger_runs_on_all_workers_and_a_failed_run_is_retried_beside_the_others() {
    let mut w = with_workers(&["w1", "w2"]);
    let id = w.add(job().every("1h").on_all_workers());
    let reply = w.ask(Input::Trigger { actor: ANA.to_owned(), job: id });
    assert_eq!(reply, Ok(Reply::Runs(run(id, 1), 2)));
    w.settle();
    w.fail(run(id, 1));
    w.ask(Input::Retry { actor: ANA.to_owned(), run: run(id, 1) }).unwrap();
    w.settle();
    assert_eq!(started(&w, id), [(1, "w1"), (2, "w2"), (1, "w1")]);
}

#[test]
fn a_one_off_runs_on_all_workers_once() {
    let mut w = with_workers(&["w1", "w2"]);
    let id = w.add(job().delay("10s").on_all_workers());
    assert!(!w.is_compact(id));
    w.until(10);
    assert_eq!(started(&w, id), [(1, "w1"), (2, "w2")]);
    w.succeed(run(id, 1));
    w.succeed(run(id, 2));
    w.until(100);
    assert_eq!(w.starts.len(), 2);
}

#[test]
fn max_runs_counts_ticks_and_the_next_tick_counts_from_the_last_end() {
    let mut w = with_workers(&["w1", "w2"]);
    let id = w.add(job().every_after_finish("10s").max_runs(2).on_all_workers());
    w.until(10);
    w.succeed(run(id, 1));
    w.until(30);
    assert_eq!(w.next_second(id), None, "one of the tick's runs is still open");
    w.succeed(run(id, 2));
    assert_eq!(w.next_second(id), Some(40));
    w.until(40);
    w.succeed(run(id, 3));
    w.succeed(run(id, 4));
    assert_eq!((w.next_second(id), w.state(id).scheduled_runs), (None, 2));
}

#[test]
fn two_triggers_at_one_instant_are_two_sets_of_runs() {
    let mut w = with_workers(&["w1", "w2"]);
    let id = w.add(job().every("1h").on_all_workers().overlap(O::Queue, 2));
    let trigger = || Input::Trigger { actor: ANA.to_owned(), job: id };
    for n in [1, 3, 5] {
        assert_eq!(w.ask(trigger()), Ok(Reply::Runs(run(id, n), 2)));
    }
    w.settle();
    for n in [1, 3, 5] {
        assert_eq!(w.with_workers(), [run(id, n), run(id, n + 1)]);
        w.succeed(run(id, n));
        w.succeed(run(id, n + 1));
    }
}
