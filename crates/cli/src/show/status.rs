//! The statuses of jobs and runs: their names, and whether to worry.

use bellwether_api::{JobInfo, JobStatus, RunStatus};

use super::Tone;

/// A job's status as a word in a tone; and what its group is in, where that keeps it from running.
pub fn job_status(job: &JobInfo) -> (String, Tone) {
    let (name, tone) = match job.status {
        JobStatus::Scheduled => ("scheduled", Tone::Plain),
        JobStatus::Running => ("running", Tone::Busy),
        JobStatus::Paused => ("paused", Tone::Busy),
        JobStatus::Completed => ("completed", Tone::Good),
        JobStatus::Failed => ("failed", Tone::Bad),
        JobStatus::Canceled => ("canceled", Tone::Faint),
    };
    let waits = matches!(job.status, JobStatus::Scheduled | JobStatus::Running);
    let (paused, maintained) = (job.group_paused.is_some(), job.group_maintenance.is_some());
    match (waits, paused, maintained) {
        (true, true, _) => (format!("{name} (group paused)"), Tone::Busy),
        (true, false, true) => (format!("{name} (group in maintenance)"), Tone::Busy),
        _ => (name.to_owned(), tone),
    }
}

/// A run's status as a word in a tone.
pub fn run_status(status: RunStatus) -> (String, Tone) {
    let (name, tone) = match status {
        RunStatus::Scheduled => ("scheduled", Tone::Plain),
        RunStatus::Queued => ("queued", Tone::Plain),
        RunStatus::Claimed => ("claimed", Tone::Busy),
        RunStatus::Running => ("running", Tone::Busy),
        RunStatus::Retrying => ("retrying", Tone::Busy),
        RunStatus::Succeeded => ("succeeded", Tone::Good),
        RunStatus::Failed => ("failed", Tone::Bad),
        RunStatus::Canceled => ("canceled", Tone::Faint),
        RunStatus::Lost => ("lost", Tone::Bad),
        RunStatus::Skipped => ("skipped", Tone::Faint),
    };
    (name.to_owned(), tone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r41_a_job_shows_that_its_group_is_paused() {
        let text = r#"{"id": "job_06D1R3M0G0400", "status": "scheduled", "shard": 3, "schedule_text": "",
            "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z", "revision": 1,
            "runs": 0, "group_paused": {"at": "2026-01-01T00:00:00Z", "by": "ana"}}"#;
        let mut job: JobInfo = serde_json::from_str(text).unwrap();
        assert_eq!(job_status(&job).0, "scheduled (group paused)");
        job.status = JobStatus::Paused;
        assert_eq!(job_status(&job).0, "paused");
        job.status = JobStatus::Running;
        (job.group_maintenance, job.group_paused) = (job.group_paused, None);
        assert_eq!(job_status(&job).0, "running (group in maintenance)");
    }
}
