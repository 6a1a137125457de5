//! Pause, disabled jobs, maintenance (R32, R38, R40).

use bellwether_core::record::{MisfirePolicy, RunStatus as S};
use bellwether_core::turn::Ending;

use crate::world::job::run;
use crate::world::{Behaviour, World, job, t};

fn busy() -> World {
    let mut w = World::new();
    w.behaviour = Behaviour::Ends(Ending::Succeeded, 100);
    w
}

#[test]
fn r38_ticks_that_pass_while_paused_are_not_missed() {
    let mut w = busy();
    let id = w.add(job().every("10s").misfire(MisfirePolicy::All, None, 0));
    w.until(15);
    w.pause(id);
    w.until(45);
    w.crash();
    w.until(55);
    w.resume(id);
    w.until(61);
    assert_eq!(w.ledger_text(id), ["10 fired", "20-50 x4 skipped:paused", "60 fired"]);
    assert_eq!(w.actions(), ["job.create", "job.pause", "job.resume"]);
    w.resume(id);
    assert_eq!(w.actions().len(), 3, "nothing changed");
}

#[test]
fn r38_a_queued_run_does_not_launch_while_paused_and_does_after() {
    for restart in [false, true] {
        let mut w = World::new();
        w.slots = 0;
        let id = w.add(job().every("10s"));
        w.until(11);
        w.pause(id);
        w.slots = 1;
        w.until(50);
        if restart {
            w.crash();
            w.settle();
        }
        assert!(w.starts.is_empty());
        w.resume(id);
        assert_eq!(w.with_workers(), [run(id, 1)]);
    }
}

#[test]
fn r38_a_retry_does_not_launch_while_paused() {
    let mut w = World::new();
    let id = w.add(job().every("1h").retries(2));
    w.until(3_600);
    w.pause(id);
    w.fail(run(id, 1));
    w.until(3_700);
    assert_eq!((w.status(run(id, 1)), w.starts.len()), (S::Queued, 1));
    w.resume(id);
    assert_eq!(w.starts.len(), 2);
}

#[test]
fn r38_a_paused_one_off_waits_and_runs_when_released() {
    let mut w = busy();
    let plain = w.add(job().at(t(10)));
    let windowed = w.add(job().at(t(10)).misfire(MisfirePolicy::Skip, Some("1s"), 0));
    let early = w.add(job().at(t(100)));
    for id in [plain, windowed, early] {
        w.pause(id);
        assert!(!w.is_compact(id), "promoted");
    }
    w.until(50);
    assert!(w.starts.is_empty());
    for id in [plain, windowed, early] {
        w.resume(id);
    }
    assert_eq!(w.started(plain), [1]);
    assert_eq!(w.started(windowed), [1], "it was held back, not missed");
    assert!(w.started(early).is_empty());
    w.until(100);
    assert_eq!(w.started(early), [1]);
}

#[test]
fn r32_a_disabled_job_never_launches() {
    let mut w = busy();
    let cron = w.add(job().every("10s").disabled());
    let once = w.add(job().at(t(5)).disabled());
    w.until(100);
    assert!(w.starts.is_empty());
    w.resume(cron);
    w.resume(once);
    w.until(110);
    assert_eq!((w.started(cron), w.started(once)), (vec![1], vec![1]));
}

#[test]
fn r40_maintenance_suppresses_and_ends_by_itself() {
    let mut w = busy();
    let id = w.add(job().every("10s"));
    let once = w.add(job().at(t(15)));
    w.maintenance(id, Some(t(35)));
    w.maintenance(once, Some(t(35)));
    w.until(41);
    assert_eq!(
        w.ledger_text(id),
        ["10 skipped:maintenance", "20 skipped:maintenance", "30 skipped:maintenance", "40 fired"]
    );
    assert_eq!(w.started(once), [1]);
    assert_eq!(w.start_seconds(), [35, 40]);
}

#[test]
fn r40_maintenance_that_ran_out_during_a_downtime_was_maintenance_all_the_same() {
    let mut w = busy();
    let id = w.add(job().every("10s").misfire(MisfirePolicy::All, None, 0));
    w.maintenance(id, Some(t(35)));
    w.down_until(61);
    w.until(62);
    assert_eq!(
        w.ledger_text(id),
        ["10-30 x3 skipped:maintenance", "40 late", "50 late", "60 fired"]
    );
}

#[test]
fn r40_a_one_off_in_maintenance_without_end_runs_when_resumed() {
    let mut w = busy();
    let id = w.add(job().at(t(10)));
    w.maintenance(id, None);
    w.until(50);
    w.crash();
    assert!(w.starts.is_empty());
    w.resume(id);
    assert_eq!(w.started(id), [1]);
}

#[test]
fn r38_what_was_parked_canceled_and_retried_keeps_its_place() {
    let mut w = World::new();
    w.slots = 0;
    let id = w.add(job().every("10s").overlap(bellwether_core::record::OverlapPolicy::Queue, 5));
    w.until(21);
    w.pause(id);
    w.slots = 9;
    w.settle();
    w.cancel(run(id, 1));
    w.retry(run(id, 1));
    w.resume(id);
    assert_eq!(w.running.len(), 1, "one at a time");
}
