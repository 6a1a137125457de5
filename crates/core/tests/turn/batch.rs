//! Batches (R58): counted in the commit that changes them, expanded and canceled in bounded steps.

use bellwether_core::batch::{Progress, Step, made_already, next_step};
use bellwether_core::id::{BatchId, JobId};
use bellwether_core::read;
use bellwether_core::record::{BatchRow, BatchStage, Count, Item, PartRow, RunStatus};
use bellwether_core::time::DAY_MS;
use bellwether_core::turn::{BatchInput, Ending, Input, Rejection, Reply};
use bellwether_core::waist::Family;
use bytes::Bytes;

use crate::world::batches::{batch_id, members};
use crate::world::job::run;
use crate::world::{Behaviour, Crash, SHARD, World, job, t};

const B: u16 = 1;

/// Makes members of batch 1 that ask for no time of their own.
fn with_members(w: &mut World, count: usize) -> Vec<JobId> {
    let jobs = (0..count).map(|_| job()).collect();
    w.tell(members(batch_id(B), 0, jobs));
    w.members_of(batch_id(B))
}

/// What is known of the batch may be older than what is known of its parts: chunks that became jobs
/// since are not to be counted as given up.
#[test]
fn r58_chunks_that_became_jobs_are_known_though_the_batch_looks_older() {
    let id = BatchId(0);
    let row = BatchRow { chunks: 6, next_chunk: 0, ..BatchRow::default() };
    // Chunks take turns: 0 and 3 are of the first shard, 1 and 4 of the second, 2 and 5 of the third.
    let parts = [4, 5, 3].map(|next_chunk| PartRow { next_chunk, ..PartRow::default() });
    assert_eq!(made_already(id, &row, &parts), [0, 1, 2, 3, 4]);
}

fn counts(w: &World) -> Vec<(Count, u64)> {
    let part = w.part(batch_id(B)).unwrap();
    let all = [
        (Count::Retrying, part.retrying),
        (Count::Running, part.running),
        (Count::Succeeded, part.succeeded),
        (Count::Failed, part.failed),
        (Count::Canceled, part.canceled),
        (Count::Lost, part.lost),
        (Count::Skipped, part.skipped),
    ];
    all.into_iter().filter(|(_, count)| *count > 0).collect()
}

fn text(item: &str) -> Item {
    Item { data: Bytes::copy_from_slice(item.as_bytes()), is_text: true }
}

/// A batch whose template is a command, received in one chunk and accepted.
fn accepted(w: &mut World, key: &str, items: &[&str]) -> BatchId {
    let template = bellwether_core::record::encode(&job().0);
    let row = BatchRow { key: key.to_owned(), template, ..BatchRow::default() };
    let begun = w.batch(batch_id(0), BatchInput::Begin { row: Box::new(row) }).unwrap();
    let Reply::Batch { batch, new: true } = begun else { panic!("{begun:?}") };
    let items = items.iter().map(|item| text(item)).collect();
    w.batch(batch, BatchInput::Receive { chunk: 0, items }).unwrap();
    let hash = Bytes::from_static(b"h");
    w.batch(batch, BatchInput::Accept { actor: "ana".to_owned(), hash }).unwrap();
    batch
}

/// Does what is to be done about a batch until nothing is.
fn drive(w: &mut World, batch: BatchId) {
    loop {
        let stored = read::batch(&w.store, &[SHARD], batch).unwrap().unwrap();
        let inputs = match next_step(&stored.row, &stored.parts, w.now) {
            Step::Expand { from, to } => {
                assert_eq!(to, from + 1, "one shard, one chunk");
                let items = read::batch_items(&w.store, batch, from).unwrap().unwrap().items;
                let definitions =
                    bellwether_core::batch::members(batch, &stored.row, items).unwrap();
                vec![
                    BatchInput::Members { chunk: from, definitions },
                    BatchInput::Expanded { upto: to },
                ]
            }
            Step::Cancel => {
                let made = made_already(batch, &stored.row, &stored.parts);
                let actor = "ana".to_owned();
                while w.batch(batch, BatchInput::CancelMembers { actor: actor.clone() }).unwrap()
                    == Reply::More(true)
                {}
                vec![BatchInput::GiveUp { made }]
            }
            Step::Discard => vec![BatchInput::Discard { only_if_stale: true }],
            Step::End => vec![BatchInput::End { completion: None }],
            Step::TellParts => {
                let keep_ms = stored.row.forget_ms as u64 - w.now.0 as u64 + 1_000;
                vec![BatchInput::PartEnd { keep_ms }, BatchInput::PartsTold]
            }
            Step::Wait(_) | Step::Nothing => return,
        };
        for input in inputs {
            w.batch(batch, input).unwrap();
        }
    }
}

