//! One of each thing that is made a message of, with a value in every field, and no value twice in one
//! message: so fields that are mixed up show.
//!
//! A sample is what a line of `tests/fixtures/node-v1.txt` stands for. It is not changed: what is new gets a sample and a
//! line of its own.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_core::bounds::{self, Left, Want};
use bellwether_core::id::{BatchId, JobId, RunId};
use bellwether_core::record::{
    AttemptResult, BatchRow, CommandTarget, Definition, EventKind, Item, NodeRow, OutputChunk,
    RunStatus, Target, TokenRow,
};
use bellwether_core::shard::StillHeld;
use bellwether_core::time::Time;
use bellwether_core::turn::{
    Assignment, BatchInput, Created, Demand, Ending, Finished, GroupChange, HeldJob, Input, Lane,
    NewJob, NodeChange, Notice, Offer, QueueChange, Rejection, RejectionKind, Reply, Report,
    Reported, Turnstile, Work,
};
use bellwether_core::waist::Family;
use bytes::Bytes;

use super::super::ask::Answer;
use super::super::attend::{Said, SaidOfActing, SaidOfReplica};
use super::super::claims::Hint;
use super::super::live::GiveUp;
use super::super::rows::{Page, Scan, Told};
use crate::node::News;
use crate::shard::{Claimed, Grant};

