//! Jobs, ticks and marks as JSON.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use bellwether_api as api;
use bellwether_api::Instant;
use bellwether_core::id::JobId;
use bellwether_core::id::RunId;
use bellwether_core::read::{self, JobStatus, StoredAudit, StoredGroup, StoredJob, StoredTick};
use bellwether_core::record::{GroupRow, LastRun, Mark, TickFate, TokenRow};
use bellwether_core::time::Time;
use bellwether_core::turn::namespace_name;
use bellwether_core::waist::{Shard, StoreError, View};

use super::present_run::run_status;
use crate::{clock, convert};

/// A group.
#[must_use]
pub fn group(group: StoredGroup) -> api::Group {
    let row = group.row.unwrap_or_default();
    api::Group {
        namespace: group.namespace,
        name: group.name,
        jobs: group.jobs,
        jobs_is_minimum: group.jobs_is_minimum,
        paused: row.paused.as_ref().map(mark),
        maintenance: row.maintenance.as_ref().map(mark),
    }
}

/// A job.
///
/// # Errors
/// When its group cannot be read.
pub fn job(
    view: &dyn View,
    stored: &StoredJob,
    warnings: Vec<String>,
) -> Result<api::Job, StoreError> {
    let group = Groups::default().of(view, stored)?;
    Ok(in_group(stored, &group, warnings))
}

/// A page of jobs. Each group is looked up once.
///
/// # Errors
/// When a group cannot be read.
pub fn jobs(view: &dyn View, stored: &[StoredJob]) -> Result<Vec<api::Job>, StoreError> {
    let mut groups = Groups::default();
    stored.iter().map(|job| Ok(in_group(job, &groups.of(view, job)?, Vec::new()))).collect()
}

/// Groups that have been looked up: each shard has the switches of a group for its own jobs.
#[derive(Default)]
struct Groups(HashMap<(Shard, String, String), GroupRow>);

impl Groups {
    /// The switches of a job's group, as the job's shard has them.
    fn of(&mut self, view: &dyn View, job: &StoredJob) -> Result<GroupRow, StoreError> {
        let group = &job.definition.group;
        if group.is_empty() {
            return Ok(GroupRow::default());
        }
        let shard = job.id.shard();
        let namespace = namespace_name(&job.definition);
        match self.0.entry((shard, namespace.to_owned(), group.clone())) {
            Entry::Occupied(known) => Ok(known.get().clone()),
            Entry::Vacant(place) => {
                let row = read::group(view, shard, namespace, group)?.unwrap_or_default();
                Ok(place.insert(row).clone())
            }
        }
    }
}

fn in_group(stored: &StoredJob, group: &GroupRow, warnings: Vec<String>) -> api::Job {
    let state = &stored.state;
    let now = clock::now();
    let run_text = |n: u32| RunId { job: stored.id, n }.to_string();
    let set = |switch: &Option<Mark>| {
        switch.as_ref().filter(|mark| read::in_force(mark, now)).map(self::mark)
    };
    let info = api::JobInfo {
        id: stored.id.to_string(),
        status: status(stored.status()),
        shard: stored.id.shard(),
        batch: stored.batch.map(|batch| batch.to_string()),
        execution_time: state.next_ms.map(|ms| Instant(Time(ms))),
        schedule_text: stored.schedule_text(),
        created_at: Instant(stored.created),
        updated_at: Instant(stored.updated),
        revision: stored.revision,
        runs: state.runs,
        open_runs: state.open.iter().map(|n| run_text(*n)).collect(),
        last_run: state.last.as_ref().map(|last: &LastRun| api::LastRun {
            id: run_text(last.n),
            status: run_status(last.status()),
            scheduled_at: Instant(Time(last.scheduled_ms)),
            finished_at: Instant(Time(last.finished_ms)),
        }),
        paused: set(&state.paused),
        maintenance: set(&state.maintenance),
        group_paused: set(&group.paused),
        group_maintenance: set(&group.maintenance),
        warnings,
    };
    let spec = convert::spec(&stored.definition, state.paused.is_none());
    api::Job { info, spec }
}

/// A job's status.
#[must_use]
pub fn status(status: JobStatus) -> api::JobStatus {
    match status {
        JobStatus::Scheduled => api::JobStatus::Scheduled,
        JobStatus::Running => api::JobStatus::Running,
        JobStatus::Paused => api::JobStatus::Paused,
        JobStatus::Completed => api::JobStatus::Completed,
        JobStatus::Failed => api::JobStatus::Failed,
        JobStatus::Canceled => api::JobStatus::Canceled,
    }
}

/// A job's status by name.
#[must_use]
pub fn status_of(name: &str) -> Option<JobStatus> {
    Some(match name {
        "scheduled" => JobStatus::Scheduled,
        "running" => JobStatus::Running,
        "paused" => JobStatus::Paused,
        "completed" => JobStatus::Completed,
        "failed" => JobStatus::Failed,
        "canceled" => JobStatus::Canceled,
        _ => return None,
    })
}

/// Who set something.
#[must_use]
pub fn mark(mark: &Mark) -> api::Mark {
    api::Mark {
        at: Instant(Time(mark.at_ms)),
        by: mark.by.clone(),
        until: mark.until_ms.map(|ms| Instant(Time(ms))),
        note: mark.note.clone(),
    }
}

/// A row of the ledger.
#[must_use]
pub fn tick(job: JobId, row: &StoredTick) -> api::Tick {
    let tick = &row.tick;
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let time = |ms: i64| (ms != 0).then_some(Instant(Time(ms)));
    api::Tick {
        at: Instant(row.at),
        until: time(tick.until_ms).filter(|until| until.0 != row.at),
        count: tick.count.max(1),
        count_is_minimum: tick.count_is_minimum,
        fate: match tick.fate() {
            TickFate::Fired => api::TickFate::Fired,
            TickFate::Late => api::TickFate::Late,
            TickFate::Merged => api::TickFate::Merged,
            TickFate::Skipped => api::TickFate::Skipped,
            TickFate::Triggered => api::TickFate::Triggered,
        },
        reason: text(&tick.reason),
        detail: text(&tick.detail),
        run_id: (tick.run > 0).then(|| RunId { job, n: tick.run }.to_string()),
        runs: (tick.runs > 0).then_some(tick.runs),
        merged_into: time(tick.into_ms),
        decided_at: Instant(Time(tick.decided_ms)),
    }
}

/// An entry of the audit log.
#[must_use]
pub fn audit(stored: &StoredAudit) -> api::AuditEntry {
    let entry = &stored.entry;
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    api::AuditEntry {
        at: Instant(stored.at),
        actor: entry.actor.clone(),
        action: entry.action.clone(),
        subject: entry.subject.clone(),
        namespace: text(&entry.namespace),
        detail: text(&entry.detail),
        jobs: entry.jobs.iter().map(|id| JobId(*id).to_string()).collect(),
    }
}

/// A token, without its secret.
#[must_use]
pub fn token(row: &TokenRow) -> api::Token {
    api::Token {
        name: row.name.clone(),
        role: api::Role::of(&row.role).unwrap_or(api::Role::Viewer),
        namespace: (!row.namespace.is_empty()).then(|| row.namespace.clone()),
        created_at: Instant(Time(row.created_ms)),
        created_by: row.created_by.clone(),
        expires_at: row.expires_ms.map(|ms| Instant(Time(ms))),
    }
}
