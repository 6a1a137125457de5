//! Anything that can travel.

use bellwether_core::id::{BatchId, JobId, RunId};
use bellwether_core::record::{
    AttemptResult, BatchRow, CommandTarget, Definition, EventKind, HandlerTarget, HttpTarget, Item,
    OutputChunk, Resources, RunStatus, Target, TokenRow,
};
use bellwether_core::time::Time;
use bellwether_core::turn::{
    Assignment, BatchInput, Created, Demand, Ending, Finished, GroupChange, HeldJob, Input, Lane,
    NewJob, NodeChange, Notice, Offer, QueueChange, Rejection, RejectionKind, Reply, Report,
    Reported, Turnstile, Work,
};
use bytes::Bytes;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::ask::Answer;

fn text() -> impl Strategy<Value = String> {
    ".{0,8}"
}

fn data() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..9).prop_map(Bytes::from)
}

fn time() -> impl Strategy<Value = Time> {
    any::<i64>().prop_map(Time)
}

fn job() -> impl Strategy<Value = JobId> {
    any::<u64>().prop_map(JobId)
}

fn run() -> impl Strategy<Value = RunId> {
    (job(), any::<u32>()).prop_map(|(job, n)| RunId { job, n })
}

fn definition() -> impl Strategy<Value = Definition> {
    let target = option::of(prop_oneof![
        text().prop_map(|line| Target::Command(CommandTarget { line, ..Default::default() })),
        text().prop_map(|url| Target::Http(HttpTarget { url, ..Default::default() })),
        (text(), data()).prop_map(|(job_type, payload)| {
            Target::Handler(HandlerTarget { job_type, payload })
        }),
    ]);
    let resources = option::of(
        option::of(any::<u32>()).prop_map(|cpu_milli| Resources { cpu_milli, memory_bytes: None }),
    );
    (text(), text(), btree_map(text(), text(), 0..3), any::<i32>(), target, resources).prop_map(
        |(namespace, key, labels, priority, target, resources)| Definition {
            namespace,
            key,
            labels,
            priority,
            target,
            resources,
            ..Definition::default()
        },
    )
}

fn new_job() -> impl Strategy<Value = NewJob> {
    (definition(), data(), option::of((job(), time())))
        .prop_map(|(definition, hash, reserved)| NewJob { definition, hash, reserved })
}

fn group_change() -> impl Strategy<Value = GroupChange> {
    prop_oneof![
        text().prop_map(|note| GroupChange::Pause { note }),
        Just(GroupChange::Resume),
        (option::of(time()), text())
            .prop_map(|(until, note)| GroupChange::Maintenance { until, note }),
    ]
}

fn queue_change() -> impl Strategy<Value = QueueChange> {
    (option::of(any::<u32>()), option::of(any::<u64>()), option::of(any::<bool>()), text())
        .prop_map(|(concurrency, rate_milli, paused, note)| QueueChange {
            concurrency,
            rate_milli,
            paused,
            note,
        })
}

fn token() -> impl Strategy<Value = TokenRow> {
    (text(), data(), option::of(any::<i64>())).prop_map(|(name, hash, expires_ms)| TokenRow {
        name,
        hash,
        expires_ms,
        ..TokenRow::default()
    })
}

fn chunks() -> impl Strategy<Value = Vec<OutputChunk>> {
    let chunk = (1u32..3, data(), any::<u64>());
    vec(
        chunk.prop_map(|(stream, data, dropped_before)| OutputChunk {
            stream,
            data,
            dropped_before,
        }),
        0..3,
    )
}

fn finished() -> impl Strategy<Value = Finished> {
    let how = select(vec![
        Ending::Succeeded,
        Ending::Failed,
        Ending::FailedForGood,
        Ending::Canceled,
        Ending::Interrupted,
    ]);
    let result = option::of((any::<u32>(), data()).prop_map(|(attempt, body)| AttemptResult {
        attempt,
        body,
        ..Default::default()
    }));
    let numbers = (option::of(any::<i32>()), option::of(any::<i32>()), any::<u32>());
    let output = (chunks(), any::<u32>());
    (option::of(time()), time(), how, numbers, text(), text(), result, output).prop_map(
        |(started, finished, how, numbers, reason, detail, result, output)| Finished {
            started,
            finished,
            how,
            exit_code: numbers.0,
            signal: numbers.1,
            http_status: numbers.2,
            reason,
            detail,
            result,
            output: output.0,
            output_sequence: output.1,
        },
    )
}

/// Any report of a worker.
pub fn report() -> impl Strategy<Value = Report> {
    let what = prop_oneof![
        time().prop_map(|at| Reported::Started { at }),
        (any::<u32>(), chunks())
            .prop_map(|(sequence, chunks)| Reported::Output { sequence, chunks }),
        finished().prop_map(|finished| Reported::Finished(Box::new(finished))),
        Just(Reported::HandedBack),
    ];
    (run(), any::<u64>(), what).prop_map(|(run, token, what)| Report { run, token, what })
}

