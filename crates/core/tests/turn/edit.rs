//! Replacing a job's definition, in every stage.

use bellwether_core::read;
use bellwether_core::record::{OverlapPolicy, RunStatus as S};
use bellwether_core::turn::{Ending, Lane, Turn};

use crate::world::job::run;
use crate::world::{Behaviour, World, job, t};

fn busy() -> World {
    let mut w = World::new();
    w.behaviour = Behaviour::Ends(Ending::Succeeded, 100);
    w
}

#[test]
fn r17_a_waiting_one_off_gets_another_time() {
    let mut w = busy();
    let id = w.add(job().at(t(10)).key("k"));
    w.replace(id, &job().at(t(30)).key("k"));
    w.until(100);
    assert_eq!(w.start_seconds(), [30]);
}

#[test]
fn r17_a_one_off_that_has_run_runs_again_at_its_new_time() {
    let mut w = busy();
    let id = w.add(job().at(t(10)));
    w.until(20);
    w.replace(id, &job().at(t(30)));
    w.until(100);
    assert_eq!((w.start_seconds(), w.started(id)), (vec![10, 30], vec![1, 2]));
    w.replace(id, &job().every("1h").max_runs(1));
    w.until(40 * 86_400);
    w.prune();
    assert!(w.state(id).ended, "a recurring job stays, also after it has ended");
}

#[test]
fn r17_r71_a_one_off_that_was_canceled_before_its_time_does_not_keep_back_another_schedule() {
    let mut w = busy();
    let id = w.add(job().at(t(10_000)));
    w.cancel(run(id, 1));
    w.until(5);
    w.replace(id, &job().every("10s"));
    assert_eq!(w.next_second(id), Some(15));
    w.until(30);
    assert_eq!(w.start_seconds(), [15, 25]);
}

#[test]
fn r18_an_open_run_is_not_disturbed() {
    let mut w = World::new();
    let compact = w.add(job().at(t(1)));
    let cron = w.add(job().every("10s"));
    w.until(10);
    for id in [compact, cron] {
        w.replace(id, &job().every("20s").overlap(OverlapPolicy::Queue, 3));
        assert_eq!(w.status(run(id, 1)), S::Claimed);
        assert_eq!(w.next_second(id), Some(30));
    }
    w.until(30);
    w.succeed(run(cron, 1));
    assert_eq!(w.started(cron), [1, 2]);
}

#[test]
fn r17_an_edit_that_keeps_the_schedule_keeps_its_phase() {
    let mut w = busy();
    let id = w.add(job().every("10s"));
    w.until(13);
    w.replace(id, &job().every("10s").about("new"));
    assert_eq!(w.next_second(id), Some(20));
    w.replace(id, &job().every("10s").jitter("1s"));
    assert_eq!(w.next_second(id), Some(23), "a new schedule begins anew");
}

#[test]
fn r71_what_was_due_by_a_schedule_that_is_replaced_before_that_was_decided_is_in_the_ledger() {
    let mut w = busy();
    w.inputs_first = true;
    let id = w.add(job().every("10s"));
    w.until(15);
    w.now = t(35);
    w.replace(id, &job().every("1m"));
    w.until(100);
    assert_eq!(w.ledger_text(id), ["10 fired", "20-30 x2 skipped:replaced", "95 fired"]);
    assert_eq!(w.start_seconds(), [10, 95]);
    let row = read::job(&w.store, id).unwrap().unwrap();
    let why = read::why(&w.store, &row, None, Some(t(20)), w.now).unwrap().answer;
    assert!(why.contains("its schedule was replaced before that was decided"), "{why}");
    // The same for one that waits until its jitter is over, or that is paused.
    let late = w.add(job().cron("* * * * *").jitter("50s"));
    let paused = w.add(job().cron("* * * * *"));
    w.pause(paused);
    w.now = t(121);
    for job_id in [late, paused] {
        w.replace(job_id, &job().cron("30 * * * *"));
    }
    assert_eq!(w.ledger_text(late), ["120 skipped:replaced"]);
    assert_eq!(w.ledger_text(paused), ["120 skipped:paused"]);
}

#[test]
fn r17_a_job_whose_schedule_is_over_can_still_be_edited() {
    let mut w = busy();
    let ends = job().every("10s").ends(t(15));
    let id = w.add(ends.clone());
    w.until(100);
    assert!(w.state(id).ended);
    assert!(w.try_replace(id, &ends.clone().about("done"), None).is_ok());
    let never = job().every("10s").ends(t(20));
    assert!(w.try_replace(id, &never, None).is_err(), "a new one that never fires is refused");
}

#[test]
fn r17_some_fields_are_fixed() {
    let mut w = World::new();
    let id = w.add(job().every("10s").key("k").ordering("o"));
    for by in [
        job().every("10s").ordering("o"),
        job().every("10s").key("k"),
        job().every("10s").key("k").ordering("o").namespace("n"),
    ] {
        assert_eq!(w.try_replace(id, &by, None).unwrap_err().code, "field_fixed");
    }
}

#[test]
fn r32_an_edit_enables_and_disables() {
    let mut w = busy();
    let every = job().every("10s");
    let id = w.add(every.clone());
    w.try_replace(id, &every, Some(false)).unwrap();
    w.until(25);
    assert!(w.starts.is_empty());
    w.try_replace(id, &every, Some(true)).unwrap();
    w.until(30);
    assert_eq!(w.ledger_text(id), ["10-20 x2 skipped:paused", "30 fired"]);
    assert_eq!(w.actions(), ["job.create", "job.replace", "job.replace"]);
}

#[test]
fn r47_a_queued_run_follows_its_job_to_another_queue() {
    let mut w = World::new();
    w.slots = 0;
    let id = w.add(job().every("10s").queue("a"));
    w.until(10);
    w.replace(id, &job().every("10s").queue("b"));
    let lane = |queue: &str| Lane::of(&job().queue(queue).0, "");
    let mut turn = Turn::new(&w.store, &mut w.memory, w.now);
    assert_eq!(
        turn.claim(&lane("a"), "w", 5, false).unwrap().claimed,
        0,
        "not to a worker of the old queue"
    );
    assert_eq!(turn.claim(&lane("b"), "w", 5, false).unwrap().claimed, 1);
}
