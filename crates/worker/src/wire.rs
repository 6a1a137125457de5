//! Attempts as they come from a server, and their ends as they go back.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bellwether_protocol::v1 as wire;

use crate::attempt::{
    Attempt, Auth, Broker, CommandTarget, HttpTarget, Login, Program, PublishTarget, Target,
};
use crate::control::StopReason;
use crate::finished::{Finished, Outcome};
use crate::output::{Captured, Chunk, Stream};
use crate::rules::{JsonRule, SuccessRules};

/// Time between TERM and KILL if a job does not say.
const GRACE: Duration = Duration::from_secs(10);
/// Longest sentence about a failure, in characters.
const DETAIL_MAX: usize = 1_000;

/// The attempt as the executor wants it, for runs of the store `instance`; `None` if it is for a
/// handler and not for an executor, or for a kind of target that this version does not know.
#[must_use]
pub fn attempt_of(assignment: wire::Assignment, instance: &str) -> Option<Attempt> {
    let mut grace = GRACE;
    let target = match assignment.target? {
        wire::assignment::Target::Command(command) => {
            if command.grace_ms > 0 {
                grace = Duration::from_millis(command.grace_ms);
            }
            Target::Command(command_of(command))
        }
        wire::assignment::Target::Http(http) => Target::Http(http_of(http)),
        wire::assignment::Target::Publish(publish) => Target::Publish(publish_of(publish)?),
        wire::assignment::Target::Handler(_) => return None,
    };
    Some(Attempt {
        idempotency_key: assignment.run.clone(),
        run_id: assignment.run,
        job_id: assignment.job,
        key: assignment.key,
        namespace: assignment.namespace,
        scheduled_at: assignment.scheduled_at,
        attempt: assignment.attempt,
        fencing_token: assignment.token,
        target,
        timeout: (assignment.timeout_ms > 0).then(|| Duration::from_millis(assignment.timeout_ms)),
        grace,
        success: assignment.success.map(rules_of).unwrap_or_default(),
        instance: instance.to_owned(),
    })
}

fn command_of(command: wire::Command) -> CommandTarget {
    CommandTarget {
        program: if command.argv.is_empty() {
            Program::Shell(command.line)
        } else {
            Program::Argv(command.argv)
        },
        env: command.env.into_iter().collect(),
        cwd: given(command.cwd).map(Into::into),
        user: given(command.user),
        stdin: (!command.stdin.is_empty()).then_some(command.stdin),
        shell: given(command.shell),
        memory_limit_bytes: (command.memory_limit_bytes > 0).then_some(command.memory_limit_bytes),
    }
}

fn http_of(http: wire::Http) -> HttpTarget {
    let mut target = HttpTarget::new(http.method, http.url);
    target.headers = http.headers.into_iter().map(|h| (h.name, h.value)).collect();
    target.body = http.body;
    target.auth = match http.basic {
        Some(basic) => Some(Auth::Basic { username: basic.username, password: basic.password }),
        None => given(http.bearer).map(|token| Auth::Bearer { token }),
    };
    target.follow_redirects = http.follow_redirects;
    if http.connect_timeout_ms > 0 {
        target.connect_timeout = Duration::from_millis(http.connect_timeout_ms);
    }
    target
}

fn publish_of(publish: wire::Publish) -> Option<PublishTarget> {
    let broker = match publish.broker? {
        wire::publish::Broker::Nats(nats) => {
            Broker::Nats { url: nats.url, subject: nats.subject, jetstream: nats.jetstream }
        }
        wire::publish::Broker::Amqp(amqp) => {
            Broker::Amqp { url: amqp.url, exchange: amqp.exchange, routing_key: amqp.routing_key }
        }
        wire::publish::Broker::Kafka(kafka) => Broker::Kafka {
            brokers: kafka.brokers,
            topic: kafka.topic,
            key: kafka.key,
            tls: kafka.tls,
            sasl: kafka.sasl.map(|sasl| Login { username: sasl.username, password: sasl.password }),
        },
    };
    let headers = publish.headers.into_iter().map(|h| (h.name, h.value)).collect();
    Some(PublishTarget { broker, headers, body: publish.body })
}

