//! The end of a server at every step (R64–R67, R70, R71, R91, R92).

use bellwether_core::record::{EventKind as E, RunStatus as S};
use bellwether_core::turn::{Ending, Input};

use crate::world::job::{ANA, run};
use crate::world::worker::finished;
use crate::world::{Crash, World, job, t};

/// One job due at 10 under each guarantee: at most once, at least once.
fn two_jobs() -> (World, bellwether_core::id::RunId, bellwether_core::id::RunId) {
    let mut w = World::new();
    let most = w.add(job().at(t(10)).at_most_once());
    let least = w.add(job().at(t(10)).at_least_once());
    w.now = t(10);
    (w, run(most, 1), run(least, 1))
}

fn count(w: &World, id: bellwether_core::id::RunId) -> usize {
    w.starts.iter().filter(|start| start.run == id).count()
}

#[test]
fn r91_before_the_commit_nothing_has_happened() {
    let (mut w, most, least) = two_jobs();
    w.turn(vec![], Crash::BeforeCommit);
    assert!(w.starts.is_empty());
    w.settle();
    assert_eq!((count(&w, most), count(&w, least)), (1, 1));
}

#[test]
fn r64_between_commit_and_hand_over_at_most_once_is_lost_rather_than_doubled() {
    let (mut w, most, least) = two_jobs();
    w.turn(vec![], Crash::AfterCommit);
    w.settle();
    assert_eq!(w.status(most), S::Lost);
    assert_eq!((count(&w, most), count(&w, least)), (0, 1));
    assert_eq!(w.events(least), [E::Queued, E::Claimed, E::Requeued, E::Claimed]);
}

#[test]
fn r66_r67_while_running_each_guarantee_keeps_its_word() {
    let (mut w, most, least) = two_jobs();
    w.settle();
    w.crash();
    w.settle();
    assert_eq!(w.status(most), S::Lost);
    assert_eq!((count(&w, most), count(&w, least)), (1, 2));
    w.retry(most);
    assert_eq!(count(&w, most), 2, "its owner asked for it");
    w.succeed(most);
}

#[test]
fn r120_the_result_is_lost_before_it_was_recorded() {
    let (mut w, most, least) = two_jobs();
    w.settle();
    let reports: Vec<Input> = [most, least]
        .map(|id| finished(id, w.running[&id].token, t(11), Ending::Succeeded))
        .to_vec();
    w.turn(reports.clone(), Crash::BeforeCommit);
    w.settle();
    assert_eq!((w.status(most), count(&w, most)), (S::Lost, 1));
    assert_eq!(count(&w, least), 2);
    for report in reports {
        assert_eq!(w.tell(report), bellwether_core::turn::Reply::Stale);
    }
    assert_eq!(w.status(most), S::Lost);
}

#[test]
fn r52_the_result_is_recorded_and_nobody_was_told() {
    let (mut w, most, _) = two_jobs();
    w.settle();
    let report = finished(most, w.running[&most].token, t(11), Ending::Succeeded);
    w.turn(vec![report], Crash::AfterCommit);
    assert_eq!((w.status(most), count(&w, most)), (S::Succeeded, 1));
}

#[test]
fn r52_a_worker_that_outlives_the_server_reports_to_the_next() {
    let (mut w, most, least) = two_jobs();
    w.settle();
    w.restart(false);
    w.settle();
    assert_eq!((w.status(most), w.status(least)), (S::Claimed, S::Claimed));
    w.succeed(most);
    w.succeed(least);
    assert_eq!((count(&w, most), count(&w, least)), (1, 1));
}

#[test]
fn r70_an_acknowledged_job_survives_and_an_unacknowledged_one_may_not() {
    let mut w = World::new();
    let create = |job: crate::world::job::Job| Input::Create {
        actor: ANA.to_owned(),
        jobs: vec![job.request()],
    };
    w.turn(vec![create(job().at(t(5)))], Crash::BeforeCommit);
    assert_eq!(w.leftovers(), []);
    w.turn(vec![create(job().at(t(5))), create(job().every("1m"))], Crash::AfterCommit);
    w.until(60);
    assert_eq!(w.start_seconds(), [5, 60]);
}

#[test]
fn r70_ids_go_on_after_a_crash() {
    let mut w = World::new();
    let first = w.add(job().at(t(100)));
    w.crash();
    w.now = t(-5);
    let second = w.add(job().at(t(100)));
    assert!(second > first, "also if the clock went back");
}

#[test]
fn r71_nothing_behind_the_cursor_is_forgotten() {
    let mut w = World::new();
    w.due_limit = 1;
    let ids: Vec<_> =
        (0..5).map(|_| w.add(job().at(t(10)).ordering("k").at_least_once())).collect();
    w.now = t(50);
    w.turn(vec![], Crash::No);
    // One-offs of the past are entered as of their own time, or of the cursor.
    let late = w.add(job().at(t(3)).ordering("other").at_least_once());
    w.now = t(49);
    w.turn(vec![], Crash::No);
    w.crash();
    w.now = t(60);
    w.settle();
    assert!(w.started(late).ends_with(&[1]));
    for id in ids {
        assert!(w.started(id).ends_with(&[1]));
        w.succeed(run(id, 1));
    }
}

#[test]
fn r4_an_entry_taken_out_while_it_comes_up_does_not_swallow_the_next_one() {
    let mut w = World::new();
    w.inputs_first = true;
    let id = w.add(job().at(t(10)).ordering("k"));
    w.now = t(10);
    w.pause(id);
    w.resume(id);
    assert_eq!(w.started(id), [1]);
}

#[test]
fn r118_missed_ticks_are_found_after_the_crash() {
    let mut w = World::new();
    let id = w.add(job().cron("0 * * * *"));
    w.down_until(3_600 + 600);
    assert_eq!(w.ledger_text(id), ["3600 late"]);
    assert_eq!(w.started(id), [1]);
}
