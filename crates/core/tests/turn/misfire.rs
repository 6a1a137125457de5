//! Ticks that nothing could fire in time (R35, R71, R118).

use bellwether_core::record::{Cause, MisfirePolicy, OverlapPolicy};
use bellwether_core::turn::Ending;

use crate::world::job::{Job, run};
use crate::world::{Behaviour, World, job, t};

/// A job of every ten seconds that ran at 10 and 20, then a downtime until `until`.
fn after_downtime(job: Job, until: i64) -> (World, bellwether_core::id::JobId) {
    let mut w = World::new();
    w.behaviour = Behaviour::Ends(Ending::Succeeded, 100);
    let id = w.add(job.every("10s"));
    w.until(21);
    assert_eq!(w.started(id), [1, 2]);
    w.down_until(until);
    (w, id)
}

#[test]
fn r118_a_short_downtime_is_no_misfire() {
    let (w, id) = after_downtime(job().misfire(MisfirePolicy::Skip, None, 0), 34);
    assert_eq!(w.ledger_text(id), ["10 fired", "20 fired", "30 late"]);
}

#[test]
fn r118_once_is_one_run_for_all_that_was_missed() {
    let (w, id) = after_downtime(job(), 68);
    assert_eq!(w.ledger_text(id)[2..], ["30-50 x3 merged>60", "60 late"]);
    assert_eq!(w.run(run(id, 3)).cause(), Cause::Misfire);
    assert_eq!(w.started(id), [1, 2, 3]);
}

#[test]
fn r118_once_joins_a_tick_that_is_due_anyway() {
    let (w, id) = after_downtime(job(), 61);
    assert_eq!(w.ledger_text(id)[2..], ["30-50 x3 merged>60", "60 fired"]);
    assert_eq!(w.started(id), [1, 2, 3]);
}

#[test]
fn r118_skip_makes_up_for_nothing() {
    let (mut w, id) = after_downtime(job().misfire(MisfirePolicy::Skip, None, 0), 68);
    assert_eq!(w.ledger_text(id)[2..], ["30-60 x4 skipped:misfire"]);
    w.until(70);
    assert_eq!(w.started(id), [1, 2, 3]);
}

#[test]
fn r35_all_makes_up_for_each_one_at_a_time() {
    let (mut w, id) = after_downtime(job().misfire(MisfirePolicy::All, None, 0), 68);
    assert_eq!(w.ledger_text(id)[2..], ["30 late", "40 late", "50 late", "60 late"]);
    w.until(69);
    assert_eq!(w.started(id), [1, 2, 3, 4, 5, 6], "an outage of N ticks yields N runs");
}

#[test]
fn r35_all_does_not_let_the_made_up_runs_stand_in_the_way_of_the_next() {
    let (mut w, id) = after_downtime(job().misfire(MisfirePolicy::All, None, 0), 61);
    assert_eq!(w.ledger_text(id)[2..], ["30 late", "40 late", "50 late", "60 fired"]);
    w.until(62);
    assert_eq!(w.started(id), [1, 2, 3, 4, 5, 6]);
}

/// A job of every ten seconds whose runs take 25 s, down until four ticks were missed. The made-up
/// runs are worked off one at a time; what becomes of the ticks that come meanwhile?
fn slow_after_downtime(job: Job) -> Vec<String> {
    let mut w = World::new();
    w.behaviour = Behaviour::Ends(Ending::Succeeded, 100);
    let id = w.add(job.every("10s").misfire(MisfirePolicy::All, None, 0));
    w.until(21);
    w.behaviour = Behaviour::Ends(Ending::Succeeded, 25_000);
    w.down_until(68);
    w.until(151);
    w.ledger_text(id).split_off(2)
}

#[test]
fn r35_all_made_up_runs_wait_under_skip_and_later_ticks_are_skipped_meanwhile() {
    let rows = slow_after_downtime(job());
    assert_eq!(rows[..4], ["30 late", "40 late", "50 late", "60 late"], "none is lost to overlap");
    assert!(rows[4..].iter().all(|row| row.ends_with("skipped:overlap")), "{rows:?}");
}

#[test]
fn r35_all_with_queue_keeps_later_ticks_as_long_as_there_is_room() {
    let rows = slow_after_downtime(job().overlap(OverlapPolicy::Queue, 100));
    assert_eq!(rows[..4], ["30 late", "40 late", "50 late", "60 late"]);
    assert!(rows[4..].iter().all(|row| row.ends_with("fired")), "{rows:?}");
    let rows = slow_after_downtime(job().overlap(OverlapPolicy::Queue, 2));
    assert_eq!(rows[..4], ["30 late", "40 late", "50 late", "60 late"], "`max` does not bind them");
    assert_eq!(rows[4], "70 skipped:overlap", "but it counts them");
}

#[test]
fn r35_all_with_replace_leaves_only_the_last() {
    let all = job().misfire(MisfirePolicy::All, None, 0).overlap(OverlapPolicy::Replace, 0);
    let (mut w, id) = after_downtime(all, 68);
    assert_eq!(w.ledger_text(id)[2..], ["30 late", "40 late", "50 late", "60 late"]);
    w.until(69);
    assert_eq!(w.started(id), [1, 2, 6], "each takes the place of the one before it");
}

#[test]
fn r35_all_is_bounded_and_says_what_it_dropped() {
    let (mut w, id) = after_downtime(job().misfire(MisfirePolicy::All, None, 2), 68);
    let rows = w.ledger_text(id);
    assert_eq!(rows[2..], ["30-40 x2 skipped:misfire", "50 late", "60 late"]);
    w.until(69);
    assert_eq!(w.started(id), [1, 2, 3, 4]);
}

#[test]
fn r35_all_with_allow_runs_them_side_by_side() {
    let all = job().misfire(MisfirePolicy::All, None, 0).overlap(OverlapPolicy::Allow, 0);
    let (w, _) = after_downtime(all, 68);
    assert_eq!(w.starts.iter().filter(|start| start.at == t(68)).count(), 4);
}

#[test]
fn r118_a_window_drops_what_is_too_old() {
    let (w, id) = after_downtime(job().misfire(MisfirePolicy::All, Some("20s"), 0), 68);
    assert_eq!(w.ledger_text(id)[2..], ["30-40 x2 skipped:misfire", "50 late", "60 late"]);
    let (w, id) = after_downtime(job().misfire(MisfirePolicy::Once, Some("1s"), 0), 68);
    assert_eq!(w.ledger_text(id)[2..], ["30-60 x4 skipped:misfire"]);
}

#[test]
fn r71_a_month_at_a_tick_a_second_is_bounded_work() {
    let mut w = World::new();
    w.behaviour = Behaviour::Ends(Ending::Succeeded, 10);
    let all = w.add(job().cron("* * * * * *").misfire(MisfirePolicy::All, Some("90d"), 0));
    let once = w.add(job().every("1s"));
    let month = 30 * 86_400;
    w.down_until(month);
    w.until(month + 60);
    for id in [all, once] {
        let rows = w.ledger(id);
        assert!(rows.len() < 300, "{}", rows.len());
        assert!(rows.iter().any(|(_, row)| row.count_is_minimum), "the rest is counted roughly");
        assert_eq!(w.next_second(id), Some(month + 61));
    }
    assert!(w.started(all).len() > 100);
    assert!(w.most_written < 2_000, "{}", w.most_written);
}
