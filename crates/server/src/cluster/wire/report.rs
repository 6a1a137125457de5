//! What workers say about their attempts.

use bellwether_core::record;
use bellwether_core::time::Time;
use bellwether_core::turn::{Ending, Finished, Report, Reported};
use bellwether_protocol::node::v1::{self, report::What};

use super::{
    WireError, all_stored, decode_run, encode_all, encode_run, read_stored, required, time,
};

/// A report as a message.
#[must_use]
pub fn encode(report: &Report) -> v1::Report {
    let what = match &report.what {
        Reported::Started { at } => What::Started(v1::Started { at_ms: Some(at.0) }),
        Reported::Output { sequence, chunks } => {
            What::Output(v1::Output { sequence: Some(*sequence), chunks: encode_all(chunks) })
        }
        Reported::Finished(finished) => What::Finished(encode_finished(finished)),
        Reported::HandedBack => What::HandedBack(v1::Nothing {}),
    };
    v1::Report { run: Some(encode_run(report.run)), token: Some(report.token), what: Some(what) }
}

/// The report that a message stands for.
///
/// # Errors
/// When it is not understood.
pub fn decode(report: v1::Report) -> Result<Report, WireError> {
    let what = match report.what.ok_or(WireError::UnknownKind("Report.what"))? {
        What::Started(started) => Reported::Started { at: time("Started.at_ms", started.at_ms)? },
        What::Output(output) => Reported::Output {
            sequence: required("Output.sequence", output.sequence)?,
            chunks: all_stored("Output.chunks", output.chunks)?,
        },
        What::Finished(finished) => Reported::Finished(Box::new(decode_finished(finished)?)),
        What::HandedBack(_) => Reported::HandedBack,
    };
    Ok(Report {
        run: decode_run("Report.run", report.run)?,
        token: required("Report.token", report.token)?,
        what,
    })
}

fn encode_finished(finished: &Finished) -> v1::Finished {
    let ending = match finished.how {
        Ending::Succeeded => v1::Ending::Succeeded,
        Ending::Failed => v1::Ending::Failed,
        Ending::FailedForGood => v1::Ending::FailedForGood,
        Ending::Canceled => v1::Ending::Canceled,
        Ending::Interrupted => v1::Ending::Interrupted,
    };
    v1::Finished {
        started_ms: finished.started.map(|at| at.0),
        finished_ms: Some(finished.finished.0),
        ending: ending.into(),
        exit_code: finished.exit_code,
        signal: finished.signal,
        http_status: Some(finished.http_status),
        reason: Some(finished.reason.clone()),
        detail: Some(finished.detail.clone()),
        result: finished.result.as_ref().map(record::encode),
        output: encode_all(&finished.output),
        output_sequence: Some(finished.output_sequence),
    }
}

fn decode_finished(finished: v1::Finished) -> Result<Finished, WireError> {
    let result = finished.result.map(|bytes| read_stored("Finished.result", bytes));
    Ok(Finished {
        started: finished.started_ms.map(Time),
        finished: time("Finished.finished_ms", finished.finished_ms)?,
        how: decode_ending(finished.ending)?,
        exit_code: finished.exit_code,
        signal: finished.signal,
        http_status: required("Finished.http_status", finished.http_status)?,
        reason: required("Finished.reason", finished.reason)?,
        detail: required("Finished.detail", finished.detail)?,
        result: result.transpose()?,
        output: all_stored("Finished.output", finished.output)?,
        output_sequence: required("Finished.output_sequence", finished.output_sequence)?,
    })
}

fn decode_ending(ending: i32) -> Result<Ending, WireError> {
    let field = "Finished.ending";
    let unknown = WireError::UnknownValue { field, value: i64::from(ending) };
    match v1::Ending::try_from(ending).map_err(|_| unknown)? {
        v1::Ending::Unspecified => Err(WireError::Missing(field)),
        v1::Ending::Succeeded => Ok(Ending::Succeeded),
        v1::Ending::Failed => Ok(Ending::Failed),
        v1::Ending::FailedForGood => Ok(Ending::FailedForGood),
        v1::Ending::Canceled => Ok(Ending::Canceled),
        v1::Ending::Interrupted => Ok(Ending::Interrupted),
    }
}