#[test]
fn r58_members_are_counted_whatever_becomes_of_them() {
    let mut w = World::new();
    w.slots = 4;
    let ids = with_members(&mut w, 6);
    assert_eq!(counts(&w), [(Count::Running, 4)]);
    w.succeed(run(ids[0], 1));
    w.fail(run(ids[1], 1));
    w.lose(run(ids[2], 1));
    w.cancel(run(ids[3], 1));
    w.end(run(ids[3], 1), Ending::Canceled);
    w.settle();
    use Count::{Canceled, Failed, Lost, Running, Succeeded};
    let all = [(Running, 2), (Succeeded, 1), (Failed, 1), (Canceled, 1), (Lost, 1)];
    assert_eq!(counts(&w), all);
    w.crash(); // What was under way is lost, and counted as that.
    assert_eq!(counts(&w), [(Succeeded, 1), (Failed, 1), (Canceled, 1), (Lost, 3)]);
    w.retry(run(ids[1], 1));
    assert_eq!(counts(&w), [(Running, 1), (Succeeded, 1), (Canceled, 1), (Lost, 3)]);
    w.succeed(run(ids[1], 1));
    w.trigger(ids[0]); // A second run of a member is its own affair.
    assert_eq!(counts(&w), [(Succeeded, 2), (Canceled, 1), (Lost, 3)]);
    w.delete(ids[4]);
    assert_eq!(counts(&w), [(Succeeded, 2), (Canceled, 1), (Lost, 3)]);
}

#[test]
fn r58_a_member_that_waits_for_another_attempt_is_counted_as_that() {
    let mut w = World::new();
    let batch = batch_id(B);
    w.tell(members(batch, 0, vec![job().retries(3)]));
    let id = w.members_of(batch)[0];
    w.fail(run(id, 1));
    assert_eq!(counts(&w), [(Count::Retrying, 1)]);
    w.until(60);
    assert_eq!(counts(&w), [(Count::Running, 1)]);
    w.lose(run(id, 1)); // With retries it is at-least-once: it runs again.
    w.settle();
    assert_eq!(counts(&w), [(Count::Running, 1)]);
}

#[test]
fn r58_members_of_a_paused_group_wait_and_can_be_canceled_or_deleted() {
    let mut w = World::new();
    w.behaviour = Behaviour::Ends(Ending::Succeeded, 10);
    w.pause_group("g");
    let batch = batch_id(B);
    w.tell(members(batch, 0, (0..4).map(|_| job().group("g")).collect()));
    let ids = w.members_of(batch);
    w.until(5);
    assert_eq!(counts(&w), []);
    w.cancel(run(ids[0], 1));
    w.delete(ids[1]);
    assert_eq!(counts(&w), [(Count::Canceled, 2)]);
    w.group("g", bellwether_core::turn::GroupChange::Resume);
    w.until(10);
    assert_eq!(counts(&w), [(Count::Succeeded, 2), (Count::Canceled, 2)]);
}

#[test]
fn r58_a_chunk_becomes_jobs_once_however_often_it_is_asked_for() {
    let mut w = World::new();
    let batch = batch_id(B);
    let ask = || members(batch, 3, vec![job(), job()]);
    w.turn(vec![ask()], Crash::BeforeCommit);
    assert_eq!(w.members_of(batch).len(), 0);
    w.turn(vec![ask()], Crash::AfterCommit);
    w.tell(ask());
    w.turn(vec![ask(), ask()], Crash::No);
    assert_eq!(w.members_of(batch).len(), 2);
    assert_eq!(w.part(batch).unwrap().members, 2);
}

