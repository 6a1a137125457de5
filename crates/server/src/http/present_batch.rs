//! Batches as JSON.

use bellwether_api as api;
use bellwether_api::Instant;
use bellwether_core::id::{JobId, RunId};
use bellwether_core::read::StoredBatch;
use bellwether_core::record::{BatchRow, BatchStage};
use bellwether_core::time::Time;
use bellwether_core::waist::StoreError;

use super::present::mark;
use crate::{clock, convert};

/// A batch.
///
/// # Errors
/// When its template cannot be read.
pub fn batch(stored: &StoredBatch) -> Result<api::Batch, StoreError> {
    let (row, progress) = (&stored.row, stored.progress());
    let instant = |ms: i64| (ms != 0).then_some(Instant(Time(ms)));
    let text = |text: &String| (!text.is_empty()).then(|| text.clone());
    let on_complete = (row.on_complete != 0).then(|| {
        let job = JobId(row.on_complete);
        let run = (row.completion != 0).then(|| RunId { job, n: row.completion }.to_string());
        api::OnComplete { job: job.to_string(), run, error: text(&row.completion_error) }
    });
    let template = row
        .template()?
        .map(|template| Box::new(api::JobSpec { enabled: None, ..convert::spec(&template, true) }));
    Ok(api::Batch {
        id: stored.id.to_string(),
        key: text(&row.key),
        namespace: row.namespace_name().to_owned(),
        description: text(&row.description),
        status: status(row),
        total: progress.total,
        waiting: progress.waiting,
        retrying: progress.retrying,
        running: progress.running,
        succeeded: progress.succeeded,
        failed: progress.failed,
        canceled: progress.canceled,
        lost: progress.lost,
        skipped: progress.skipped,
        created_at: Instant(Time(row.created_ms)),
        created_by: row.created_by.clone(),
        schedule_time: instant(row.begin_ms),
        finished_at: instant(row.ended_ms),
        cancel: row.canceled.as_ref().map(mark),
        on_complete,
        template,
    })
}

fn status(row: &BatchRow) -> api::BatchStatus {
    match (row.stage(), row.canceled.is_some()) {
        (BatchStage::Ended, true) => api::BatchStatus::Canceled,
        (BatchStage::Ended, false) => api::BatchStatus::Completed,
        (_, true) => api::BatchStatus::Canceling,
        _ if row.begin_ms > clock::now().0 => api::BatchStatus::Scheduled,
        _ => api::BatchStatus::Running,
    }
}
