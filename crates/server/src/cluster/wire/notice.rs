//! News of runs and jobs, for those who listen at another node.

use bellwether_core::record::{EventKind, RunStatus};
use bellwether_core::turn::{HeldJob, Notice};
use bellwether_protocol::node::v1;

use super::{WireError, decode_run, encode_run, job, required, time};

/// A notice as a message.
#[must_use]
pub fn encode(notice: &Notice) -> v1::Notice {
    v1::Notice {
        at_ms: Some(notice.at.0),
        run: Some(encode_run(notice.run)),
        kind: Some(notice.kind.into()),
        status: Some(notice.status.into()),
        attempt: Some(notice.attempt),
        namespace: Some(notice.namespace.clone()),
        key: Some(notice.key.clone()),
        queue: Some(notice.queue.clone()),
        reason: Some(notice.reason.clone()),
    }
}

/// The notice that a message stands for.
///
/// # Errors
/// When it is not understood.
pub fn decode(notice: v1::Notice) -> Result<Notice, WireError> {
    let unknown = |field, value: i32| WireError::UnknownValue { field, value: i64::from(value) };
    let kind = required("Notice.kind", notice.kind)?;
    let status = required("Notice.status", notice.status)?;
    Ok(Notice {
        at: time("Notice.at_ms", notice.at_ms)?,
        run: decode_run("Notice.run", notice.run)?,
        kind: EventKind::try_from(kind).map_err(|_| unknown("Notice.kind", kind))?,
        status: RunStatus::try_from(status).map_err(|_| unknown("Notice.status", status))?,
        attempt: required("Notice.attempt", notice.attempt)?,
        namespace: required("Notice.namespace", notice.namespace)?,
        key: required("Notice.key", notice.key)?,
        queue: required("Notice.queue", notice.queue)?,
        reason: required("Notice.reason", notice.reason)?,
    })
}

/// A job that was paused by the rules themselves, as a message.
#[must_use]
pub fn encode_held(held: &HeldJob) -> v1::HeldJob {
    v1::HeldJob {
        at_ms: Some(held.at.0),
        job: Some(held.job.0),
        namespace: Some(held.namespace.clone()),
        key: Some(held.key.clone()),
        queue: Some(held.queue.clone()),
        reason: Some(held.reason.clone().into_owned()),
        why: Some(held.why.clone()),
    }
}

/// The job that a message stands for.
///
/// # Errors
/// When it is not understood.
pub fn decode_held(held: v1::HeldJob) -> Result<HeldJob, WireError> {
    Ok(HeldJob {
        at: time("HeldJob.at_ms", held.at_ms)?,
        job: job("HeldJob.job", held.job)?,
        namespace: required("HeldJob.namespace", held.namespace)?,
        key: required("HeldJob.key", held.key)?,
        queue: required("HeldJob.queue", held.queue)?,
        reason: required("HeldJob.reason", held.reason)?.into(),
        why: required("HeldJob.why", held.why)?,
    })
}
