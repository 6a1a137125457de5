//! From messages to jobs: read, created by the way of a batch, and judged one by one.

use std::sync::Arc;

use bellwether_api::{BatchResult, JobSpec, Problem, Role};
use bytes::Bytes;

use crate::access::Caller;
use crate::clock;
use crate::convert;
use crate::http::{BATCH_BODY_MAX, Item, JOBS_MAX, check, create_all};
use crate::node::Node;

/// A message as it came.
pub(super) struct Message {
    /// The same for every delivery of the message; `None` if the broker has no such thing.
    pub(super) id: Option<String>,
    pub(super) body: Bytes,
}

/// What is to be done about a message.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Everything in it is stored: it can be acknowledged.
    Taken,
    /// It can never be accepted.
    Refused(Box<Problem>),
    /// It could not be stored now: it must come again.
    Later,
}

/// Turns messages into jobs.
pub(super) struct Intake {
    node: Arc<Node>,
    caller: Caller,
}

impl Intake {
    /// For messages from a source of this name.
    pub(super) fn new(node: Arc<Node>, name: String, namespace: Option<String>) -> Intake {
        Intake { node, caller: Caller { name, role: Role::Editor, namespace } }
    }

    /// Creates the jobs in these messages. When it returns, what was taken is durable.
    pub(super) async fn take(&self, messages: Vec<Message>) -> Vec<Verdict> {
        let (caller, count) = (self.caller.clone(), messages.len());
        let read = tokio::task::spawn_blocking(move || {
            let now = clock::now();
            let check = |spec| check(spec, &caller, now);
            messages
                .iter()
                .map(|message| read(message).into_iter().map(|spec| spec.and_then(check)).collect())
                .collect::<Vec<Vec<Item>>>()
        });
        let Ok(read) = read.await else {
            tracing::error!("reading messages has failed; they go back to the broker");
            return (0..count).map(|_| Verdict::Later).collect();
        };
        let counts: Vec<usize> = read.iter().map(Vec::len).collect();
        let items: Vec<Item> = read.into_iter().flatten().collect();
        let answer = create_all(&self.node, &self.caller, items).await;
        let mut results = answer.results.into_iter();
        let verdicts: Vec<Verdict> =
            counts.into_iter().map(|count| verdict(results.by_ref().take(count))).collect();
        self.node.metrics.ingested(&verdicts.iter().map(Verdict::count).collect::<Vec<_>>());
        verdicts
    }
}

fn verdict(results: impl Iterator<Item = BatchResult>) -> Verdict {
    let mut verdict = Verdict::Taken;
    for problem in results.filter_map(|result| result.error) {
        if problem.status >= 500 {
            return Verdict::Later;
        }
        if matches!(verdict, Verdict::Taken) {
            verdict = Verdict::Refused(Box::new(problem));
        }
    }
    verdict
}

/// The jobs in a message: one, or one a line. One without a key gets the message's id as its key,
/// so that it is not created again when the message comes again.
fn read(message: &Message) -> Vec<Result<JobSpec, Problem>> {
    if message.body.len() > BATCH_BODY_MAX {
        let detail = format!("a message has at most {BATCH_BODY_MAX} bytes");
        return vec![Err(Problem::new(413, "body_too_large", detail))];
    }
    let lines: Vec<&[u8]> = message
        .body
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.iter().all(u8::is_ascii_whitespace))
        .collect();
    let complete = |line: &[u8]| serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok();
    // A job may be spread over lines: then its first line is not JSON by itself.
    if lines.len() < 2 || !lines.first().is_some_and(|line| complete(line)) {
        return vec![named(convert::from_json(&message.body), message, None)];
    }
    if lines.len() > JOBS_MAX {
        let detail = format!("a message has at most {JOBS_MAX} jobs; send several");
        return vec![Err(Problem::new(413, "batch_too_large", detail))];
    }
    let lines = lines.into_iter().enumerate();
    lines.map(|(at, line)| named(convert::from_json(line), message, Some(at + 1))).collect()
}

fn named(
    spec: Result<JobSpec, Problem>,
    message: &Message,
    line: Option<usize>,
) -> Result<JobSpec, Problem> {
    let mut spec = spec?;
    if spec.key.is_none() {
        let Some(id) = &message.id else {
            let detail = "the job has no `key` and the message no id; without one of them it would \
                          be created again if the message came again";
            return Err(Problem::new(422, "missing_key", detail).at("key"));
        };
        spec.key = Some(match line {
            Some(line) => format!("{id}#{line}"),
            None => id.clone(),
        });
    }
    Ok(spec)
}

impl Verdict {
    /// Where it counts: taken, refused, later.
    fn count(&self) -> usize {
        match self {
            Verdict::Taken => 0,
            Verdict::Refused(_) => 1,
            Verdict::Later => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(id: Option<&str>, body: &str) -> Vec<Result<String, String>> {
        let message =
            Message { id: id.map(str::to_owned), body: Bytes::copy_from_slice(body.as_bytes()) };
        let keyed = |spec: Result<JobSpec, Problem>| match spec {
            Ok(spec) => Ok(spec.key.unwrap_or_default()),
            Err(problem) => Err(problem.code),
        };
        read(&message).into_iter().map(keyed).collect()
    }

    #[test]
    fn r22_a_job_without_a_key_is_named_after_its_message() {
        let job = r#"{"command": "true", "schedule": "in 1h"}"#;
        assert_eq!(keys(Some("m1"), job), [Ok("m1".into())]);
        assert_eq!(keys(None, job), [Err("missing_key".into())]);
        let spread = job.replace(',', ",\n");
        assert_eq!(keys(Some("m1"), &spread), [Ok("m1".into())]);
        let named = r#"{"key": "a", "command": "true"}"#;
        let lines = format!("{job}\n\n{named}\nnot json\n{job}");
        let expected: [Result<String, String>; 4] =
            [Ok("m1#1".into()), Ok("a".into()), Err("invalid_json".into()), Ok("m1#4".into())];
        assert_eq!(keys(Some("m1"), &lines), expected);
        assert_eq!(keys(Some("m1"), ""), [Err("invalid_json".into())]);
        assert_eq!(keys(Some("m1"), "nonsense\nnonsense"), [Err("invalid_json".into())]);
    }

    #[test]
    fn r22_only_what_is_stored_is_taken() {
        let ok = || BatchResult { status: 201, id: None, error: None };
        let failed =
            |status| BatchResult { status, id: None, error: Some(Problem::new(status, "x", "y")) };
        assert!(matches!(verdict([ok(), ok()].into_iter()), Verdict::Taken));
        assert!(matches!(verdict([ok(), failed(422)].into_iter()), Verdict::Refused(_)));
        assert!(matches!(verdict([failed(422), failed(503)].into_iter()), Verdict::Later));
    }
}
