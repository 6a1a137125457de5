//! One-off jobs: at an instant, after a delay (R2, R3, R4).

use bellwether_core::record::{EventKind as E, MisfirePolicy, RunStatus as S};
use bellwether_core::turn::Ending;

use crate::world::job::run;
use crate::world::{Behaviour, World, job, t};

#[test]
fn r2_a_job_at_an_instant_fires_once_and_never_again() {
    let mut w = World::new();
    w.behaviour = Behaviour::Ends(Ending::Succeeded, 100);
    let id = w.add(job().at(t(10)));
    assert!(w.is_compact(id));
    w.until(9);
    assert!(w.starts.is_empty());
    w.until(1_000);
    assert_eq!(w.start_seconds(), [10]);
    assert_eq!(w.status(run(id, 1)), S::Succeeded);
    assert_eq!(w.events(run(id, 1)), [E::Queued, E::Claimed, E::Started, E::Succeeded]);
}

#[test]
fn r2_a_job_in_the_past_is_due_at_once() {
    let mut w = World::new();
    w.until(100);
    let id = w.add(job().at(t(-86_400)));
    let ordered = w.add(job().at(t(3)).ordering("a"));
    w.until(101);
    assert_eq!(w.start_seconds(), [100, 100]);
    assert_eq!(w.started(id), [1]);
    assert_eq!(w.started(ordered), [1]);
}

#[test]
fn r3_delays_run_in_the_order_of_their_ends() {
    let mut w = World::new();
    let ids = ["3s", "2s", "1s", "7s"].map(|delay| w.add(job().delay(delay)));
    w.until(10);
    assert_eq!(w.start_seconds(), [1, 2, 3, 7]);
    let order: Vec<_> = w.starts.iter().map(|start| start.run.job).collect();
    assert_eq!(order, [ids[2], ids[1], ids[0], ids[3]]);
}

#[test]
fn r4_an_earlier_job_added_later_fires_first() {
    let mut w = World::new();
    w.add(job().delay("10s"));
    let sooner = w.add(job().delay("1s"));
    w.until(1);
    assert_eq!(w.started(sooner), [1]);
    w.until(10);
    assert_eq!(w.start_seconds(), [1, 10]);
}

#[test]
fn r71_a_one_off_is_never_dropped_unless_it_has_a_window() {
    let mut w = World::new();
    let kept = w.add(job().at(t(10)));
    let window = w.add(job().at(t(10)).misfire(MisfirePolicy::Once, Some("1h"), 0));
    let skip = w.add(job().at(t(10)).misfire(MisfirePolicy::Skip, None, 0));
    let ordered = w.add(job().at(t(10)).ordering("k").misfire(MisfirePolicy::Skip, None, 0));
    w.down_until(86_400 * 30);
    assert_eq!(w.started(kept), [1]);
    for id in [window, skip] {
        assert_eq!(w.status(run(id, 1)), S::Skipped);
        assert_eq!(w.reason(run(id, 1)), "misfire");
    }
    assert_eq!(w.ledger_text(ordered), ["10 skipped:misfire"]);
    w.succeed(run(kept, 1));
    w.until(86_400 * 60);
    w.prune();
    assert_eq!(w.leftovers(), [], "what was dropped goes the way of what ran");
}