type Named<T> = Vec<(&'static str, T)>;

const ACTOR: &str = "ana";

fn text(text: &str) -> String {
    text.to_owned()
}

fn data(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn job() -> JobId {
    JobId(0x0102_0304_0506_0708)
}

pub fn run() -> RunId {
    RunId { job: job(), n: 9 }
}

fn definition() -> Definition {
    Definition {
        namespace: text("team"),
        key: text("nightly"),
        priority: -7,
        target: Some(Target::Command(CommandTarget { line: text("make"), ..Default::default() })),
        ..Definition::default()
    }
}

fn node_row() -> NodeRow {
    NodeRow {
        node: 3,
        name: text("c"),
        peer_address: text("10.0.0.3:2356"),
        api_address: text("10.0.0.3:2355"),
        zone: text("rack-3"),
        joined_ms: 5,
        state: 1,
        join_id: text("j"),
        replicas: 7,
    }
}

fn chunk() -> OutputChunk {
    OutputChunk { stream: 2, data: data("hello"), dropped_before: 8 }
}

/// Everything that may be asked of a shard.
pub fn inputs() -> Named<Input> {
    let mut all = about_jobs();
    all.extend(about_the_rest());
    let batch = |input| Input::Batch { batch: BatchId(0x1122), input: Box::new(input) };
    all.extend(batches().into_iter().map(|(name, input)| (name, batch(input))));
    all
}

fn about_jobs() -> Named<Input> {
    let (actor, job, note) = (text(ACTOR), job(), text("why"));
    let new = |reserved| NewJob { definition: definition(), hash: data("h"), reserved };
    let reserved = new(Some((job, Time(11))));
    let replace = Input::Replace {
        actor: actor.clone(),
        job,
        definition: Box::new(definition()),
        hash: data("h"),
        enabled: Some(true),
        expected_revision: Some(4),
    };
    let maintenance =
        Input::Maintenance { actor: actor.clone(), job, until: Some(Time(11)), note: note.clone() };
    let [namespace, key] = [text("team"), text("nightly")];
    let reserve_key = Input::ReserveKey {
        namespace: namespace.clone(),
        key: key.clone(),
        job,
        replace: Some(JobId(5)),
    };
    vec![
        ("create", Input::Create { actor: actor.clone(), jobs: vec![new(None), reserved] }),
        ("new-id", Input::NewId),
        ("reserve-key", reserve_key),
        ("free-key", Input::FreeKey { namespace, key, job }),
        ("replace", replace),
        ("delete", Input::Delete { actor: actor.clone(), job }),
        ("pause", Input::Pause { actor: actor.clone(), job, note }),
        ("resume", Input::Resume { actor: actor.clone(), job }),
        ("maintenance", maintenance),
        ("trigger", Input::Trigger { actor, job }),
    ]
}

fn about_the_rest() -> Named<Input> {
    let actor = || text(ACTOR);
    let group = |change| {
        let [namespace, group] = [text("team"), text("reports")];
        Input::Group { actor: actor(), namespace, group, change }
    };
    let note = || text("why");
    let maintenance = GroupChange::Maintenance { until: Some(Time(11)), note: note() };
    let token = TokenRow { name: text("t"), hash: data("h"), ..TokenRow::default() };
    let (concurrency, rate_milli, paused) = (Some(4), Some(5), Some(true));
    let change = QueueChange { concurrency, rate_milli, paused, note: note() };
    let node = |change| Input::Node { actor: actor(), change };
    vec![
        ("group-pause", group(GroupChange::Pause { note: note() })),
        ("group-resume", group(GroupChange::Resume)),
        ("group-maintenance", group(maintenance)),
        ("cancel", Input::Cancel { actor: actor(), run: run() }),
        ("retry", Input::Retry { actor: actor(), run: run() }),
        ("lost", Input::Lost { run: run(), token: 77, detail: text("silent") }),
        ("put-token", Input::PutToken { actor: actor(), token }),
        ("put-queue", Input::PutQueue { actor: actor(), name: text("heavy"), change }),
        ("node-join", node(NodeChange::Join(node_row()))),
        ("node-introduce", node(NodeChange::Introduce(node_row()))),
        ("node-leave", node(NodeChange::Leave(3))),
        ("node-forget", node(NodeChange::Forget(3))),
        ("revoke", Input::RevokeToken { actor: actor(), name: text("t"), keep_admin: true }),
    ]
}

fn batches() -> Named<BatchInput> {
    let (actor, note) = (text(ACTOR), text("why"));
    let row = BatchRow { key: text("march"), template: data("t"), items: 3, ..Default::default() };
    let items = vec![Item { data: data("x"), is_text: true }];
    let definitions = vec![definition()];
    let end = |completion| BatchInput::End { completion };
    vec![
        ("batch-begin", BatchInput::Begin { row: Box::new(row) }),
        ("batch-receive", BatchInput::Receive { chunk: 4, items }),
        ("batch-accept", BatchInput::Accept { actor: actor.clone(), hash: data("h") }),
        ("batch-discard", BatchInput::Discard { only_if_stale: true }),
        ("batch-expanded", BatchInput::Expanded { upto: 5 }),
        ("batch-cancel", BatchInput::Cancel { actor: actor.clone(), note }),
        ("batch-give-up", BatchInput::GiveUp { made: vec![1, 300] }),
        ("batch-end-none", end(None)),
        ("batch-end-run", end(Some(Ok(6)))),
        ("batch-end-error", end(Some(Err(text("no"))))),
        ("batch-parts-told", BatchInput::PartsTold),
        ("batch-members", BatchInput::Members { chunk: 4, definitions }),
        ("batch-cancel-members", BatchInput::CancelMembers { actor }),
        ("batch-part-end", BatchInput::PartEnd { keep_ms: 8 }),
        ("batch-complete", BatchInput::Complete { job: job() }),
    ]
}

/// Everything that workers say.
pub fn reports() -> Named<Report> {
    let finished = |how| {
        Reported::Finished(Box::new(Finished {
            started: Some(Time(11)),
            finished: Time(12),
            how,
            exit_code: Some(-1),
            signal: Some(9),
            http_status: 503,
            reason: text("exit_code"),
            detail: text("It ended with 1."),
            result: Some(AttemptResult { attempt: 2, body: data("{}"), ..Default::default() }),
            output: vec![chunk()],
            output_sequence: 4,
        }))
    };
    let all = vec![
        ("started", Reported::Started { at: Time(11) }),
        ("output", Reported::Output { sequence: 4, chunks: vec![chunk()] }),
        ("succeeded", finished(Ending::Succeeded)),
        ("failed", finished(Ending::Failed)),
        ("failed-for-good", finished(Ending::FailedForGood)),
        ("canceled", finished(Ending::Canceled)),
        ("interrupted", finished(Ending::Interrupted)),
        ("handed-back", Reported::HandedBack),
    ];
    let report = |what| Report { run: run(), token: 77, what };
    all.into_iter().map(|(name, what)| (name, report(what))).collect()
}

/// Everything that may become of a question.
pub fn answers() -> Named<Answer> {
    let rejection =
        |kind| Rejection { kind, code: "busy".into(), message: text("Try again later.") };
    let rejected = |kind| Answer::Rejected(rejection(kind));
    let created = vec![Ok(Created { job: job(), new: true }), Err(rejection(RejectionKind::Busy))];
    vec![
        ("done", Answer::Reply(Reply::Done)),
        ("created", Answer::Reply(Reply::Created(created))),
        ("run", Answer::Reply(Reply::Run(run()))),
        ("runs", Answer::Reply(Reply::Runs(run(), 4))),
        ("more", Answer::Reply(Reply::More(true))),
        ("batch", Answer::Reply(Reply::Batch { batch: BatchId(0x1122), new: true })),
        ("stale", Answer::Reply(Reply::Stale)),
        ("node", Answer::Reply(Reply::Node(3, text("c")))),
        ("not-found", rejected(RejectionKind::NotFound)),
        ("conflict", rejected(RejectionKind::Conflict)),
        ("invalid", rejected(RejectionKind::Invalid)),
        ("busy", rejected(RejectionKind::Busy)),
        ("overloaded", Answer::Overloaded),
        ("stopped", Answer::Stopped),
        ("not-leader", Answer::NotLeader { leader: Some(2) }),
        ("no-leader", Answer::NotLeader { leader: None }),
        ("store-failed", Answer::StoreFailed(text("The disk is full."))),
    ]
}

fn lane(work: Work) -> Lane {
    Lane {
        queue: text("heavy"),
        namespace: text("team"),
        work,
        requires: BTreeMap::from([(text("gpu"), text("yes")), (text("os"), text("linux"))]),
        pinned: text("w7"),
        demand: Demand { cpu_milli: 500, memory_bytes: 1 << 30 },
    }
}

/// A lane of each kind of work.
pub fn lanes() -> Named<Lane> {
    vec![
        ("command", lane(Work::Command)),
        ("http", lane(Work::Http)),
        ("handler", lane(Work::Handler(text("mail")))),
    ]
}

fn head() -> (Lane, Turnstile, usize) {
    (lane(Work::Command), Turnstile { rank: -5, scheduled: Time(11), run: run() }, 300)
}

pub fn hint() -> Hint {
    Hint { shard: 3, term: 7, heads: vec![head()] }
}

pub fn grant() -> Grant {
    Grant { lane: lane(Work::Http), worker: "w1".into(), slots: 16, others: true }
}

pub fn claimed() -> Claimed {
    let assignment = Assignment {
        run: run(),
        attempt: 2,
        token: 77,
        worker: text("w1"),
        scheduled: Time(11),
        due: Time(12),
        pinned: text("w7"),
        definition: definition(),
    };
    Claimed { assignments: vec![assignment], heads: vec![head()], term: 7 }
}

pub fn still_held() -> StillHeld {
    let lane = lane(Work::Command);
    StillHeld { worker: text("w1"), run: run(), token: 77, stop: true, lane }
}

pub fn give_up() -> GiveUp {
    let (worker, detail) = (text("w1"), text("silent"));
    GiveUp { shard: 3, worker, node: 2, detail, runs: vec![(run(), 77)] }
}

/// What a node says of itself.
pub fn said() -> Said {
    let offer = Offer {
        namespace: Some(text("team")),
        queues: BTreeSet::from([text("heavy"), text("light")]),
        labels: BTreeMap::from([(text("gpu"), text("yes"))]),
        commands: true,
        http: false,
        job_types: BTreeSet::from([text("mail")]),
    };
    let most = Demand { cpu_milli: 500, memory_bytes: 1 << 30 };
    let replica = SaidOfReplica {
        shard: 3,
        leader: Some(2),
        term: 21,
        last: 305,
        applied: 300,
        behind: 4,
        voters: BTreeSet::from([1, 2, 3]),
        learners: BTreeSet::from([4]),
        membership: 290,
        changing: true,
        confirmed_ms: Some(40),
        agreed: Some(301),
        bytes: Some(70_000),
        acting: Some(SaidOfActing { term: 7, open_runs: 5, ready_runs: 6, wheel_entries: 8 }),
    };
    Said {
        row: node_row(),
        started: Time(11),
        version: text("0.1.0"),
        disk_bytes: 1 << 20,
        log_bytes: 1 << 10,
        replicas: vec![replica],
        stopping: true,
        workers: vec![("w1".into(), offer, most)],
        removed: false,
        leaving: true,
        hears: vec![NodeRow { node: 2, ..node_row() }],
        queues: vec![(text("heavy"), 4, 9)],
        clock: Some(Time(1_700_000_000_000)),
    }
}

pub fn notice() -> Notice {
    Notice {
        at: Time(11),
        run: run(),
        kind: EventKind::try_from(5).unwrap(),
        status: RunStatus::try_from(3).unwrap(),
        attempt: 2,
        namespace: text("team"),
        key: text("nightly"),
        queue: text("heavy"),
        reason: text("overlap"),
    }
}

/// Everything that listeners are told.
pub fn news() -> Named<News> {
    let held = HeldJob {
        at: Time(11),
        job: job(),
        namespace: text("team"),
        key: text("nightly"),
        queue: text("heavy"),
        reason: "schedule".into(),
        why: text("It does not compile."),
    };
    vec![
        ("run", News::Run(Box::new(notice()))),
        ("held", News::Held(Box::new(held))),
        ("missed", News::Missed(4)),
    ]
}

pub fn keys() -> Vec<(Family, Bytes)> {
    vec![(Family::Batch, data("a")), (Family::Meta, data(""))]
}

pub fn scan() -> Scan {
    Scan { family: Family::Tick, from: data("a"), to: data("b"), back: true, rows_max: 30 }
}

pub fn values() -> Told {
    Told::Values(vec![Some(data("")), None, Some(data("x"))])
}

pub fn page() -> Told {
    Told::Page(Page { rows: vec![(data("k"), data("v"))], complete: true })
}

pub fn bound_ask() -> bounds::Ask {
    let want = Want {
        under_way: 1,
        ceiling: 2,
        launched: 3,
        launches: 4,
        waiting: 5,
        first: (-6, Time(7)),
        stuck: true,
    };
    let wants = BTreeMap::from([(text("team"), want)]);
    bounds::Ask { shard: 8, term: 9, queue: text("heavy"), seq: 10, wants }
}

pub fn bound_answers() -> Vec<bounds::Answer> {
    let left = BTreeMap::from([(text("team"), Left { ceiling: 1, launches: 2 })]);
    let answer = bounds::Answer { shard: 3, term: 4, queue: text("heavy"), seq: Some(5), left };
    vec![answer.clone(), bounds::Answer { seq: None, ..answer }]
}
