//! Between the core's records and what workers are told and say.

use bellwether_core::record::{
    AttemptResult, Broker, Definition, Header, HttpTarget, OutputChunk, PublishTarget, Success,
    Target as StoredTarget,
};
use bellwether_core::time::Time;
use bellwether_core::turn::{
    Assignment, Ending, Finished, Report, Reported, namespace_name, queue_name,
};
use bellwether_protocol::v1 as wire;

/// Longest kept text about a failure.
const DETAIL_MAX: usize = 1_000;
/// Longest kept word for why.
const REASON_MAX: usize = 64;

/// An attempt as a worker gets it.
#[must_use]
pub fn assignment_of(assignment: &Assignment) -> wire::Assignment {
    let definition = &assignment.definition;
    wire::Assignment {
        run: assignment.run.to_string(),
        job: assignment.run.job.to_string(),
        key: definition.key.clone(),
        namespace: namespace_name(definition).to_owned(),
        queue: queue_name(definition).to_owned(),
        attempt: assignment.attempt,
        token: assignment.token,
        scheduled_at: assignment.scheduled.to_string(),
        timeout_ms: definition.timeout_ms,
        target: definition.target.as_ref().map(|target| target_of(target, definition)),
        success: definition.success.as_ref().map(rules_of),
    }
}

fn target_of(target: &StoredTarget, definition: &Definition) -> wire::assignment::Target {
    match target {
        StoredTarget::Command(command) => wire::assignment::Target::Command(wire::Command {
            line: command.line.clone(),
            argv: command.argv.clone(),
            env: command.env.clone().into_iter().collect(),
            cwd: command.cwd.clone(),
            user: command.user.clone(),
            stdin: command.stdin.clone(),
            shell: command.shell.clone(),
            grace_ms: command.grace_ms,
            memory_limit_bytes: definition.memory_limit_bytes,
        }),
        StoredTarget::Http(http) => wire::assignment::Target::Http(http_of(http)),
        StoredTarget::Handler(handler) => wire::assignment::Target::Handler(wire::Handler {
            job_type: handler.job_type.clone(),
            payload: handler.payload.clone(),
        }),
        StoredTarget::Publish(publish) => wire::assignment::Target::Publish(publish_of(publish)),
    }
}

fn publish_of(publish: &PublishTarget) -> wire::Publish {
    let broker = publish.broker.as_ref().map(|broker| match broker {
        Broker::Nats(nats) => wire::publish::Broker::Nats(wire::Nats {
            url: nats.url.clone(),
            subject: nats.subject.clone(),
            jetstream: nats.jetstream,
        }),
        Broker::Amqp(amqp) => wire::publish::Broker::Amqp(wire::Amqp {
            url: amqp.url.clone(),
            exchange: amqp.exchange.clone(),
            routing_key: amqp.routing_key.clone(),
        }),
        Broker::Kafka(kafka) => wire::publish::Broker::Kafka(wire::Kafka {
            brokers: kafka.brokers.clone(),
            topic: kafka.topic.clone(),
            key: kafka.key.clone(),
            tls: kafka.tls,
            sasl: kafka.sasl.as_ref().map(|sasl| wire::BasicAuth {
                username: sasl.username.clone(),
                password: sasl.password.clone(),
            }),
        }),
    });
    let mut headers: Vec<_> = publish.headers.iter().map(header_of).collect();
    add_type(&mut headers, publish.body_is_json);
    wire::Publish { broker, headers, body: publish.body.clone() }
}

/// Says that a body is JSON, unless the job says what it is.
fn add_type(headers: &mut Vec<wire::Header>, is_json: bool) {
    let has_type = headers.iter().any(|header| header.name.eq_ignore_ascii_case("content-type"));
    if is_json && !has_type {
        let (name, value) = ("content-type".to_owned(), "application/json".to_owned());
        headers.push(wire::Header { name, value });
    }
}

