//! Runs as workers lease them by plain HTTP, and their ends as these workers say them.

use bellwether_api::{
    CompletedOutcome, CompletedRun, Instant, LeasedCommand, LeasedRun, Problem, Span,
};
use bellwether_core::record::{AttemptResult, CommandTarget, OutputChunk, Target};
use bellwether_core::turn::{
    Assignment, Ending, Finished, Report, Reported, namespace_name, queue_name,
};
use bytes::Bytes;
use serde_json::value::RawValue;

use super::answer::Answer;
use crate::clock;

/// The most output that is taken of a run.
const OUTPUT_MAX: usize = 1024 * 1024;
/// The largest result that is taken of a run.
const RESULT_MAX: usize = 200 * 1024;

/// A run.
#[must_use]
pub fn run(assignment: &Assignment) -> LeasedRun {
    let definition = &assignment.definition;
    let (job_type, payload, command) = match &definition.target {
        Some(Target::Handler(handler)) => {
            (handler.job_type.clone(), raw_json(&handler.payload), None)
        }
        Some(Target::Command(command)) => (String::new(), None, Some(command_of(command))),
        _ => (String::new(), None, None),
    };
    LeasedRun {
        run_id: assignment.run.to_string(),
        job_id: assignment.run.job.to_string(),
        key: definition.key.clone(),
        namespace: namespace_name(definition).to_owned(),
        queue: queue_name(definition).to_owned(),
        attempt: assignment.attempt,
        fencing_token: assignment.token,
        idempotency_key: assignment.run.to_string(),
        scheduled_at: Instant(assignment.scheduled),
        timeout: (definition.timeout_ms > 0).then_some(Span(definition.timeout_ms)),
        job_type,
        payload,
        command,
    }
}

/// JSON as it stands; `None` if there is none.
#[must_use]
pub fn raw_json(json: &Bytes) -> Option<Box<RawValue>> {
    let text = std::str::from_utf8(json).ok().filter(|text| !text.is_empty())?;
    RawValue::from_string(text.to_owned()).ok()
}

fn command_of(command: &CommandTarget) -> LeasedCommand {
    LeasedCommand {
        line: command.line.clone(),
        argv: command.argv.clone(),
        env: command.env.clone(),
        cwd: command.cwd.clone(),
        user: command.user.clone(),
        stdin: String::from_utf8_lossy(&command.stdin).into_owned(),
        shell: command.shell.clone(),
    }
}

/// What a worker says about a run; `None` if there is no such run.
pub fn report(ended: CompletedRun) -> Answer<Option<Report>> {
    let too_large = |field: &str, max: usize| {
        let detail = format!("{field} is larger than {max} bytes");
        Problem::new(413, "payload_too_large", detail).at(format!("results.{field}"))
    };
    if ended.output.len() > OUTPUT_MAX {
        return Err(too_large("output", OUTPUT_MAX).into());
    }
    let result = ended.result.map(|json| json.get().to_owned()).unwrap_or_default();
    if result.len() > RESULT_MAX {
        return Err(too_large("result", RESULT_MAX).into());
    }
    let Ok(run) = ended.run_id.parse() else {
        return Ok(None);
    };
    let how = match ended.outcome {
        CompletedOutcome::Succeeded => Ending::Succeeded,
        CompletedOutcome::Failed => Ending::Failed,
        CompletedOutcome::FailedForGood => Ending::FailedForGood,
        CompletedOutcome::Canceled => Ending::Canceled,
        CompletedOutcome::HandedBack => {
            let what = Reported::HandedBack;
            return Ok(Some(Report { run, token: ended.fencing_token, what }));
        }
    };
    let now = clock::now();
    let printed = Bytes::from(ended.output);
    let kept = !printed.is_empty() || !result.is_empty();
    let finished = Finished {
        started: Some(ended.started_at.map_or(now, |at| at.0)),
        finished: ended.finished_at.map_or(now, |at| at.0),
        how,
        exit_code: ended.exit_code,
        signal: None,
        http_status: 0,
        reason: ended.reason.chars().take(64).collect(),
        detail: ended.detail.chars().take(1_000).collect(),
        result: kept.then(|| AttemptResult {
            output_bytes: printed.len() as u64,
            result: result.into(),
            ..AttemptResult::default()
        }),
        output: if printed.is_empty() {
            Vec::new()
        } else {
            vec![OutputChunk { stream: 1, data: printed, dropped_before: 0 }]
        },
        output_sequence: 0,
    };
    let what = Reported::Finished(Box::new(finished));
    Ok(Some(Report { run, token: ended.fencing_token, what }))
}
