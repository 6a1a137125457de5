//! Schedules that compiled when they were stored and no longer do (R24, R38).

use bellwether_core::id::JobId;
use bellwether_core::read::{self, JobStatus, StoredJob};
use bellwether_core::turn::{Ending, Input, Rejection};

use crate::world::job::{ANA, Job, run};
use crate::world::{Behaviour, World, job, t};

/// A zone that no database has.
const GONE: &str = "Mars/Olympus";

/// Two jobs of every ten seconds that have run twice; the zone of the first is gone after 25 s.
fn one_of_two() -> (World, JobId, JobId) {
    let mut w = World::new();
    w.behaviour = Behaviour::Ends(Ending::Succeeded, 100);
    let broken = w.add(job().every("10s").key("broken"));
    let other = w.add(job().every("10s"));
    w.until(25);
    w.rename_zone(broken, GONE);
    w.until(45);
    (w, broken, other)
}

fn stored(w: &World, id: JobId) -> StoredJob {
    read::job(&w.store, id).unwrap().unwrap()
}

fn why(w: &World, id: JobId) -> String {
    read::why(&w.store, &stored(w, id), None, None, w.now).unwrap().answer
}

fn refused(w: &mut World, input: Input) -> Rejection {
    let before = w.store.version;
    let rejection = w.ask(input).unwrap_err();
    assert_eq!(w.store.version, before, "a rejection changes nothing");
    rejection
}

#[test]
fn r24_a_schedule_that_no_longer_compiles_holds_its_own_job_alone() {
    let (w, broken, other) = one_of_two();
    assert_eq!(w.started(other), [1, 2, 3, 4], "the shard goes on");
    assert_eq!(w.started(broken), [1, 2]);
    let mark = w.state(broken).paused.unwrap();
    assert_eq!(mark.by, "system");
    assert!(mark.note.starts_with("its schedule no longer compiles: there is no time zone"));
    let last = w.audits().pop().unwrap();
    assert_eq!((last.actor.as_str(), last.action.as_str()), ("system", "job.hold"));
    assert_eq!((last.subject, last.detail), (broken.to_string(), mark.note.clone()));
    assert_eq!(w.held, [(broken, mark.note)], "the operator is told, once");
}

#[test]
fn r24_a_held_job_can_be_read_and_says_why() {
    let (w, broken, _) = one_of_two();
    let job = stored(&w, broken);
    assert_eq!(job.status(), JobStatus::Paused);
    assert!(job.schedule_text().contains(GONE), "{}", job.schedule_text());
    let answer = why(&w, broken);
    assert!(answer.contains("paused (by system since"), "{answer}");
    assert!(answer.contains("its schedule no longer compiles: there is no"), "{answer}");
    let told = read::why(&w.store, &job, None, Some(t(30)), w.now).unwrap();
    assert!(!told.answer.is_empty());
    let shards = [crate::world::SHARD];
    let paused = read::JobFilter { status: Some(JobStatus::Paused), ..Default::default() };
    let found = read::jobs(&w.store, &shards, &paused, None, 10).unwrap().items;
    assert_eq!(found.iter().map(|job| job.id).collect::<Vec<_>>(), [broken]);
}

#[test]
fn r38_a_held_job_cannot_be_resumed_until_its_schedule_compiles_again() {
    let (mut w, broken, _) = one_of_two();
    let resume = Input::Resume { actor: ANA.to_owned(), job: broken };
    let rejection = refused(&mut w, resume);
    assert_eq!(rejection.code, "schedule_broken");
    assert!(rejection.message.contains(GONE), "{rejection}");
    w.rename_zone(broken, "UTC");
    w.until(55);
    assert_eq!(w.started(broken), [1, 2], "nobody has resumed it");
    w.resume(broken);
    w.until(61);
    assert_eq!(w.ledger_text(broken)[2..], ["30-50 x3 skipped:paused", "60 fired"]);
    assert!(w.ledger(broken)[2].1.detail.contains("by system"), "the ledger says whose pause");
}

#[test]
fn r38_a_new_schedule_ends_the_hold() {
    let (mut w, broken, _) = one_of_two();
    w.replace(broken, &job().every("5s").key("broken"));
    assert!(w.state(broken).paused.is_none() && !w.state(broken).broken);
    w.until(51);
    assert_eq!(w.started(broken), [1, 2, 3]);
}

#[test]
fn r38_an_edit_that_keeps_the_broken_schedule_keeps_the_hold() {
    let (mut w, broken, _) = one_of_two();
    let mut same: Job = job().every("10s").key("broken").about("text");
    same.0.schedule.get_or_insert_default().timezone = GONE.to_owned();
    w.replace(broken, &same);
    assert!(w.state(broken).broken);
    let again = w.try_replace(broken, &same, Some(true)).unwrap_err();
    assert_eq!(again.code, "schedule_broken");
    w.pause(broken);
    assert_eq!(w.state(broken).paused.unwrap().by, ANA, "now it is somebody's wish");
    w.replace(broken, &job().every("5s").key("broken"));
    assert!(w.state(broken).paused.is_some(), "which a new schedule does not undo");
}

#[test]
fn r24_a_period_that_counts_from_the_end_is_held_at_the_end_and_goes_on() {
    let mut w = World::new();
    let id = w.add(job().every_after_finish("10s"));
    w.until(15);
    w.rename_zone(id, GONE);
    assert!(w.state(id).broken, "its run was lost with the server, and so ended");
    w.rename_zone(id, "UTC");
    w.resume(id);
    w.until(26);
    assert_eq!(w.started(id), [1, 2]);
    assert_eq!(w.start_seconds(), [10, 25]);
}

#[test]
fn r24_an_instant_needs_no_zone() {
    let mut w = World::new();
    let mut windowed = job().at(t(30)).ordering("k");
    windowed.0.schedule.get_or_insert_default().end_ms = Some(t(40).0);
    let ids = [w.add(job().at(t(30)).ordering("l")), w.add(windowed)];
    for id in ids {
        w.rename_zone(id, GONE);
    }
    w.until(31);
    for id in ids {
        assert_eq!(w.started(id), [1]);
        w.succeed(run(id, 1));
    }
}

#[test]
fn r31_a_held_job_can_be_triggered_paused_canceled_and_deleted() {
    let (mut w, broken, _) = one_of_two();
    let triggered = w.trigger(broken);
    w.until(46);
    assert_eq!(w.started(broken), [1, 2, triggered.n]);
    w.maintenance(broken, Some(t(100)));
    w.delete(broken);
    w.until(60);
    assert!(read::job(&w.store, broken).unwrap().is_none());
}
