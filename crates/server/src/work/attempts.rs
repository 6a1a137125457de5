//! Between the core's records and the worker's own types.

use std::time::Duration;

use bellwether_core::record::{
    AttemptResult, Header, OutputChunk, Success, Target as StoredTarget,
};
use bellwether_core::time::Time;
use bellwether_core::turn::{Assignment, Ending, Finished as Reported, namespace_name};
use bellwether_worker::{
    Attempt, Auth, Chunk, CommandTarget, Finished, HttpTarget, JsonRule, Outcome, Program,
    StopReason, Stream, SuccessRules, Target,
};

use crate::clock::time_of;

/// Time between TERM and KILL if a job does not say.
const GRACE: Duration = Duration::from_secs(10);
/// Longest kept text about a failure.
const DETAIL_MAX: usize = 1_000;

/// The attempt as the executor wants it; `None` if it is not one for the executor.
pub fn attempt_of(assignment: &Assignment, instance: &str) -> Option<Attempt> {
    let definition = &assignment.definition;
    let mut grace = GRACE;
    let target = match definition.target.as_ref()? {
        StoredTarget::Command(command) => {
            if command.grace_ms > 0 {
                grace = Duration::from_millis(command.grace_ms);
            }
            Target::Command(CommandTarget {
                program: if command.argv.is_empty() {
                    Program::Shell(command.line.clone())
                } else {
                    Program::Argv(command.argv.clone())
                },
                env: command.env.clone().into_iter().collect(),
                cwd: given(&command.cwd).map(Into::into),
                user: given(&command.user),
                stdin: (!command.stdin.is_empty()).then(|| command.stdin.clone()),
                shell: given(&command.shell),
            })
        }
        StoredTarget::Http(http) => {
            let method = match (http.method.as_str(), http.body.is_empty()) {
                ("", true) => "GET",
                ("", false) => "POST",
                (given, _) => given,
            };
            let mut target = HttpTarget::new(method, http.url.clone());
            target.headers =
                http.headers.iter().map(|h| (h.name.clone(), h.value.clone())).collect();
            if http.body_is_json && !has_content_type(&http.headers) {
                target.headers.push(("content-type".to_owned(), "application/json".to_owned()));
            }
            target.body = http.body.clone();
            target.auth = match &http.basic {
                Some(basic) => Some(Auth::Basic {
                    username: basic.username.clone(),
                    password: basic.password.clone(),
                }),
                None => given(&http.bearer).map(|token| Auth::Bearer { token }),
            };
            target.follow_redirects = http.follow_redirects;
            if http.connect_timeout_ms > 0 {
                target.connect_timeout = Duration::from_millis(http.connect_timeout_ms);
            }
            Target::Http(target)
        }
        StoredTarget::Handler(_) => return None,
    };
    Some(Attempt {
        run_id: assignment.run.to_string(),
        job_id: assignment.run.job.to_string(),
        key: definition.key.clone(),
        namespace: namespace_name(definition).to_owned(),
        scheduled_at: assignment.scheduled.to_string(),
        attempt: assignment.attempt,
        fencing_token: assignment.token,
        idempotency_key: assignment.run.to_string(),
        target,
        timeout: (definition.timeout_ms > 0).then(|| Duration::from_millis(definition.timeout_ms)),
        grace,
        success: definition.success.as_ref().map(rules_of).unwrap_or_default(),
        instance: instance.to_owned(),
    })
}

fn given(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn has_content_type(headers: &[Header]) -> bool {
    headers.iter().any(|header| header.name.eq_ignore_ascii_case("content-type"))
}

fn rules_of(success: &Success) -> SuccessRules {
    SuccessRules {
        exit_codes: success.exit_codes.clone(),
        output_matches: given(&success.output_matches),
        output_must_not_match: given(&success.output_must_not_match),
        status_codes: success.status_codes.clone(),
        json_path: given(&success.json_path)
            .map(|path| JsonRule { path, equals: serde_json::from_str(&success.json_equals).ok() }),
    }
}

/// How an attempt ended, as the core wants it. `None` if it was never started and can be given
/// back. Output up to `persisted` bytes has been reported before, in `sequence` chunks.
pub fn reported(finished: Finished, persisted: u64, sequence: u32) -> Option<Reported> {
    let how = match &finished.outcome {
        Outcome::Succeeded => Ending::Succeeded,
        Outcome::Failed(_) if !finished.retryable => Ending::FailedForGood,
        Outcome::Failed(_) | Outcome::TimedOut(_) => Ending::Failed,
        Outcome::Stopped(StopReason::Canceled, _) => Ending::Canceled,
        Outcome::Stopped(_, _) if !finished.started => return None,
        Outcome::Stopped(_, _) => Ending::Interrupted,
    };
    let failure = finished.outcome.failure();
    let output = chunks_of(&finished, persisted);
    let http = finished.http;
    let printed = finished.output.total_bytes;
    let result = (http.is_some() || printed > 0).then(|| AttemptResult {
        http_status: http.as_ref().map_or(0, |http| u32::from(http.status)),
        headers: http
            .iter()
            .flat_map(|http| &http.headers)
            .map(|(name, value)| Header { name: name.clone(), value: value.clone() })
            .collect(),
        body: http.as_ref().map(|http| http.body.clone()).unwrap_or_default(),
        body_dropped: u64::from(http.as_ref().is_some_and(|http| http.body_truncated)),
        output_bytes: printed,
        output_dropped: finished.output.dropped_bytes,
        ..AttemptResult::default()
    });
    Some(Reported {
        started: finished.started.then(|| time_of(finished.started_at)),
        finished: time_of(finished.finished_at).max(Time(0)),
        how,
        exit_code: finished.exit_code,
        signal: finished.signal,
        http_status: http.as_ref().map_or(0, |http| u32::from(http.status)),
        reason: failure.map(|failure| failure.code.as_str().to_owned()).unwrap_or_default(),
        detail: failure
            .map(|failure| failure.message.chars().take(DETAIL_MAX).collect())
            .unwrap_or_default(),
        result,
        output,
        output_sequence: sequence,
    })
}

/// What is kept of the output and has not been reported: the rest of the head, and the tail.
fn chunks_of(finished: &Finished, persisted: u64) -> Vec<OutputChunk> {
    let captured = &finished.output;
    let mut chunks = Vec::new();
    for chunk in captured.head.iter().filter(|chunk| chunk.offset >= persisted) {
        chunks.push(chunk_of(chunk, 0));
    }
    let mut dropped = captured.dropped_bytes;
    for chunk in &captured.tail {
        chunks.push(chunk_of(chunk, std::mem::take(&mut dropped)));
    }
    chunks
}

/// A piece of output as it is stored.
pub fn chunk_of(chunk: &Chunk, dropped_before: u64) -> OutputChunk {
    let stream = match chunk.stream {
        Stream::Stdout => 1,
        Stream::Stderr => 2,
        Stream::Body => 3,
    };
    OutputChunk { stream, data: chunk.bytes.clone(), dropped_before }
}