#[test]
fn r58_members_cannot_be_edited() {
    let mut w = World::new();
    let ids = with_members(&mut w, 1);
    let refused = w.try_replace(ids[0], &job().at(t(50)), None).unwrap_err();
    assert_eq!(refused.code, "batch_member");
}

#[test]
fn r58_a_batch_runs_and_ends_and_is_forgotten_with_its_runs() {
    let mut w = World::new();
    w.behaviour = Behaviour::Ends(Ending::Succeeded, 10);
    let batch = accepted(&mut w, "k", &["a", "b", "c"]);
    drive(&mut w, batch);
    w.until(1);
    drive(&mut w, batch);
    let stored = read::batch(&w.store, &[SHARD], batch).unwrap().unwrap();
    let progress = stored.progress();
    assert_eq!((progress.total, progress.succeeded, progress.waiting), (3, 3, 0));
    assert_eq!(stored.row.stage(), BatchStage::Ended);
    let items: Vec<String> = w.starts.iter().map(|start| item(&start.definition)).collect();
    assert_eq!(items, ["a", "b", "c"]);
    let runs = read::batch_runs(&w.store, &[SHARD], batch, &[], None, 2).unwrap();
    assert_eq!((runs.items.len(), runs.cursor.is_some()), (2, true));
    let rest = read::batch_runs(&w.store, &[SHARD], batch, &[], runs.cursor, 2).unwrap();
    assert_eq!((rest.items.len(), rest.cursor.is_some()), (1, false));
    let failed = [RunStatus::Failed];
    let none = read::batch_runs(&w.store, &[SHARD], batch, &failed, None, 9).unwrap();
    assert!(none.items.is_empty());
    w.until(8 * DAY_MS as i64 / 1_000);
    w.prune();
    assert_eq!(w.store.count(Family::Batch), 0, "nothing is left");
    assert_eq!(w.store.count(Family::Tag), 0);
    assert_eq!(w.actions(), ["batch.create"]);
}

