//! Retries after known failures, cancellation, expiry, another go (R36, R59, R60, R62).

use bellwether_core::record::{EventKind as E, RunStatus as S};
use bellwether_core::turn::{Ending, Input, Reply};
use bellwether_core::waist::Family;

use crate::world::job::{ANA, run};
use crate::world::worker::{finished, handed_back, printed, started};
use crate::world::{Behaviour, World, job, t};

#[test]
fn r59_retries_back_off_and_end_after_the_fourth_attempt() {
    let mut w = World::new();
    w.behaviour = Behaviour::Ends(Ending::Failed, 0);
    let id = w.add(job().at(t(10)).retries(3));
    w.until(100);
    assert_eq!(w.start_seconds(), [10, 11, 13, 17], "growing gaps, at most four attempts");
    assert_eq!(w.status(run(id, 1)), S::Failed);
    assert_eq!(w.store.count(Family::Dead), 1, "R36: it is a dead letter");
    let attempts: Vec<u32> = w.starts.iter().map(|start| start.attempt).collect();
    assert_eq!(attempts, [1, 2, 3, 4]);
    assert!(w.starts.iter().all(|start| start.run == run(id, 1)), "R60: one run, one key");
    assert!(w.starts.windows(2).all(|two| two[0].token < two[1].token));
}

#[test]
fn r36_a_retry_survives_a_crash() {
    let mut w = World::new();
    let id = w.add(job().at(t(10)).retries(3));
    w.until(10);
    w.fail(run(id, 1));
    assert_eq!(w.status(run(id, 1)), S::Retrying);
    w.crash();
    w.until(11);
    assert_eq!(w.starts.len(), 2);
    w.succeed(run(id, 1));
    assert_eq!(w.status(run(id, 1)), S::Succeeded);
}

#[test]
fn r59_a_fatal_failure_is_not_retried() {
    let mut w = World::new();
    let id = w.add(job().at(t(1)).retries(3));
    w.until(1);
    w.end(run(id, 1), Ending::FailedForGood);
    w.until(100);
    assert_eq!((w.status(run(id, 1)), w.starts.len()), (S::Failed, 1));
}

#[test]
fn r98_a_report_under_a_stale_token_changes_nothing() {
    let mut w = World::new();
    let id = run(w.add(job().at(t(1)).retries(1)), 1);
    w.until(1);
    let first = w.running[&id].token;
    w.fail(id);
    w.until(5);
    let second = w.running[&id].token;
    assert!(second > first);
    for late in [
        finished(id, first, t(5), Ending::Succeeded),
        started(id, first, t(5)),
        handed_back(id, first),
        printed(id, first, 0, "late"),
        finished(id, second + 1, t(5), Ending::Succeeded),
        Input::Lost { run: id, token: first, detail: String::new() },
    ] {
        assert_eq!(w.tell(late), Reply::Stale);
    }
    assert_eq!(w.status(id), S::Claimed);
    w.succeed(id);
    assert_eq!(w.tell(finished(id, second, t(6), Ending::Failed)), Reply::Stale, "said twice");
    assert_eq!(w.status(id), S::Succeeded);
    assert_eq!(w.memory.tally.stale_reports, 6);
}

#[test]
fn r62_cancel_before_it_is_due_while_queued_while_retrying_and_while_running() {
    let mut w = World::new();
    w.slots = 1;
    let busy = w.add(job().at(t(0)));
    let before = run(w.add(job().at(t(1_000_000))), 1);
    let ordered = run(w.add(job().at(t(1_000_000)).ordering("a")), 1);
    let queued = run(w.add(job().at(t(1))), 1);
    w.until(2);
    for id in [before, ordered, queued] {
        w.cancel(id);
        assert_eq!(w.status(id), S::Canceled, "at once");
        assert_eq!(w.try_cancel(id).unwrap_err().code, "run_ended");
    }
    w.cancel(run(busy, 1));
    assert_eq!(w.status(run(busy, 1)), S::Claimed, "only when the worker has stopped it");
    assert_eq!(w.stops.len(), 1);
    w.end(run(busy, 1), Ending::Canceled);
    assert_eq!(w.status(run(busy, 1)), S::Canceled);
    let retrying = run(w.add(job().at(t(2)).retries(2)), 1);
    w.settle();
    w.fail(retrying);
    w.cancel(retrying);
    assert_eq!(w.status(retrying), S::Canceled);
    w.until(100);
    assert_eq!(w.starts.len(), 2, "nothing of it comes back");
    assert_eq!(w.try_cancel(run(busy, 9)).unwrap_err().code, "run_not_found");
}

