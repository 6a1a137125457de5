//! Records as they are stored: every released format must be readable for ever.
//!
//! The fixtures hold records as bytes in hexadecimal, with what they mean. A record that encodes
//! differently from its fixture is a changed format; see `docs/changing-a-stored-format.md`. New
//! fixtures are written with `UPDATE_FIXTURES=1 cargo test -p bellwether-core --test records`.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // A test may read its fixtures.

use std::path::PathBuf;

use bellwether_core::record::{
    self, AmqpBroker, AttemptResult, Audit, BasicAuth, BatchRow, Broker, Cause, CommandTarget,
    Definition, Event, EventKind, Filed, GroupRow, HandlerTarget, Header, HttpTarget, Item,
    ItemChunk, JobRow, JobState, KafkaBroker, KeyRow, LastRun, Mark, Misfire, NatsBroker, NodeRow,
    NodeState, OneOff, OutputChunk, Overlap, PartRow, PublishTarget, QueueRow, Resources,
    RestoreRow, Retention, Retry, Rule, RuleForm, Run, RunRow, RunStatus, Schedule, ShardRow,
    StoreRow, Success, Target, TargetWorkers, Tick, TokenRow,
};
use bytes::Bytes;
use prost::Message;

/// Checks one record against its fixture, both ways.
fn check<M: Message + Default + PartialEq + std::fmt::Debug>(name: &str, record: &M) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/records")
        .join(format!("v1-{name}.hex"));
    let encoded = record::encode(record);
    let hex: String = encoded.iter().map(|byte| format!("{byte:02x}")).collect();
    if std::env::var_os("UPDATE_FIXTURES").is_some() {
        std::fs::write(&path, format!("{hex}\n")).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_else(|_| panic!("no {}", path.display()));
    let stored = stored.trim();
    let bytes: Vec<u8> = (0..stored.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&stored[at..at + 2], 16).unwrap())
        .collect();
    let read: M = record::decode(name, Bytes::from(bytes)).unwrap();
    assert!(read == *record, "{name} does not read back as it was: {read:?}");
    assert_eq!(hex, stored, "{name} is written differently from version 1");
}

fn definition(target: Target) -> Definition {
    Definition {
        namespace: "team".into(),
        key: "nightly".into(),
        group: "reports".into(),
        owner: "ana".into(),
        labels: [("team".to_owned(), "bi".to_owned())].into(),
        description: "text".into(),
        schedule: Some(Schedule {
            any: vec![
                Rule { form: Some(RuleForm::Cron("5 2 * * 6".into())) },
                Rule { form: Some(RuleForm::EveryMs(60_000)) },
                Rule { form: Some(RuleForm::EveryAfterFinishMs(60_000)) },
                Rule { form: Some(RuleForm::AtMs(1_794_700_000_000)) },
                Rule { form: Some(RuleForm::DelayMs(5)) },
            ],
            except: vec![Rule { form: Some(RuleForm::Cron("* 3 * * *".into())) }],
            timezone: "Europe/Berlin".into(),
            day_match_both: true,
            dst_gap: 1,
            dst_fold: 2,
            start_ms: Some(1),
            end_ms: Some(2),
            max_runs: 3,
            jitter_ms: 4,
        }),
        target: Some(target),
        queue: "heavy".into(),
        priority: -7,
        retry: Some(Retry { max: 3, initial_ms: 1, factor: 2.5, max_delay_ms: 9, jitter: 0.1 }),
        delivery: 2,
        misfire: Some(Misfire { policy: 2, window_ms: Some(5), max: 6 }),
        overlap: Some(Overlap { policy: 1, max: 4 }),
        ordering_key: "order-1".into(),
        on_failure: 1,
        timeout_ms: 1_000,
        expires_after_ms: 2_000,
        success: Some(Success {
            exit_codes: vec![0, -1],
            output_matches: "ok".into(),
            output_must_not_match: "ERROR".into(),
            status_codes: vec!["2xx".into()],
            json_path: "$.a".into(),
            json_equals: "1".into(),
        }),
        retention: Some(Retention { runs: 5, age_ms: 6 }),
        notify: Bytes::from_static(b"[]"),
        requires: [("gpu".to_owned(), "yes".to_owned())].into(),
        disabled: true,
        ..Definition::default()
    }
}

fn command() -> Target {
    Target::Command(CommandTarget {
        line: "make".into(),
        argv: vec!["a".into(), "b".into()],
        env: [("LANG".to_owned(), "C".to_owned())].into(),
        cwd: "/".into(),
        user: "bo".into(),
        stdin: Bytes::from_static(b"in"),
        shell: "/bin/bash".into(),
        grace_ms: 7,
    })
}