fn items() -> impl Strategy<Value = Vec<Item>> {
    vec((data(), any::<bool>()).prop_map(|(data, is_text)| Item { data, is_text }), 0..3)
}

fn batch() -> impl Strategy<Value = BatchInput> {
    let row = (text(), data(), any::<u64>()).prop_map(|(key, template, items)| BatchRow {
        key,
        template,
        items,
        ..BatchRow::default()
    });
    let completion = option::of(prop_oneof![
        any::<u32>().prop_map(Ok::<u32, String>),
        text().prop_map(Err::<u32, String>),
    ]);
    prop_oneof![
        row.prop_map(|row| BatchInput::Begin { row: Box::new(row) }),
        (any::<u32>(), items()).prop_map(|(chunk, items)| BatchInput::Receive { chunk, items }),
        (text(), data()).prop_map(|(actor, hash)| BatchInput::Accept { actor, hash }),
        any::<bool>().prop_map(|only_if_stale| BatchInput::Discard { only_if_stale }),
        any::<u32>().prop_map(|upto| BatchInput::Expanded { upto }),
        (text(), text()).prop_map(|(actor, note)| BatchInput::Cancel { actor, note }),
        vec(any::<u32>(), 0..4).prop_map(|made| BatchInput::GiveUp { made }),
        completion.prop_map(|completion| BatchInput::End { completion }),
        Just(BatchInput::PartsTold),
        (any::<u32>(), vec(definition(), 0..3))
            .prop_map(|(chunk, definitions)| BatchInput::Members { chunk, definitions }),
        text().prop_map(|actor| BatchInput::CancelMembers { actor }),
        any::<u64>().prop_map(|keep_ms| BatchInput::PartEnd { keep_ms }),
        job().prop_map(|job| BatchInput::Complete { job }),
    ]
}

/// Wishes about jobs.
fn about_jobs() -> impl Strategy<Value = Input> {
    let replace = (text(), job(), definition(), data(), option::of(any::<bool>()));
    prop_oneof![
        (text(), vec(new_job(), 0..3)).prop_map(|(actor, jobs)| Input::Create { actor, jobs }),
        Just(Input::NewId),
        (text(), text(), job(), option::of(job())).prop_map(|(namespace, key, job, replace)| {
            Input::ReserveKey { namespace, key, job, replace }
        }),
        (text(), text(), job()).prop_map(|(namespace, key, job)| Input::FreeKey {
            namespace,
            key,
            job
        }),
        (replace, option::of(any::<u32>())).prop_map(
            |((actor, job, definition, hash, enabled), expected_revision)| Input::Replace {
                actor,
                job,
                definition: Box::new(definition),
                hash,
                enabled,
                expected_revision,
            }
        ),
        (text(), job()).prop_map(|(actor, job)| Input::Delete { actor, job }),
        (text(), job(), text()).prop_map(|(actor, job, note)| Input::Pause { actor, job, note }),
        (text(), job()).prop_map(|(actor, job)| Input::Resume { actor, job }),
        (text(), job(), option::of(time()), text()).prop_map(|(actor, job, until, note)| {
            Input::Maintenance { actor, job, until, note }
        }),
        (text(), job()).prop_map(|(actor, job)| Input::Trigger { actor, job }),
    ]
}

/// Anything that may be asked of a shard of another node.
pub fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        10 => about_jobs(),
        1 => (text(), text(), text(), group_change()).prop_map(
            |(actor, namespace, group, change)| Input::Group { actor, namespace, group, change }
        ),
        1 => (text(), run()).prop_map(|(actor, run)| Input::Cancel { actor, run }),
        1 => (text(), run()).prop_map(|(actor, run)| Input::Retry { actor, run }),
        3 => report().prop_map(Input::Report),
        1 => (run(), any::<u64>(), text())
            .prop_map(|(run, token, detail)| Input::Lost { run, token, detail }),
        10 => (any::<u64>(), batch()).prop_map(|(id, input)| Input::Batch {
            batch: BatchId(id),
            input: Box::new(input)
        }),
        1 => (text(), token()).prop_map(|(actor, token)| Input::PutToken { actor, token }),
        1 => (text(), text(), queue_change())
            .prop_map(|(actor, name, change)| Input::PutQueue { actor, name, change }),
        1 => (text(), node_change()).prop_map(|(actor, change)| Input::Node { actor, change }),
        1 => (text(), text(), any::<bool>()).prop_map(|(actor, name, keep_admin)| {
            Input::RevokeToken { actor, name, keep_admin }
        }),
    ]
}

