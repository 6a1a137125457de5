//! Runs as workers lease them by plain HTTP, and their ends as these workers say them.

use bellwether_api::{
    CompletedOutcome, CompletedRun, Instant, LeasedCommand, LeasedOutput, LeasedRun, Problem, Size,
    Span,
};
use bellwether_core::record::{AttemptResult, CommandTarget, Definition, OutputChunk, Target};
use bellwether_core::turn::{
    Assignment, Ending, Finished, Report, Reported, namespace_name, queue_name,
};
use bytes::Bytes;
use serde_json::value::RawValue;

use super::answer::Answer;
use crate::clock;
use crate::work::PIECES_MAX;

/// The most output that is taken of a run.
const OUTPUT_MAX: usize = 1024 * 1024;
/// The largest piece of output.
pub const PIECE_MAX: usize = 128 * 1024;
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
        Some(Target::Command(command)) => {
            (String::new(), None, Some(command_of(command, definition)))
        }
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

fn command_of(command: &CommandTarget, definition: &Definition) -> LeasedCommand {
    let limit_bytes = definition.memory_limit_bytes;
    LeasedCommand {
        line: command.line.clone(),
        argv: command.argv.clone(),
        env: command.env.clone(),
        cwd: command.cwd.clone(),
        user: command.user.clone(),
        stdin: String::from_utf8_lossy(&command.stdin).into_owned(),
        shell: command.shell.clone(),
        memory_limit: (limit_bytes > 0).then_some(Size(limit_bytes)),
        grace: (command.grace_ms > 0).then_some(Span(command.grace_ms)),
    }
}

/// What a worker says about a run; `None` if there is no such run.
pub fn report(ended: CompletedRun) -> Answer<Option<Report>> {
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
    let output_bytes = ended.output_bytes.unwrap_or(ended.output.len() as u64);
    let (sequence, output) = last_pieces(ended.unanswered, ended.output_sequence, ended.output)?;
    let kept = output_bytes > 0 || !result.is_empty();
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
            output_bytes,
            result: result.into(),
            ..AttemptResult::default()
        }),
        output_sequence: sequence,
        output: output.into_iter().map(chunk).collect(),
    };
    let what = Reported::Finished(Box::new(finished));
    Ok(Some(Report { run, token: ended.fencing_token, what }))
}

/// The pieces of output that come with the end, and the number of the first.
fn last_pieces(
    unanswered: Option<LeasedOutput>,
    sequence: u32,
    output: String,
) -> Answer<(u32, Vec<String>)> {
    let out_of_range = |detail: String, field: &str| {
        Problem::new(422, "out_of_range", detail).at(format!("results.{field}"))
    };
    if sequence > PIECES_MAX {
        let detail = format!("there are at most {PIECES_MAX} pieces before");
        return Err(out_of_range(detail, "output_sequence").into());
    }
    match unanswered {
        None if output.is_empty() => Ok((sequence, Vec::new())),
        None => Ok((sequence, vec![output])),
        Some(last) if last.sequence.checked_add(1) != Some(sequence) => {
            let detail = "it is the last piece before output_sequence".to_owned();
            Err(out_of_range(detail, "unanswered.sequence").into())
        }
        Some(last) if last.text.len() > PIECE_MAX => {
            let detail = format!("it has at most {PIECE_MAX} bytes");
            Err(Problem::new(422, "too_long", detail).at("results.unanswered.text").into())
        }
        Some(last) => {
            let more = (!output.is_empty()).then_some(output);
            Ok((last.sequence, [last.text].into_iter().chain(more).collect()))
        }
    }
}

/// Bytes that an attempt can have printed: more are a mistake.
const BYTES_MAX: u64 = 1_000_000_000_000_000;

/// Checks how much an attempt says it has printed.
pub fn check_bytes(bytes: Option<u64>) -> Answer<()> {
    if bytes.is_none_or(|bytes| bytes <= BYTES_MAX) {
        return Ok(());
    }
    let detail = format!("it is at most {BYTES_MAX}");
    Err(Problem::new(422, "out_of_range", detail).at("results.output_bytes").into())
}

fn chunk(text: String) -> OutputChunk {
    OutputChunk { stream: 1, data: text.into(), dropped_before: 0 }
}

fn too_large(field: &str, max: usize) -> Problem {
    let detail = format!("{field} is larger than {max} bytes");
    Problem::new(413, "payload_too_large", detail).at(format!("results.{field}"))
}