#[test]
fn definitions_of_version_1_are_readable() {
    check("definition-command", &definition(command()));
    let limited = Definition { memory_limit_bytes: 512 << 20, ..definition(command()) };
    check("definition-memory-limit", &limited);
    check(
        "definition-http",
        &definition(Target::Http(HttpTarget {
            method: "POST".into(),
            url: "http://localhost/".into(),
            headers: vec![Header { name: "a".into(), value: "b".into() }],
            body: Bytes::from_static(b"{}"),
            body_is_json: true,
            basic: Some(BasicAuth { username: "u".into(), password: "p".into() }),
            bearer: "t".into(),
            follow_redirects: true,
            connect_timeout_ms: 8,
        })),
    );
    let handler = HandlerTarget { job_type: "mail".into(), payload: Bytes::from_static(b"1") };
    check("definition-handler", &definition(Target::Handler(handler)));
}

#[test]
fn definitions_with_resources_of_version_1_are_readable() {
    let resources = Resources { cpu_milli: Some(500), memory_bytes: Some(0) };
    let definition = Definition { resources: Some(resources), ..definition(command()) };
    check("definition-resources", &definition);
}

#[test]
fn records_of_jobs_on_all_workers_of_version_1_are_readable() {
    let all = Definition { target_workers: TargetWorkers::All as i32, ..definition(command()) };
    check("definition-all-workers", &all);
    let run = Some(Run { pinned: "w7".into(), first_n: 2, ..run() });
    check("run-pinned", &RunRow { run, job: None });
    check("tick-all-workers", &Tick { run: 4, runs: 3, ..Tick::default() });
}

#[test]
fn published_definitions_of_version_1_are_readable() {
    let publish = |broker| {
        definition(Target::Publish(PublishTarget {
            broker: Some(broker),
            headers: vec![Header { name: "a".into(), value: "b".into() }],
            body: Bytes::from_static(b"{}"),
            body_is_json: true,
            body_is_payload: true,
        }))
    };
    let nats = NatsBroker {
        url: "nats://u:p@localhost".into(),
        subject: "jobs.mail".into(),
        jetstream: true,
    };
    check("definition-publish-nats", &publish(Broker::Nats(nats)));
    let amqp = AmqpBroker {
        url: "amqp://u:p@localhost/v".into(),
        exchange: "e".into(),
        routing_key: "q".into(),
    };
    check("definition-publish-amqp", &publish(Broker::Amqp(amqp)));
    let kafka = KafkaBroker {
        brokers: vec!["a:9092".into(), "b:9092".into()],
        topic: "t".into(),
        key: "k".into(),
        tls: true,
        sasl: Some(BasicAuth { username: "u".into(), password: "p".into() }),
    };
    check("definition-publish-kafka", &publish(Broker::Kafka(kafka)));
}

fn run() -> Run {
    Run {
        n: 3,
        scheduled_ms: 1_794_700_000_000,
        filed_ms: 1_794_700_000_001,
        class: 168,
        status: RunStatus::Failed as i32,
        cause: Cause::Misfire as i32,
        attempt: 2,
        failures: 1,
        losses: 1,
        token: 1 << 33,
        worker: "w".into(),
        retry_ms: 5,
        hold: 2,
        cancel_requested: true,
        forget: true,
        events: vec![Event {
            at_ms: 9,
            kind: EventKind::Claimed as i32,
            attempt: 1,
            worker: "w".into(),
            token: 1 << 33,
            exit_code: Some(0),
            signal: Some(9),
            http_status: 200,
            reason: "r".into(),
            detail: "d".into(),
            next_ms: 10,
        }],
        results: vec![AttemptResult {
            attempt: 1,
            http_status: 200,
            headers: vec![Header { name: "a".into(), value: "b".into() }],
            body: Bytes::from_static(b"x"),
            body_dropped: 1,
            output_bytes: 2,
            output_dropped: 3,
            cpu_ms: 4,
            memory_max_bytes: 5,
            result: Bytes::from_static(b"{\"sent\":1}"),
        }],
        ..Run::default()
    }
}

#[test]
fn runs_of_version_1_are_readable() {
    let job = OneOff {
        definition: record::encode(&definition(command())),
        scheduled_ms: 1,
        created_ms: 2,
        class: 168,
        hash: Bytes::from_static(b"0123456789abcdef"),
        batch: 0,
    };
    check("one-off", &job);
    check("run-row", &RunRow { run: Some(run()), job: Some(job) });
    check("filed", &Filed { time_ms: -5, class: 168 });
    let data = Bytes::from_static(b"out");
    check("output-chunk", &OutputChunk { stream: 2, data, dropped_before: 7 });
}