fn node_change() -> impl Strategy<Value = NodeChange> {
    let row = (any::<u64>(), text(), text()).prop_map(|(node, name, zone)| {
        bellwether_core::record::NodeRow { node, name, zone, ..Default::default() }
    });
    let row = row.boxed();
    prop_oneof![
        row.clone().prop_map(NodeChange::Join),
        row.prop_map(NodeChange::Introduce),
        any::<u64>().prop_map(NodeChange::Leave),
        any::<u64>().prop_map(NodeChange::Forget),
    ]
}

fn rejection() -> impl Strategy<Value = Rejection> {
    let kind = select(vec![
        RejectionKind::NotFound,
        RejectionKind::Conflict,
        RejectionKind::Invalid,
        RejectionKind::Busy,
    ]);
    (kind, text(), text()).prop_map(|(kind, code, message)| Rejection {
        kind,
        code: code.into(),
        message,
    })
}

fn reply() -> impl Strategy<Value = Reply> {
    let created = prop_oneof![
        (job(), any::<bool>()).prop_map(|(job, new)| Ok(Created { job, new })),
        rejection().prop_map(Err),
    ];
    prop_oneof![
        Just(Reply::Done),
        vec(created, 0..3).prop_map(Reply::Created),
        run().prop_map(Reply::Run),
        (run(), any::<u32>()).prop_map(|(run, count)| Reply::Runs(run, count)),
        any::<bool>().prop_map(Reply::More),
        (any::<u64>(), any::<bool>())
            .prop_map(|(id, new)| Reply::Batch { batch: BatchId(id), new }),
        Just(Reply::Stale),
        (any::<u64>(), text()).prop_map(|(node, name)| Reply::Node(node, name)),
    ]
}

/// Anything that may become of a question.
pub fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        6 => reply().prop_map(Answer::Reply),
        2 => rejection().prop_map(Answer::Rejected),
        1 => Just(Answer::Overloaded),
        1 => Just(Answer::Stopped),
        1 => option::of(any::<u64>()).prop_map(|leader| Answer::NotLeader { leader }),
        1 => text().prop_map(Answer::StoreFailed),
    ]
}

/// Any demand.
pub fn demand() -> impl Strategy<Value = Demand> {
    (any::<u64>(), any::<u64>())
        .prop_map(|(cpu_milli, memory_bytes)| Demand { cpu_milli, memory_bytes })
}

/// Any lane.
pub fn lane() -> impl Strategy<Value = Lane> {
    let work = prop_oneof![Just(Work::Command), Just(Work::Http), text().prop_map(Work::Handler)];
    (text(), text(), work, btree_map(text(), text(), 0..3), text(), demand()).prop_map(
        |(queue, namespace, work, requires, pinned, demand)| Lane {
            queue,
            namespace,
            work,
            requires,
            pinned,
            demand,
        },
    )
}

/// Any place of a run in its lane.
pub fn turnstile() -> impl Strategy<Value = Turnstile> {
    (any::<i32>(), time(), run()).prop_map(|(rank, scheduled, run)| Turnstile {
        rank,
        scheduled,
        run,
    })
}

/// Any offer of a worker.
pub fn offer() -> impl Strategy<Value = Offer> {
    let names = || btree_set(text(), 0..3);
    let labels = btree_map(text(), text(), 0..3);
    (option::of(text()), names(), labels, any::<bool>(), any::<bool>(), names()).prop_map(
        |(namespace, queues, labels, commands, http, job_types)| Offer {
            namespace,
            queues,
            labels,
            commands,
            http,
            job_types,
        },
    )
}

/// Any attempt.
pub fn assignment() -> impl Strategy<Value = Assignment> {
    (run(), any::<u32>(), any::<u64>(), text(), time(), time(), text(), definition()).prop_map(
        |(run, attempt, token, worker, scheduled, due, pinned, definition)| Assignment {
            run,
            attempt,
            token,
            worker,
            scheduled,
            due,
            pinned,
            definition,
        },
    )
}

/// Any notice.
pub fn notice() -> impl Strategy<Value = Notice> {
    let kind = (1i32..=12).prop_map(|kind| EventKind::try_from(kind).unwrap());
    let status = (0i32..=9).prop_map(|status| RunStatus::try_from(status).unwrap());
    let names = (text(), text(), text(), text());
    (time(), run(), kind, status, any::<u32>(), names).prop_map(
        |(at, run, kind, status, attempt, (namespace, key, queue, reason))| Notice {
            at,
            run,
            kind,
            status,
            attempt,
            namespace,
            key,
            queue,
            reason,
        },
    )
}

/// Any job that was paused by the rules themselves.
pub fn held() -> impl Strategy<Value = HeldJob> {
    (time(), job(), text(), text(), text(), text(), text()).prop_map(
        |(at, job, namespace, key, queue, reason, why)| HeldJob {
            at,
            job,
            namespace,
            key,
            queue,
            reason: reason.into(),
            why,
        },
    )
}