fn item(definition: &bellwether_core::record::Definition) -> String {
    match definition.target.as_ref().unwrap() {
        bellwether_core::record::Target::Command(target) => target.env["BELLWETHER_ITEM"].clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn r58_a_batch_that_is_canceled_gives_up_what_has_not_begun() {
    let mut w = World::new();
    w.slots = 1;
    let batch = accepted(&mut w, "", &["a", "b", "c"]);
    drive(&mut w, batch);
    let more = vec![text("d"), text("e")];
    let late = w.batch(batch, BatchInput::Receive { chunk: 1, items: more }).unwrap_err();
    assert_eq!(late.code, "batch_not_receiving");
    let cancel = BatchInput::Cancel { actor: "ana".to_owned(), note: "wrong".to_owned() };
    w.batch(batch, cancel.clone()).unwrap();
    drive(&mut w, batch);
    let stored = read::batch(&w.store, &[SHARD], batch).unwrap().unwrap();
    let progress = stored.progress();
    assert_eq!((progress.canceled, progress.running), (2, 1), "one is with a worker");
    assert_eq!(stored.row.stage(), BatchStage::Open);
    let running = w.with_workers()[0];
    assert_eq!(w.stops.iter().map(|(run, _)| *run).collect::<Vec<_>>(), [running]);
    w.end(running, Ending::Canceled);
    drive(&mut w, batch);
    let stored = read::batch(&w.store, &[SHARD], batch).unwrap().unwrap();
    assert_eq!((stored.row.stage(), stored.progress().canceled), (BatchStage::Ended, 3));
    assert_eq!(w.batch(batch, cancel).unwrap_err().code, "batch_ended");
    assert_eq!(w.actions(), ["batch.create", "batch.cancel"]);
}

#[test]
fn r58_items_that_have_become_jobs_are_not_given_up_as_well() {
    let mut w = World::new();
    w.slots = 0;
    let batch = accepted(&mut w, "", &["a", "b"]);
    // The jobs are made, and the server dies before the batch knows.
    w.tell(members(batch, 0, vec![job(), job()]));
    w.crash();
    w.batch(batch, BatchInput::Cancel { actor: "ana".to_owned(), note: String::new() }).unwrap();
    drive(&mut w, batch);
    let stored = read::batch(&w.store, &[SHARD], batch).unwrap().unwrap();
    assert_eq!((stored.row.given_up, stored.progress().canceled), (0, 2));
    assert_eq!(stored.row.stage(), BatchStage::Ended);
}

#[test]
fn r58_the_same_key_is_the_same_batch() {
    let mut w = World::new();
    let batch = accepted(&mut w, "k", &["a"]);
    let row = BatchRow { key: "k".to_owned(), ..BatchRow::default() };
    let begin = || BatchInput::Begin { row: Box::new(row.clone()) };
    assert_eq!(w.batch(batch_id(0), begin()).unwrap(), Reply::Batch { batch, new: false });
    let other = BatchRow { namespace: "team".to_owned(), ..row.clone() };
    let other = BatchInput::Begin { row: Box::new(other) };
    let Reply::Batch { batch: receiving, new: true } = w.batch(batch_id(0), other).unwrap() else {
        panic!("another namespace has its own keys")
    };
    let again = BatchRow { namespace: "team".to_owned(), ..row };
    let again = || BatchInput::Begin { row: Box::new(again.clone()) };
    let busy: Rejection = w.batch(batch_id(0), again()).unwrap_err();
    assert_eq!(busy.code, "try_again");
    assert!(read::batches(&w.store, &[SHARD], Some("team"), None, 9).unwrap().items.is_empty());
    // Nobody sends the rest of it: it is thrown away, and its key is free again.
    w.until(61);
    drive_away(&mut w, receiving);
    assert!(matches!(w.batch(batch_id(0), again()), Ok(Reply::Batch { new: true, .. })));
    let listed = read::batches(&w.store, &[SHARD], None, None, 9).unwrap().items;
    assert_eq!(listed.iter().map(|found| found.id).collect::<Vec<_>>(), [batch]);
}

fn drive_away(w: &mut World, batch: BatchId) {
    let row = w.batch_row(batch).unwrap();
    assert_eq!(next_step(&row, &[PartRow::default()], w.now), Step::Discard);
    let discard = BatchInput::Discard { only_if_stale: true };
    assert_eq!(w.batch(batch, discard).unwrap(), Reply::More(false));
    assert!(w.batch_row(batch).is_none());
}

#[test]
fn r58_the_job_that_follows_a_batch_is_triggered_once() {
    let mut w = World::new();
    let after = w.add(job().cron("0 0 1 1 *"));
    let batch = batch_id(2);
    let complete = || Input::Batch { batch, input: Box::new(BatchInput::Complete { job: after }) };
    w.turn(vec![complete()], Crash::AfterCommit);
    assert_eq!(w.tell(complete()), Reply::Run(run(after, 1)));
    assert_eq!(w.tell(complete()), Reply::Run(run(after, 1)));
    assert!(w.find_run(run(after, 2)).is_none());
    assert_eq!(w.audits().last().unwrap().actor, batch.to_string());
}

#[test]
fn r58_members_are_made_only_as_others_end() {
    use bellwether_core::batch::OPEN_MAX;
    let row = BatchRow {
        stage: BatchStage::Open as i32,
        items: 1_000_000,
        chunks: 1_000,
        next_chunk: 66,
        ..BatchRow::default()
    };
    let full = PartRow { members: OPEN_MAX, ..PartRow::default() };
    let empty = PartRow::default();
    assert_eq!(next_step(&row, &[full, empty], t(0)), Step::Wait(None));
    let ended = PartRow { succeeded: 1, ..full };
    assert_eq!(next_step(&row, &[ended, empty], t(0)), Step::Expand { from: 66, to: 68 });
    let retrying = PartRow { retrying: 1, ..full };
    assert_eq!(next_step(&row, &[retrying, empty], t(0)), Step::Expand { from: 66, to: 68 });
    let later = BatchRow { begin_ms: t(5).0, ..row.clone() };
    assert_eq!(next_step(&later, &[ended, empty], t(4)), Step::Wait(Some(t(5))));
    let progress = Progress::of(&row, &[ended, empty]);
    assert_eq!((progress.waiting, progress.ended()), (999_999, 1));
}

#[test]
fn r58_a_cancel_that_is_interrupted_goes_on() {
    let mut w = World::new();
    w.slots = 0;
    w.look_always = false;
    let items: Vec<String> = (0..600).map(|n| n.to_string()).collect();
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    let batch = accepted(&mut w, "", &items);
    drive(&mut w, batch);
    w.batch(batch, BatchInput::Cancel { actor: "ana".to_owned(), note: String::new() }).unwrap();
    let step = || BatchInput::CancelMembers { actor: "ana".to_owned() };
    assert_eq!(w.batch(batch, step()).unwrap(), Reply::More(true));
    w.crash();
    let stored = read::batch(&w.store, &[SHARD], batch).unwrap().unwrap();
    assert_eq!(stored.progress().canceled, 500, "some are left");
    assert_eq!(next_step(&stored.row, &stored.parts, w.now), Step::Cancel);
    drive(&mut w, batch);
    let stored = read::batch(&w.store, &[SHARD], batch).unwrap().unwrap();
    assert_eq!((stored.progress().canceled, stored.row.stage()), (600, BatchStage::Ended));
}

#[test]
fn r58_what_was_partly_thrown_away_is_not_accepted() {
    let mut w = World::new();
    let begun = w.batch(batch_id(0), BatchInput::Begin { row: Box::default() }).unwrap();
    let Reply::Batch { batch, .. } = begun else { panic!("{begun:?}") };
    let receive = |chunk, items| BatchInput::Receive { chunk, items };
    for chunk in 0..20 {
        w.batch(batch, receive(chunk, vec![text("a")])).unwrap();
    }
    let discard = || BatchInput::Discard { only_if_stale: true };
    w.until(50);
    w.batch(batch, receive(20, Vec::new())).unwrap(); // It is slow, but it is there.
    w.until(70);
    assert_eq!(w.batch(batch, discard()).unwrap(), Reply::More(false));
    assert_eq!(w.batch_row(batch).unwrap().stage(), BatchStage::Receiving);
    w.until(111);
    assert_eq!(w.batch(batch, discard()).unwrap(), Reply::More(true), "some chunks are gone");
    let late = w.batch(batch, receive(20, vec![text("b")])).unwrap_err();
    assert_eq!(late.code, "batch_not_receiving");
    let accept = BatchInput::Accept { actor: "ana".to_owned(), hash: Bytes::new() };
    assert_eq!(w.batch(batch, accept).unwrap_err().code, "batch_not_receiving");
    drive_gone(&mut w, batch);
    assert_eq!(w.store.count(Family::Batch), 0);
}

fn drive_gone(w: &mut World, batch: BatchId) {
    while let Some(row) = w.batch_row(batch) {
        assert_eq!(next_step(&row, &[PartRow::default()], w.now), Step::Discard);
        w.batch(batch, BatchInput::Discard { only_if_stale: true }).unwrap();
    }
}

#[test]
fn r58_a_batch_is_forgotten_in_time_whatever_is_set_later() {
    let mut w = World::new();
    w.behaviour = Behaviour::Ends(Ending::Succeeded, 10);
    let batch = accepted(&mut w, "k", &["a"]);
    drive(&mut w, batch);
    w.until(1);
    drive(&mut w, batch);
    // All members are over, and the parts are not yet told: that is not forgotten in a crash.
    w.settings.retention_age_ms *= 10;
    w.crash();
    w.until(8 * DAY_MS as i64 / 1_000);
    assert!(w.batch_row(batch).is_none(), "its key is free again");
    assert!(w.part(batch).is_none());
}