fn rules_of(success: wire::Success) -> SuccessRules {
    let equals = serde_json::from_str(&success.json_equals).ok();
    SuccessRules {
        exit_codes: success.exit_codes,
        output_matches: given(success.output_matches),
        output_must_not_match: given(success.output_must_not_match),
        status_codes: success.status_codes,
        json_path: given(success.json_path).map(|path| JsonRule { path, equals }),
    }
}

fn given(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// How an attempt ended. `None` if it was never started and can be given back. Output up to
/// `persisted` bytes has been reported before, in `sequence` chunks.
#[must_use]
pub fn finished_of(finished: Finished, persisted: u64, sequence: u32) -> Option<wire::Finished> {
    let ending = match &finished.outcome {
        Outcome::Succeeded => wire::Ending::Succeeded,
        Outcome::Failed(_) if !finished.retryable => wire::Ending::FailedForGood,
        Outcome::Failed(_) | Outcome::TimedOut(_) => wire::Ending::Failed,
        Outcome::Stopped(StopReason::Canceled, _) => wire::Ending::Canceled,
        Outcome::Stopped(_, _) if !finished.started => return None,
        Outcome::Stopped(_, _) => wire::Ending::Interrupted,
    };
    let failure = finished.outcome.failure();
    Some(wire::Finished {
        started_ms: finished.started.then(|| millis(finished.started_at)),
        finished_ms: millis(finished.finished_at),
        ending: ending.into(),
        exit_code: finished.exit_code,
        signal: finished.signal,
        reason: failure.map(|failure| failure.code.as_str().to_owned()).unwrap_or_default(),
        detail: failure
            .map(|failure| failure.message.chars().take(DETAIL_MAX).collect())
            .unwrap_or_default(),
        output: Some(wire::Output { sequence, chunks: rest_of(&finished.output, persisted) }),
        output_bytes: finished.output.total_bytes,
        output_dropped: finished.output.dropped_bytes,
        http: finished.http.map(|http| wire::HttpResponse {
            status: u32::from(http.status),
            headers: http
                .headers
                .into_iter()
                .map(|(name, value)| wire::Header { name, value })
                .collect(),
            body: http.body,
            body_truncated: http.body_truncated,
        }),
        result: Default::default(),
        usage: finished.usage.map(|usage| wire::Usage {
            cpu_micros: u64::try_from(usage.cpu.as_micros()).unwrap_or(u64::MAX),
            memory_peak_bytes: usage.memory_peak_bytes,
        }),
    })
}

/// What is kept of the output and has not been reported: the rest of the head, and the tail.
fn rest_of(captured: &Captured, persisted: u64) -> Vec<wire::Chunk> {
    let mut chunks = Vec::new();
    for chunk in captured.head.iter().filter(|chunk| chunk.end() > persisted) {
        let mut rest = chunk_of(chunk, 0);
        // What a stream printed at a stretch is one chunk, of which the beginning may be known.
        let known = usize::try_from(persisted.saturating_sub(chunk.offset)).unwrap_or(usize::MAX);
        rest.data = rest.data.slice(known.min(rest.data.len())..);
        chunks.push(rest);
    }
    let mut dropped = captured.dropped_bytes;
    for chunk in &captured.tail {
        chunks.push(chunk_of(chunk, std::mem::take(&mut dropped)));
    }
    chunks
}

/// A piece of output.
#[must_use]
pub fn chunk_of(chunk: &Chunk, dropped_before: u64) -> wire::Chunk {
    let stream = match chunk.stream {
        Stream::Stdout => 1,
        Stream::Stderr => 2,
        Stream::Body => 3,
    };
    wire::Chunk { stream, data: chunk.bytes.clone(), dropped_before }
}

fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::LiveOutput;

    #[test]
    fn r37_what_was_printed_after_the_last_report_is_in_the_final_one() {
        let output = LiveOutput::new(20);
        output.push(Stream::Stdout, b"one ");
        let reported = output.head_since(0);
        let persisted = reported.last().map_or(0, Chunk::end);
        // The same stream goes on, so that this and the first are one stretch.
        output.push(Stream::Stdout, b"two ");
        output.push(Stream::Stderr, b"!?");
        output.push(Stream::Stdout, b"three four five");
        let rest = rest_of(&output.captured(), persisted);
        let texts: Vec<_> = rest.iter().map(|c| String::from_utf8_lossy(&c.data)).collect();
        assert_eq!(texts, ["two ", "!?", " four five"]);
        assert_eq!(rest[2].dropped_before, 5);
    }
}
