//! Deleting jobs in every stage: nothing is left.

use bellwether_core::record::OverlapPolicy;
use bellwether_core::turn::{Ending, Input};
use bellwether_core::waist::Family;

use crate::world::job::{ANA, Job, run};
use crate::world::worker::printed;
use crate::world::{World, job, t};

/// Deletes a job in the state that `prepare` brings it into, and expects nothing to be left.
fn leaves_nothing(new: Job, prepare: impl FnOnce(&mut World, bellwether_core::id::JobId)) {
    let mut w = World::new();
    let id = w.add(new.key("k").owner("ana").group("g").label("a", "b"));
    prepare(&mut w, id);
    w.delete(id);
    for gone in [
        w.try_trigger(id).map(|_| ()),
        w.try_replace(id, &job().every("1s"), None).map(|_| ()),
        w.ask(Input::Delete { actor: ANA.into(), job: id }).map(|_| ()),
        w.ask(Input::Pause { actor: ANA.into(), job: id, note: String::new() }).map(|_| ()),
        w.ask(Input::Resume { actor: ANA.into(), job: id }).map(|_| ()),
        w.try_retry(run(id, 1)).map(|_| ()).and(Ok(())),
    ] {
        assert!(gone.is_err(), "to the outside it is gone at once");
    }
    for running in w.with_workers() {
        assert!(w.stops.iter().any(|(run, _)| *run == running), "it is stopped");
        w.end(running, Ending::Canceled);
    }
    let starts = w.starts.len();
    w.until_time(w.now.plus_ms(2 * 3_600_000));
    assert_eq!(w.starts.len(), starts, "nothing of it runs");
    let jobs = [Family::Job, Family::State, Family::Key, Family::Tag, Family::History];
    assert!(jobs.iter().all(|family| w.store.count(*family) == 0), "{:?}", w.leftovers());
    w.until_time(w.now.plus_ms(8 * 86_400_000));
    w.prune();
    assert_eq!(w.leftovers(), [], "nor reminders of it");
    assert_eq!(w.actions().last().map(String::as_str), Some("job.delete"));
}

#[test]
fn r62_a_one_off_before_while_and_after_it_runs() {
    leaves_nothing(job().at(t(100)), |_, _| {});
    leaves_nothing(job().at(t(10)).expires("1h"), |w, _| w.until(10));
    leaves_nothing(job().at(t(10)), |w, _| {
        w.slots = 0;
        w.until(10);
    });
    leaves_nothing(job().at(t(10)), |w, id| {
        w.until(10);
        let token = w.running[&run(id, 1)].token;
        w.tell(printed(run(id, 1), token, 0, "hello"));
    });
    leaves_nothing(job().at(t(10)), |w, id| {
        w.until(10);
        let token = w.running[&run(id, 1)].token;
        w.tell(printed(run(id, 1), token, 0, "hello"));
        w.fail(run(id, 1));
    });
    leaves_nothing(job().at(t(10)).retries(3), |w, id| {
        w.until(10);
        w.fail(run(id, 1));
    });
}

#[test]
fn r62_a_one_off_in_full_form() {
    leaves_nothing(job().at(t(100)), |w, id| w.pause(id));
    leaves_nothing(job().at(t(10)), |w, id| {
        w.pause_group("g");
        w.until(20);
        assert!(w.state(id).held);
        w.group("g", bellwether_core::turn::GroupChange::Resume);
    });
    leaves_nothing(job().at(t(10)), |w, _| {
        w.pause_group("g");
        w.until(20);
    });
    leaves_nothing(job().at(t(10)).ordering("o"), |w, _| w.until(20));
    leaves_nothing(job().at(t(10)), |w, id| {
        w.until(10);
        w.succeed(run(id, 1));
        w.trigger(id);
    });
}

#[test]
fn r31_a_recurring_job_with_a_long_past() {
    leaves_nothing(job().every("10s"), |_, _| {});
    leaves_nothing(job().every("10s"), |w, id| w.pause(id));
    leaves_nothing(job().every("10s").overlap(OverlapPolicy::Queue, 5), |w, _| w.until(45));
    leaves_nothing(job().every("10s").overlap(OverlapPolicy::Allow, 0).expires("1m"), |w, _| {
        w.until(45);
    });
    leaves_nothing(job().every("1s"), |w, id| {
        w.look_always = false;
        w.behaviour = crate::world::Behaviour::Ends(Ending::Succeeded, 10);
        w.until(700);
        assert!(w.ledger(id).len() > 600);
        w.behaviour = crate::world::Behaviour::Wait;
    });
}

#[test]
fn r71_a_deleted_run_whose_worker_is_lost_is_gone_all_the_same() {
    for new in [job().at(t(10)), job().every("10s").at_least_once()] {
        let mut w = World::new();
        let id = w.add(new);
        w.until(10);
        w.delete(id);
        w.crash();
        w.until(100);
        assert_eq!(w.starts.len(), 1, "it is not tried again");
        assert_eq!(w.leftovers(), []);
    }
}
