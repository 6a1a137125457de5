//! Out of a backup (R114): what may have run in the gap and must not run twice is held, the rest
//! goes on, and nothing that an old worker says is believed.

use bellwether_core::batch::{Step, members as definitions, next_step};
use bellwether_core::id::JobId;
use bellwether_core::read::{self, StoredJob};
use bellwether_core::record::{BatchRow, Item, RunStatus};
use bellwether_core::turn::{
    BatchInput, Ending, Finished, Gap, HeldCount, Input, Reply, Report, Reported, RestoreCursor,
    Turn, load,
};
use bytes::Bytes;

use crate::world::batches::batch_id;
use crate::world::job::run;
use crate::world::{Behaviour, SHARD, Store, World, job, t};

/// The store as it was is brought back at `at`; it was copied at `taken`.
fn restore(w: &mut World, backup: Store, taken: i64, at: i64, step: usize) -> HeldCount {
    w.store = backup;
    w.now = t(at);
    w.memory = load(&w.store, SHARD, w.memory.term + 1, w.settings.clone()).unwrap();
    let gap = Gap { taken: t(taken), restored: t(at) };
    let mut count = HeldCount::default();
    let mut cursor = Some(RestoreCursor::default());
    while let Some(from) = cursor {
        let mut turn = Turn::new(&w.store, &mut w.memory, w.now);
        cursor = turn.hold_restored(&gap, from, step, &mut count).unwrap();
        let ops = turn.finish().ops;
        w.store.commit(&ops);
    }
    w.restart(true);
    w.settle();
    count
}

fn note(w: &World, id: JobId) -> String {
    let mark = w.state(id).paused.expect("it is held");
    assert_eq!(mark.by, "restore");
    mark.note
}

fn stored(w: &World, id: JobId) -> StoredJob {
    read::job(&w.store, id).unwrap().unwrap()
}

const NOTE: &str = "restored from a backup of 2026-01-01T00:00:25.000Z; it may have run until \
                    2026-01-01T00:01:05.000Z; 'bellwether job resume' to go on";

#[test]
fn r114_a_job_that_was_due_in_the_gap_is_held_and_the_gap_is_in_the_ledger() {
    let mut w = World::new();
    w.behaviour = Behaviour::Ends(Ending::Succeeded, 100);
    let held = w.add(job().every("10s").at_most_once());
    w.until(25);
    let backup = w.store.clone();
    w.until(60);
    let count = restore(&mut w, backup, 25, 65, 1_000);
    assert_eq!(count, HeldCount { jobs: 1, ..HeldCount::default() });
    assert_eq!(note(&w, held), NOTE);
    assert_eq!(w.ledger_text(held), ["10 fired", "20 fired", "30-60 x4 skipped:restored"]);
    let started = w.started(held).len();
    w.until(85);
    assert_eq!(w.started(held).len(), started, "nothing runs while it is held");
    let why = read::why(&w.store, &stored(&w, held), None, Some(t(40)), w.now).unwrap();
    assert_eq!(
        why.answer,
        "Nobody knows whether it ran at 2026-01-01T00:00:40.000Z: it was restored from a backup of \
         2026-01-01T00:00:25.000Z; it may have run until 2026-01-01T00:01:05.000Z."
    );
    let last = w.audits().pop().unwrap();
    assert_eq!((last.actor.as_str(), last.action.as_str()), ("restore", "job.hold"));
    w.resume(held);
    w.until(91);
    assert_eq!(
        w.ledger_text(held)[2..],
        ["30-60 x4 skipped:restored", "70-80 x2 skipped:paused", "90 fired"]
    );
}

#[test]
fn r114_a_job_that_was_not_due_in_the_gap_is_not_held() {
    let mut w = World::new();
    w.behaviour = Behaviour::Ends(Ending::Succeeded, 100);
    let hourly = w.add(job().every("1h").at_most_once());
    let later = w.add(job().at(t(100)));
    let paused = w.add(job().every("10s").at_most_once());
    w.pause(paused);
    w.until(25);
    let backup = w.store.clone();
    let count = restore(&mut w, backup, 25, 65, 1);
    assert_eq!(count, HeldCount::default());
    assert!(w.is_compact(later));
    assert_eq!(w.state(paused).paused.unwrap().by, "ana", "a pause that is there stands");
    w.until(3_700);
    assert_eq!((w.started(later).len(), w.started(hourly).len()), (1, 1));
}

#[test]
fn r114_work_that_may_be_repeated_goes_on_under_its_misfire_policy() {
    let mut w = World::new();
    w.behaviour = Behaviour::Ends(Ending::Succeeded, 100);
    let often = w.add(job().every("10s").at_least_once());
    let once = w.add(job().at(t(40)).retries(1));
    w.until(25);
    let backup = w.store.clone();
    w.until(60);
    let count = restore(&mut w, backup, 25, 125, 2);
    assert_eq!(count, HeldCount::default());
    w.until(131);
    assert!(w.state(often).paused.is_none());
    assert_eq!(w.ledger_text(often).last().unwrap(), "130 fired");
    assert_eq!(w.started(once).len(), 2, "in the gap, and once more");
}

