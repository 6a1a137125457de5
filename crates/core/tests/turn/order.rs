//! Ordering keys (R72–R74).

use bellwether_core::record::{OnFailure, OverlapPolicy, RunStatus as S};

use crate::world::job::{Job, run};
use crate::world::{World, job, t};

fn ordered(at: i64) -> Job {
    job().at(t(at)).ordering("account-7")
}

#[test]
fn r72_one_key_runs_in_schedule_order_one_at_a_time() {
    let mut w = World::new();
    let third = run(w.add(ordered(3)), 1);
    let first = run(w.add(ordered(1)), 1);
    let second = run(w.add(ordered(2)), 1);
    let other = run(w.add(job().at(t(2)).ordering("account-8")), 1);
    w.until(10);
    assert_eq!(w.with_workers(), [first, other], "other keys go on");
    w.crash();
    w.settle();
    assert_eq!(w.status(first), S::Lost);
    w.retry(first);
    assert_eq!(w.with_workers(), [first]);
    w.succeed(first);
    assert_eq!(w.with_workers(), [second]);
    w.succeed(second);
    assert_eq!(w.with_workers(), [third]);
}

#[test]
fn r72_a_late_arrival_with_an_earlier_time_goes_before_those_that_wait() {
    let mut w = World::new();
    let current = run(w.add(ordered(5)), 1);
    let waiting = run(w.add(ordered(6)), 1);
    w.until(10);
    let late = run(w.add(ordered(1)), 1);
    w.until(11);
    assert_eq!(w.with_workers(), [current], "what has begun is not taken back");
    w.succeed(current);
    assert_eq!(w.with_workers(), [late]);
    w.succeed(late);
    assert_eq!(w.with_workers(), [waiting]);
}

/// The first of two has failed; the second waits.
fn blocked(
    on_failure: OnFailure,
) -> (World, bellwether_core::id::RunId, bellwether_core::id::RunId) {
    let mut w = World::new();
    let first = run(w.add(ordered(1).on_failure(on_failure)), 1);
    let second = run(w.add(ordered(2)), 1);
    w.until(5);
    w.fail(first);
    (w, first, second)
}

#[test]
fn r74_a_failed_run_stops_only_its_own_key() {
    let (mut w, first, second) = blocked(OnFailure::Block);
    let other = run(w.add(job().at(t(6)).ordering("account-8")), 1);
    w.until(100);
    assert_eq!((w.status(first), w.status(second)), (S::Failed, S::Queued));
    assert_eq!(w.with_workers(), [other]);
}

#[test]
fn r74_continue_goes_on_after_a_failure() {
    let (w, _, second) = blocked(OnFailure::Continue);
    assert_eq!(w.with_workers(), [second]);
}

#[test]
fn r74_retrying_it_keeps_the_order() {
    let (mut w, first, second) = blocked(OnFailure::Block);
    w.retry(first);
    assert_eq!(w.with_workers(), [first]);
    w.succeed(first);
    assert_eq!(w.with_workers(), [second]);
}

#[test]
fn r74_giving_it_up_frees_the_key() {
    let (mut w, first, second) = blocked(OnFailure::Block);
    w.cancel(first);
    assert_eq!(w.status(first), S::Canceled);
    assert_eq!(w.with_workers(), [second]);
}

#[test]
fn r74_deleting_it_frees_the_key() {
    let (mut w, first, second) = blocked(OnFailure::Block);
    w.delete(first.job);
    assert_eq!(w.with_workers(), [second]);
}

#[test]
fn r74_editing_it_to_continue_frees_the_key() {
    let (mut w, first, second) = blocked(OnFailure::Block);
    w.replace(first.job, &ordered(1).on_failure(OnFailure::Continue));
    assert_eq!(w.with_workers(), [second]);
}

#[test]
fn r74_a_deleted_job_whose_worker_is_lost_frees_the_key() {
    let mut w = World::new();
    let first = run(w.add(ordered(1).at_most_once()), 1);
    let second = run(w.add(ordered(2)), 1);
    w.until(5);
    w.delete(first.job);
    assert_eq!(w.with_workers(), [first]);
    w.lose(first);
    assert_eq!(w.with_workers(), [second]);
}

#[test]
fn r74_a_blocking_run_can_be_retried_though_others_of_its_job_wait_behind_it() {
    let mut w = World::new();
    let id = w.add(job().every("10s").ordering("k"));
    w.until(10);
    w.fail(run(id, 1));
    w.until(25);
    assert_eq!(w.ledger_text(id), ["10 fired", "20 fired"]);
    w.retry(run(id, 1));
    assert_eq!(w.with_workers(), [run(id, 1)]);
    w.succeed(run(id, 1));
    assert_eq!(w.with_workers(), [run(id, 2)]);
}

#[test]
fn r74_a_blocking_run_outlives_its_history_until_somebody_decides() {
    let (mut w, first, second) = blocked(OnFailure::Block);
    w.until(20 * 86_400);
    w.prune();
    assert_eq!(w.find_run(first), None);
    assert_eq!(w.status(second), S::Queued, "nobody has decided");
    w.cancel(first);
    assert_eq!(w.with_workers(), [second]);
}

#[test]
fn r72_recurring_jobs_of_one_key_take_turns() {
    let mut w = World::new();
    let a = w.add(job().every("10s").ordering("k").overlap(OverlapPolicy::Queue, 3));
    let b = w.add(job().every("15s").ordering("k").overlap(OverlapPolicy::Allow, 0));
    w.until(31);
    let mut order = Vec::new();
    while let Some(next) = w.with_workers().first().copied() {
        assert_eq!(w.running.len(), 1);
        order.push((next.job == a, w.run(next).scheduled_ms));
        w.succeed(next);
        if order.len() == 5 {
            break;
        }
    }
    assert!(order.windows(2).all(|two| two[0].1 <= two[1].1), "{order:?}");
    assert!(order.iter().any(|(of_a, _)| !of_a), "{b} had its turn");
}