fn http_of(http: &HttpTarget) -> wire::Http {
    let method = match (http.method.as_str(), http.body.is_empty()) {
        ("", true) => "GET",
        ("", false) => "POST",
        (given, _) => given,
    };
    let mut headers: Vec<_> = http.headers.iter().map(header_of).collect();
    add_type(&mut headers, http.body_is_json);
    wire::Http {
        method: method.to_owned(),
        url: http.url.clone(),
        headers,
        body: http.body.clone(),
        basic: http.basic.as_ref().map(|basic| wire::BasicAuth {
            username: basic.username.clone(),
            password: basic.password.clone(),
        }),
        bearer: http.bearer.clone(),
        follow_redirects: http.follow_redirects,
        connect_timeout_ms: http.connect_timeout_ms,
    }
}

fn header_of(header: &Header) -> wire::Header {
    wire::Header { name: header.name.clone(), value: header.value.clone() }
}

fn rules_of(success: &Success) -> wire::Success {
    wire::Success {
        exit_codes: success.exit_codes.clone(),
        output_matches: success.output_matches.clone(),
        output_must_not_match: success.output_must_not_match.clone(),
        status_codes: success.status_codes.clone(),
        json_path: success.json_path.clone(),
        json_equals: success.json_equals.clone(),
    }
}

/// What a worker says about an attempt; `None` if it makes no sense.
#[must_use]
pub fn report_of(report: wire::Report) -> Option<Report> {
    let what = match report.what? {
        wire::report::What::Started(started) => Reported::Started { at: Time(started.at_ms) },
        wire::report::What::Output(output) => {
            let (sequence, chunks) = chunks_of(output);
            Reported::Output { sequence, chunks }
        }
        wire::report::What::Finished(finished) => {
            Reported::Finished(Box::new(finished_of(finished)?))
        }
        wire::report::What::HandedBack(_) => Reported::HandedBack,
    };
    Some(Report { run: report.run.parse().ok()?, token: report.token, what })
}

/// How an attempt ended; `None` if it does not say.
#[must_use]
pub fn finished_of(finished: wire::Finished) -> Option<Finished> {
    let how = match finished.ending() {
        wire::Ending::Succeeded => Ending::Succeeded,
        wire::Ending::Failed => Ending::Failed,
        wire::Ending::FailedForGood => Ending::FailedForGood,
        wire::Ending::Canceled => Ending::Canceled,
        wire::Ending::Interrupted => Ending::Interrupted,
        wire::Ending::Unspecified => return None,
    };
    let (output_sequence, output) = finished.output.map(chunks_of).unwrap_or_default();
    let http_status = finished.http.as_ref().map_or(0, |http| http.status);
    let usage = finished.usage.unwrap_or_default();
    let worth_keeping = finished.http.is_some()
        || finished.output_bytes > 0
        || usage != wire::Usage::default()
        || !finished.result.is_empty();
    let http = finished.http.unwrap_or_default();
    let result = worth_keeping.then(|| AttemptResult {
        http_status,
        headers: http
            .headers
            .into_iter()
            .map(|header| Header { name: header.name, value: header.value })
            .collect(),
        body: http.body,
        body_dropped: u64::from(http.body_truncated),
        output_bytes: finished.output_bytes,
        output_dropped: finished.output_dropped,
        cpu_ms: usage.cpu_micros / 1_000,
        memory_max_bytes: usage.memory_peak_bytes,
        result: finished.result.clone(),
        ..AttemptResult::default()
    });
    Some(Finished {
        started: finished.started_ms.map(Time),
        finished: Time(finished.finished_ms.max(0)),
        how,
        exit_code: finished.exit_code,
        signal: finished.signal,
        http_status,
        reason: finished.reason.chars().take(REASON_MAX).collect(),
        detail: finished.detail.chars().take(DETAIL_MAX).collect(),
        result,
        output,
        output_sequence,
    })
}

/// Pieces of output, with the number of the first.
#[must_use]
pub fn chunks_of(output: wire::Output) -> (u32, Vec<OutputChunk>) {
    let chunks = output.chunks.into_iter().map(|chunk| OutputChunk {
        stream: chunk.stream,
        data: chunk.data,
        dropped_before: chunk.dropped_before,
    });
    (output.sequence, chunks.collect())
}