#[test]
fn r114_one_off_jobs_that_were_due_in_the_gap_are_held_and_not_fired() {
    let mut w = World::new();
    w.behaviour = Behaviour::Ends(Ending::Succeeded, 100);
    let due: Vec<JobId> = (0..5).map(|n| w.add(job().at(t(30 + n)))).collect();
    let full = w.add(job().at(t(50)).ordering("k"));
    w.until(25);
    let backup = w.store.clone();
    w.until(28);
    let count = restore(&mut w, backup, 25, 65, 2);
    assert_eq!(count, HeldCount { jobs: 6, ..HeldCount::default() });
    w.until(1_000);
    for id in due.iter().chain([&full]) {
        assert_eq!(note(&w, *id), NOTE);
        assert!(w.started(*id).is_empty(), "{id} was fired");
    }
    w.resume(due[0]);
    w.resume(full);
    assert_eq!((w.started(due[0]).len(), w.started(full).len()), (1, 1), "somebody decided");
    w.delete(due[1]);
    assert!(w.started(due[1]).is_empty());
}

#[test]
fn r114_open_runs_that_must_not_be_repeated_are_lost() {
    let mut w = World::new();
    w.slots = 2;
    w.behaviour = Behaviour::Wait;
    let recurring = w.add(job().every("20s").at_most_once());
    let one_off = w.add(job().at(t(20)));
    let queued = w.add(job().at(t(21)));
    w.until(25);
    assert_eq!(w.status(run(queued, 1)), RunStatus::Queued);
    let backup = w.store.clone();
    let count = restore(&mut w, backup, 25, 35, 1);
    assert_eq!(count, HeldCount { jobs: 1, lost: 3, ..HeldCount::default() });
    for id in [recurring, one_off, queued] {
        assert_eq!(w.status(run(id, 1)), RunStatus::Lost);
        assert_eq!(w.reason(run(id, 1)), "restored");
    }
    assert!(note(&w, recurring).starts_with("restored from a backup"));
    w.retry(run(queued, 1));
    assert_eq!(w.started(queued).len(), 1, "the operator may want it after all");
}

#[test]
fn r114_a_run_that_waits_for_its_next_attempt_is_lost_as_well() {
    let mut w = World::new();
    w.behaviour = Behaviour::Ends(Ending::Failed, 100);
    let id = w.add(job().at(t(10)).retries(3).at_most_once());
    w.until(11);
    assert_eq!(w.status(run(id, 1)), RunStatus::Retrying);
    let backup = w.store.clone();
    let count = restore(&mut w, backup, 11, 12, 1);
    assert_eq!(count, HeldCount { lost: 1, ..HeldCount::default() });
    let started = w.started(id).len();
    w.until(1_000);
    assert_eq!((w.status(run(id, 1)), w.started(id).len()), (RunStatus::Lost, started));
}

#[test]
fn r114_what_workers_of_the_old_cluster_say_is_not_believed() {
    let mut w = World::new();
    w.slots = 1;
    let id = w.add(job().at(t(10)).at_least_once());
    w.until(20);
    let token = w.run(run(id, 1)).token;
    let backup = w.store.clone();
    let count = restore(&mut w, backup, 20, 25, 1);
    assert_eq!(count, HeldCount { repeated: 1, ..HeldCount::default() });
    assert_ne!(w.run(run(id, 1)).token, token, "it was started again, under a new token");
    let finished = Finished { started: None, ..Finished::at(t(25), Ending::Succeeded) };
    let what = Reported::Finished(Box::new(finished));
    let said = w.tell(Input::Report(Report { run: run(id, 1), token, what }));
    assert_eq!(said, Reply::Stale);
}

/// A batch of items that have yet to become jobs.
fn batch(w: &mut World, template: Bytes, items: Vec<Item>) -> bellwether_core::id::BatchId {
    let row = BatchRow { template, ..BatchRow::default() };
    let begun = w.batch(batch_id(0), BatchInput::Begin { row: Box::new(row) }).unwrap();
    let Reply::Batch { batch, new: true } = begun else { panic!("{begun:?}") };
    w.batch(batch, BatchInput::Receive { chunk: 0, items }).unwrap();
    let hash = Bytes::from_static(b"h");
    w.batch(batch, BatchInput::Accept { actor: "ana".to_owned(), hash }).unwrap();
    batch
}

#[test]
fn r114_items_of_batches_that_may_have_run_become_jobs_that_are_held() {
    let encode = |job: crate::world::job::Job| bellwether_core::record::encode(&job.0);
    let item = |data: Bytes| Item { data, is_text: false };
    let mut w = World::new();
    let by_template = batch(&mut w, encode(job()), vec![item(Bytes::from_static(b"1"))]);
    let may_repeat = encode(job().at_least_once());
    let whole = batch(&mut w, Bytes::new(), vec![item(encode(job())), item(may_repeat)]);
    w.until(25);
    let backup = w.store.clone();
    let count = restore(&mut w, backup, 25, 65, 1);
    assert_eq!(count, HeldCount { batches: 2, ..HeldCount::default() });
    for (batch, held) in [(by_template, 1), (whole, 1)] {
        let stored = read::batch(&w.store, &[SHARD], batch).unwrap().unwrap();
        let step = next_step(&stored.row, &stored.parts, w.now);
        assert_eq!(step, Step::Expand { from: 0, to: 1 });
        let items = read::batch_items(&w.store, batch, 0).unwrap().unwrap().items;
        let definitions = definitions(batch, &stored.row, items).unwrap();
        w.batch(batch, BatchInput::Members { chunk: 0, definitions }).unwrap();
        w.settle();
        let members = w.members_of(batch);
        let (on_hold, others): (Vec<JobId>, Vec<JobId>) =
            members.into_iter().partition(|id| !w.is_compact(*id));
        assert_eq!(on_hold.len(), held);
        assert!(others.iter().all(|id| w.started(*id).len() == 1));
        for id in on_hold {
            assert!(w.started(id).is_empty());
            assert!(note(&w, id).contains("its batch was restored"), "{}", note(&w, id));
            w.resume(id);
            assert_eq!(w.started(id).len(), 1);
        }
    }
}
