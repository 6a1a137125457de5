//! Groups: paused, maintained and resumed as one (R41).

use bellwether_core::read;
use bellwether_core::turn::{Ending, GroupChange};

use crate::world::job::run;
use crate::world::{Behaviour, World, job, t};

fn busy() -> World {
    let mut w = World::new();
    w.behaviour = Behaviour::Ends(Ending::Succeeded, 100);
    w
}

#[test]
fn r41_a_paused_group_holds_one_offs_back_and_skips_ticks() {
    let mut w = busy();
    let cron = w.add(job().every("10s").group("g"));
    let once = w.add(job().at(t(15)).group("g"));
    let other = w.add(job().at(t(15)).group("h"));
    w.pause_group("g");
    w.until(25);
    w.crash();
    w.until(35);
    assert_eq!(w.started(other), [1]);
    assert_eq!(w.starts.len(), 1);
    w.group("g", GroupChange::Resume);
    w.until(40);
    assert_eq!((w.started(cron), w.started(once)), (vec![1], vec![1]));
    assert_eq!(w.ledger_text(cron)[..2], ["10 skipped:paused", "20 skipped:paused"]);
    assert!(w.actions().ends_with(&["group.pause".to_owned(), "group.resume".to_owned()]));
}

#[test]
fn r41_what_a_group_stops_says_which_group_who_and_why() {
    let mut w = busy();
    let cron = w.add(job().every("10s").group("g"));
    let once = w.add(job().at(t(15)).group("g"));
    w.until(1);
    w.group("g", GroupChange::Pause { note: "repairs".to_owned() });
    w.until(16);
    let who = format!("(by ana since {}: repairs)", t(1));
    assert_eq!(w.ledger(cron)[0].1.detail, format!("group 'g' was paused {who}"));
    let why = |w: &World, id, at| {
        let job = read::job(&w.store, id).unwrap().unwrap();
        let group = read::group(&w.store, crate::world::SHARD, "default", "g").unwrap();
        read::why(&w.store, &job, group.as_ref(), at, w.now).unwrap().answer
    };
    let now = format!("It does not run because its group 'g' is paused {who}.");
    assert_eq!(why(&w, cron, None), now);
    assert_eq!(why(&w, once, None), now);
    assert_eq!(
        why(&w, cron, Some(t(10))),
        format!("It did not run at {}: group 'g' was paused {who}.", t(10))
    );
    assert_eq!(
        why(&w, once, Some(t(15))),
        format!("It is due at {}, but its group 'g' is paused {who}.", t(15))
    );
    w.group("g", GroupChange::Maintenance { until: Some(t(18)), note: String::new() });
    w.group("g", GroupChange::Resume);
    w.group("g", GroupChange::Maintenance { until: Some(t(35)), note: String::new() });
    w.until(41);
    let until = format!("(by ana since {} until {})", t(16), t(35));
    assert_eq!(w.ledger(cron)[1].1.detail, format!("group 'g' was in maintenance {until}"));
    assert_eq!(why(&w, cron, None), format!("It waits for its time: {}.", t(50)), "it is over");
}

#[test]
fn r41_queued_runs_of_a_paused_group_wait() {
    let mut w = World::new();
    w.slots = 0;
    let once = w.add(job().at(t(1)).group("g"));
    w.until(2);
    w.pause_group("g");
    w.slots = 5;
    w.until(10);
    assert!(w.starts.is_empty());
    w.group("g", GroupChange::Resume);
    assert_eq!(w.with_workers(), [run(once, 1)]);
}

#[test]
fn r41_more_than_a_step_are_released_even_if_nobody_asks_again() {
    let mut w = busy();
    w.look_always = false;
    for _ in 0..1_100 {
        w.add(job().at(t(5)).group("g"));
    }
    w.pause_group("g");
    w.until(10);
    assert!(w.starts.is_empty());
    w.tell(bellwether_core::turn::Input::Group {
        actor: "ana".into(),
        namespace: "default".into(),
        group: "g".into(),
        change: GroupChange::Resume,
    });
    w.crash();
    w.until(60);
    assert_eq!(w.starts.len(), 1_100);
}

#[test]
fn r40_a_group_in_maintenance_releases_in_time_or_when_resumed() {
    let mut w = busy();
    let timely = w.add(job().at(t(10)).group("g"));
    let early = w.add(job().at(t(10)).group("h"));
    for group in ["g", "h"] {
        w.group(group, GroupChange::Maintenance { until: Some(t(100)), note: String::new() });
    }
    w.until(20);
    w.group("h", GroupChange::Resume);
    assert_eq!(w.started(early), [1], "ended before its time");
    w.until(99);
    assert!(w.started(timely).is_empty());
    w.until(100);
    assert_eq!(w.started(timely), [1]);
}

#[test]
fn r41_a_job_that_leaves_a_paused_group_goes_on() {
    let mut w = busy();
    let held = w.add(job().at(t(5)).group("g"));
    w.pause_group("g");
    w.until(10);
    w.replace(held, &job().at(t(5)).group("h"));
    assert_eq!(w.started(held), [1]);
    w.slots = 0;
    let parked = w.add(job().every("10s"));
    w.replace(parked, &job().every("10s").group("g"));
    w.until(20);
    w.slots = 5;
    w.replace(parked, &job().every("10s").group("h"));
    w.until(40);
    assert!(!w.started(parked).is_empty());
}