#[test]
fn r63_a_canceled_timer_is_filed_now_and_not_in_its_future() {
    let mut w = World::new();
    let id = run(w.add(job().at(t(400 * 86_400))), 1);
    let triggered = w.add(job().at(t(400 * 86_400)));
    w.until(5);
    w.cancel(id);
    w.trigger(triggered);
    w.succeed(run(triggered, 1));
    assert_eq!(w.run(id).filed_ms, t(5).0);
    assert_eq!(w.events(id), [E::Canceled]);
    w.until(8 * 86_400);
    w.prune();
    assert_eq!(w.leftovers(), []);
}

#[test]
fn r62_success_wins_over_a_cancel_that_came_too_late() {
    let mut w = World::new();
    let id = run(w.add(job().at(t(1))), 1);
    w.until(1);
    w.cancel(id);
    w.succeed(id);
    assert_eq!(w.status(id), S::Succeeded);
}

#[test]
fn r36_another_go_for_what_has_ended_badly() {
    let mut w = World::new();
    let failed = run(w.add(job().at(t(1))), 1);
    let recurring = run(w.add(job().every("10s").max_runs(1)), 1);
    w.until(10);
    w.fail(failed);
    w.fail(recurring);
    assert_eq!(w.store.count(Family::Dead), 2);
    for id in [failed, recurring] {
        w.retry(id);
        assert_eq!(w.try_retry(id).unwrap_err().code, "run_open");
        assert_eq!(w.run(id).attempt, 2);
        w.succeed(id);
        assert_eq!(w.try_retry(id).unwrap_err().code, "run_succeeded");
    }
    assert_eq!(w.store.count(Family::Dead), 0);
}

#[test]
fn r36_another_go_for_a_run_that_had_expired_really_runs() {
    let mut w = World::new();
    w.slots = 0;
    let id = run(w.add(job().at(t(1)).expires("5s")), 1);
    let canceled = run(w.add(job().at(t(1)).expires("1h")), 1);
    w.until(10);
    assert_eq!((w.status(id), w.reason(id).as_str()), (S::Skipped, "expired"));
    w.cancel(canceled);
    w.retry(id);
    w.retry(canceled);
    w.until(2 * 3_600);
    w.slots = 2;
    w.settle();
    assert_eq!(w.with_workers(), [id, canceled]);
}

#[test]
fn r105_handed_back_is_no_loss_and_goes_to_another() {
    let mut w = World::new();
    let id = run(w.add(job().at(t(1)).at_most_once()), 1);
    w.until(1);
    let token = w.running.remove(&id).unwrap().token;
    w.tell(handed_back(id, token));
    assert_eq!(w.run(id).losses, 0);
    w.settle();
    assert_eq!(w.with_workers(), [id]);
}

#[test]
fn r64_what_was_said_to_have_started_cannot_be_handed_back() {
    let mut w = World::new();
    let id = run(w.add(job().at(t(1)).at_most_once()), 1);
    w.until(1);
    let token = w.running.remove(&id).unwrap().token;
    w.tell(started(id, token, t(1)));
    w.tell(handed_back(id, token));
    w.settle();
    assert_eq!((w.status(id), w.starts.len()), (S::Lost, 1));
}

#[test]
fn r57_expiry_is_for_those_that_never_started() {
    let mut w = World::new();
    let id = run(w.add(job().at(t(1)).expires("5s").retries(1)), 1);
    w.until(1);
    w.until(10);
    assert_eq!(w.status(id), S::Claimed, "it started in time and takes as long as it likes");
    w.fail(id);
    w.until(12);
    assert_eq!(w.with_workers(), [id], "and so do its retries");
}

#[test]
fn r68_a_run_that_takes_its_workers_down_is_given_up() {
    let mut w = World::new();
    let id = run(w.add(job().at(t(1)).at_least_once()), 1);
    w.until(1);
    while w.running.contains_key(&id) {
        w.lose(id);
    }
    assert_eq!((w.status(id), w.reason(id).as_str()), (S::Failed, "lost_too_often"));
    assert_eq!(w.starts.len(), 10);
    assert_eq!(w.memory.tally.repeated, 9, "each second execution is counted");
}

#[test]
fn audit_names_who_canceled_and_retried() {
    let mut w = World::new();
    let id = run(w.add(job().at(t(1))), 1);
    w.cancel(id);
    w.retry(id);
    assert_eq!(w.actions(), ["job.create", "run.cancel", "run.retry"]);
    assert!(w.audits().iter().all(|entry| entry.actor == ANA));
    let unknown = run(bellwether_core::id::JobId(7), 1);
    assert!(w.ask(Input::Retry { actor: ANA.into(), run: unknown }).is_err());
    assert_eq!(w.actions().len(), 3, "what was refused is no change");
}