#[test]
fn states_of_version_1_are_readable() {
    let mark = Mark { at_ms: 1, by: "ana".into(), until_ms: Some(2), note: "n".into() };
    check(
        "job-row",
        &JobRow {
            definition: Bytes::from_static(b"d"),
            created_ms: 1,
            updated_ms: 2,
            revision: 3,
            anchor_ms: 4,
            hash: Bytes::from_static(b"h"),
            batch: 0,
        },
    );
    check(
        "job-state",
        &JobState {
            next_ms: Some(1),
            due_ms: Some(2),
            handled_ms: Some(3),
            runs: 4,
            scheduled_runs: 5,
            open: vec![3, 4],
            paused: Some(mark.clone()),
            maintenance: Some(mark.clone()),
            last: Some(LastRun { n: 1, scheduled_ms: 2, status: 5, finished_ms: 3 }),
            ended: true,
            held: true,
            pruned_runs: 6,
            pruned_ticks_ms: 7,
            ticks: 8,
            deleted: true,
            failures: 9,
            broken: true,
        },
    );
    check(
        "tick",
        &Tick {
            fate: 2,
            reason: "misfire".into(),
            decided_ms: 1,
            run: 2,
            count: 3,
            until_ms: 4,
            into_ms: 5,
            detail: "d".into(),
            count_is_minimum: true,
            ..Tick::default()
        },
    );
    check("key-row", &KeyRow { job: u64::MAX, reserved_ms: 1 });
    check("group-row", &GroupRow { paused: Some(mark.clone()), maintenance: Some(mark) });
    let classes = [(168, 1), (720, 2)].into();
    check("shard-row", &ShardRow { last_id: 7, due_from_ms: 8, classes });
    let store = StoreRow { id: "ab".into(), shards: 16, created_ms: 1 };
    check("store-row", &store);
    let restored = RestoreRow {
        backup: "backup-20260101T000000.000Z-ab".into(),
        from_id: "cd".into(),
        taken_ms: 1,
        restored_ms: 2,
        held_jobs: 3,
        lost_runs: 4,
        repeated_runs: 5,
        held_batches: 6,
    };
    check("restore-row", &restored);
    check(
        "token-row",
        &TokenRow {
            name: "deploy".into(),
            hash: Bytes::from_static(b"h"),
            role: "editor".into(),
            namespace: "team".into(),
            created_ms: 1,
            created_by: "admin".into(),
            expires_ms: Some(2),
        },
    );
}

#[test]
fn nodes_queues_and_what_was_done_are_as_they_were() {
    let node = NodeRow {
        node: 1,
        name: "a".into(),
        peer_address: "10.0.0.1:2356".into(),
        api_address: "10.0.0.1:2355".into(),
        zone: "rack-1".into(),
        joined_ms: 2,
        state: NodeState::Leaving as i32,
        join_id: "j".into(),
        replicas: 3,
    };
    check("node-row", &node);
    let mark = Mark { at_ms: 1, by: "ana".into(), until_ms: Some(2), note: "why".into() };
    check("queue-row", &QueueRow { concurrency: 1, rate_milli: 2, paused: Some(mark) });
    let audit = Audit {
        actor: "ana".into(),
        action: "job.create".into(),
        subject: "s".into(),
        namespace: "team".into(),
        detail: "text".into(),
        jobs: vec![1, 2],
    };
    check("audit", &audit);
}

#[test]
fn batches_are_as_they_were() {
    let mark = Mark { at_ms: 1, by: "ana".into(), until_ms: None, note: "why".into() };
    let row = BatchRow {
        namespace: "team".into(),
        key: "march".into(),
        description: "text".into(),
        created_ms: 1,
        created_by: "ana".into(),
        template: Bytes::from_static(b"t"),
        begin_ms: 2,
        stage: 1,
        items: 3,
        chunks: 4,
        next_chunk: 5,
        given_up: 6,
        canceled: Some(mark),
        ended_ms: 7,
        on_complete: 8,
        completion: 9,
        completion_error: "no".into(),
        received_ms: 10,
        hash: Bytes::from_static(b"h"),
        forget_ms: 11,
        parts_told: true,
    };
    check("batch-row", &row);
    let part = PartRow {
        members: 1,
        retrying: 2,
        running: 3,
        succeeded: 4,
        failed: 5,
        canceled: 6,
        lost: 7,
        skipped: 8,
        next_chunk: 9,
        closed: true,
        canceled_upto: 10,
        ended_ms: 11,
        completion: 12,
        canceled_all: true,
    };
    check("part-row", &part);
    let item = Item { data: Bytes::from_static(b"x"), is_text: true };
    check("item-chunk", &ItemChunk { items: vec![item] });
    let job = OneOff { batch: 1, ..OneOff::default() };
    check(
        "member",
        &RunRow { run: Some(Run { batch: 1, counted: 3, ..Run::default() }), job: Some(job) },
    );
    check("member-row", &JobRow { batch: 1, ..JobRow::default() });
}
