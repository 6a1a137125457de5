//! History is pruned by age and by count (R30, R81).

use bellwether_core::record::{MisfirePolicy, RunStatus as S};
use bellwether_core::turn::Ending;
use bellwether_core::waist::Family;

use crate::world::job::run;
use crate::world::worker::printed;
use crate::world::{Behaviour, World, job, t};

const DAY: i64 = 86_400;

fn busy() -> World {
    let mut w = World::new();
    w.behaviour = Behaviour::Ends(Ending::Succeeded, 100);
    w
}

#[test]
fn r30_old_history_goes_and_recent_history_stays() {
    let mut w = busy();
    let old = w.add(job().at(t(10)).key("old").owner("ana"));
    let recent = w.add(job().at(t(5 * DAY)));
    let short = w.add(job().at(t(5 * DAY)).retention(0, "1d"));
    let long = w.add(job().at(t(10)).retention(0, "30d"));
    w.until(8 * DAY);
    w.prune();
    assert_eq!(w.find_run(run(old, 1)), None);
    assert_eq!(w.find_run(run(short, 1)), None);
    assert_eq!(w.status(run(recent, 1)), S::Succeeded);
    assert_eq!(w.status(run(long, 1)), S::Succeeded);
    assert_eq!((w.store.count(Family::Key), w.store.count(Family::Tag)), (0, 0));
    w.until(60 * DAY);
    w.prune();
    assert_eq!(w.leftovers(), []);
}

#[test]
fn r82_thousands_of_one_instant_are_pruned_too() {
    let mut w = busy();
    w.look_always = false;
    for _ in 0..1_300 {
        w.add(job().at(t(10)));
    }
    w.until(20);
    assert_eq!(w.starts.len(), 1_300);
    w.until(8 * DAY);
    w.prune();
    assert_eq!(w.leftovers(), []);
}

#[test]
fn r30_a_recurring_job_keeps_so_many_runs() {
    let mut w = busy();
    let id = w.add(job().every("10s").retention(3, "30d"));
    w.until(105);
    let kept: Vec<u32> = (1..=10).filter(|n| w.find_run(run(id, *n)).is_some()).collect();
    assert_eq!(kept, [8, 9, 10]);
}

#[test]
fn r30_a_run_that_outlives_its_retention_is_filed_when_it_ends() {
    let mut w = World::new();
    let compact = run(w.add(job().at(t(10)).retention(0, "1h")), 1);
    let full = run(w.add(job().every("10s").max_runs(1).retention(0, "1h")), 1);
    w.until(10);
    w.until(3 * 3_600);
    w.prune();
    for id in [compact, full] {
        let token = w.running[&id].token;
        w.tell(printed(id, token, 0, "still here"));
        w.fail(id);
        assert_eq!(w.status(id), S::Failed, "it can be seen");
        w.retry(id);
        w.succeed(id);
    }
    w.until(6 * 3_600);
    w.prune();
    assert_eq!((w.find_run(compact), w.find_run(full)), (None, None));
    assert_eq!(w.store.count(Family::Index), 0);
}

#[test]
fn r30_dead_letters_go_with_their_history() {
    let mut w = World::new();
    w.behaviour = Behaviour::Ends(Ending::Failed, 0);
    w.add(job().at(t(10)));
    w.add(job().every("1d").max_runs(2));
    w.until(2 * DAY);
    assert_eq!(w.store.count(Family::Dead), 3);
    w.until(20 * DAY);
    w.prune();
    assert_eq!(w.store.count(Family::Dead), 0);
}

#[test]
fn r30_a_one_off_that_never_ran_goes_as_well() {
    let mut w = busy();
    w.add(job().at(t(10)).ordering("k").misfire(MisfirePolicy::Skip, None, 0));
    let promoted = w.add(job().at(t(10)));
    w.down_until(3_600);
    w.until(3_700);
    w.pause(promoted);
    w.until(20 * DAY);
    w.prune();
    assert_eq!(w.leftovers(), []);
}
