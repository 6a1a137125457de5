//! The statuses of jobs and runs: their names, and whether to worry.

use bellwether_api::{JobStatus, RunStatus};

use super::Tone;

/// A job's status as a word in a tone.
pub fn job_status(status: JobStatus) -> (String, Tone) {
    let (name, tone) = match status {
        JobStatus::Scheduled => ("scheduled", Tone::Plain),
        JobStatus::Running => ("running", Tone::Busy),
        JobStatus::Paused => ("paused", Tone::Busy),
        JobStatus::Completed => ("completed", Tone::Good),
        JobStatus::Failed => ("failed", Tone::Bad),
        JobStatus::Canceled => ("canceled", Tone::Faint),
    };
    (name.to_owned(), tone)
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
