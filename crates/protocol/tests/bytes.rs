//! What workers and servers say to one another, as bytes that every version has to understand.
//!
//! Numbers and types of all fields are held fast in `schema.rs`. Here are whole conversations of both sides, fully
//! populated, as they go over the wire: nested, in a `oneof`, with maps and numbers below zero.

#![allow(clippy::unwrap_used)]

mod kept;

use bellwether_protocol::v1::{
    Amqp, Assignment, Assignments, BasicAuth, Capacity, Chunk, Command, Drain, Ending, Finished,
    FromWorker, HandedBack, Handler, Header, Heartbeat, HeartbeatHeard, Held, Hello, Http,
    HttpResponse, Kafka, Leaving, Nats, Output, Publish, Report, Reports, ReportsStored, Resources,
    Started, Stop, StopReason, Stops, Success, ToWorker, Usage, Welcome, assignment, capacity,
    from_worker, publish, report, to_worker,
};
use bytes::Bytes;
use prost::Message;

use kept::Kept;

fn text(text: &str) -> String {
    text.to_owned()
}

fn held() -> Held {
    Held { run: text("r-1"), token: 77 }
}

fn header() -> Header {
    Header { name: text("a"), value: text("b") }
}

fn basic() -> Option<BasicAuth> {
    Some(BasicAuth { username: text("u"), password: text("p") })
}

fn output() -> Output {
    let data = Bytes::from_static(b"hello\n");
    Output { sequence: 4, chunks: vec![Chunk { stream: 2, data, dropped_before: 9 }] }
}

fn finished() -> Finished {
    Finished {
        started_ms: Some(1_794_700_000_000),
        finished_ms: 1_794_700_000_500,
        ending: Ending::Failed.into(),
        exit_code: Some(-1),
        signal: Some(9),
        reason: text("exit_code"),
        detail: text("It ended with 1."),
        http: Some(HttpResponse {
            status: 503,
            headers: vec![header()],
            body: Bytes::from_static(b"busy"),
            body_truncated: true,
        }),
        result: Bytes::from_static(b"{}"),
        output: Some(output()),
        output_bytes: 300,
        output_dropped: 5,
        usage: Some(Usage { cpu_micros: 1_000, memory_peak_bytes: 1 << 20 }),
    }
}

fn from_worker() -> Vec<(&'static str, from_worker::Message)> {
    use from_worker::Message;
    let hello = |mode| Hello {
        name: text("w1"),
        instance: text("abc"),
        version: text("0.1.0"),
        queues: vec![text("heavy")],
        labels: [(text("gpu"), text("yes"))].into(),
        capacity: Some(Capacity { mode: Some(mode) }),
        commands: true,
        http: true,
        job_types: vec![text("mail")],
        held: vec![held()],
    };
    let resources = Resources { cpu_milli: 1_500, memory_bytes: 1 << 30 };
    let report = |what| Report { run: text("r-1"), token: 77, what: Some(what) };
    let reports = [
        report::What::Started(Started { at_ms: 1_794_700_000_000 }),
        report::What::Output(output()),
        report::What::Finished(finished()),
        report::What::HandedBack(HandedBack {}),
    ];
    let reports = reports.into_iter().map(report).collect();
    vec![
        ("hello-slots", Message::Hello(hello(capacity::Mode::Slots(8)))),
        ("hello-resources", Message::Hello(hello(capacity::Mode::Resources(resources)))),
        ("hello-unlimited", Message::Hello(hello(capacity::Mode::Unlimited(true)))),
        ("heartbeat", Message::Heartbeat(Heartbeat { number: 300 })),
        ("reports", Message::Reports(Reports { number: 2, reports })),
        ("leaving", Message::Leaving(Leaving {})),
    ]
}

fn assignment(target: assignment::Target) -> Assignment {
    Assignment {
        run: text("r-1"),
        job: text("j-1"),
        key: text("nightly"),
        namespace: text("team"),
        queue: text("heavy"),
        attempt: 2,
        token: 77,
        scheduled_at: text("2026-01-01T00:00:00Z"),
        timeout_ms: 5_000,
        target: Some(target),
        success: Some(Success {
            exit_codes: vec![0, -1],
            output_matches: text("ok"),
            output_must_not_match: text("ERROR"),
            status_codes: vec![text("2xx")],
            json_path: text("$.a"),
            json_equals: text("1"),
        }),
    }
}

fn targets() -> Vec<assignment::Target> {
    use assignment::Target;
    let publish = |broker| {
        let (headers, body) = (vec![header()], Bytes::from_static(b"1"));
        Target::Publish(Publish { broker: Some(broker), headers, body })
    };
    vec![
        Target::Command(Command {
            line: text("make"),
            argv: vec![text("a"), text("b")],
            env: [(text("LANG"), text("C"))].into(),
            cwd: text("/"),
            user: text("bo"),
            stdin: Bytes::from_static(b"in"),
            shell: text("/bin/bash"),
            grace_ms: 7,
            memory_limit_bytes: 1 << 29,
        }),
        Target::Http(Http {
            method: text("POST"),
            url: text("http://localhost/"),
            headers: vec![header()],
            body: Bytes::from_static(b"{}"),
            basic: basic(),
            bearer: text("t"),
            follow_redirects: true,
            connect_timeout_ms: 8,
        }),
        Target::Handler(Handler { job_type: text("mail"), payload: Bytes::from_static(b"1") }),
        publish(publish::Broker::Nats(Nats {
            url: text("nats://localhost"),
            subject: text("s"),
            jetstream: true,
        })),
        publish(publish::Broker::Amqp(Amqp {
            url: text("amqp://localhost"),
            exchange: text("e"),
            routing_key: text("k"),
        })),
        publish(publish::Broker::Kafka(Kafka {
            brokers: vec![text("localhost:9092")],
            topic: text("t"),
            key: text("k"),
            tls: true,
            sasl: basic(),
        })),
    ]
}

fn to_worker() -> Vec<(&'static str, to_worker::Message)> {
    use to_worker::Message;
    let welcome = Welcome {
        heartbeat_ms: 500,
        lease_ms: 3_000,
        server_version: text("0.1.0"),
        store: text("c-1"),
        sole: true,
        void: vec![held()],
    };
    let assignments = targets().into_iter().map(assignment).collect();
    let stop = Stop { run: text("r-1"), token: 77, reason: StopReason::LeaseLost.into() };
    vec![
        ("welcome", Message::Welcome(welcome)),
        ("heartbeat-heard", Message::HeartbeatHeard(HeartbeatHeard { number: 300 })),
        ("reports-stored", Message::ReportsStored(ReportsStored { number: 2 })),
        ("assignments", Message::Assignments(Assignments { assignments })),
        ("stops", Message::Stops(Stops { stops: vec![stop] })),
        ("drain", Message::Drain(Drain {})),
    ]
}

#[test]
fn r117_workers_and_servers_of_other_versions_are_understood() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    let mut kept = Kept::open(format!("{dir}/worker-v1.txt"));
    for (name, message) in from_worker() {
        let message = FromWorker { message: Some(message) };
        let read = |bytes: &[u8]| FromWorker::decode(bytes);
        kept.check(&format!("from-worker-{name}"), &message, message.encode_to_vec(), read);
    }
    for (name, message) in to_worker() {
        let message = ToWorker { message: Some(message) };
        let read = |bytes: &[u8]| ToWorker::decode(bytes);
        kept.check(&format!("to-worker-{name}"), &message, message.encode_to_vec(), read);
    }
}
