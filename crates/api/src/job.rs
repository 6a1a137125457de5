//! Jobs.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::flexible::{CommandShape, MisfireShape, OverlapShape, ScheduleShape};
use crate::size::SizeShape;
use crate::{
    Delivery, HttpTarget, Instant, Misfire, OnFailure, Overlap, Problem, PublishTarget, Resources,
    Retention, Retry, Schedule, Size, Span, Success, TargetWorkers, TextOr, TextOrList,
};

/// A job as a caller describes it: when (`schedule`), what (one of `command`, `http`, `publish`,
/// `job_type`) and how (the rest).
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// The caller's own name for the job, unique in its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "nightly-report", max_length = 256)]
    pub key: Option<String>,
    /// The tenant; if absent the token's, or `default` if it is good for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128)]
    pub namespace: Option<String>,
    /// The group, for browsing, pausing and access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128)]
    pub group: Option<String>,
    /// Who owns it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128)]
    pub owner: Option<String>,
    /// Free labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Text for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub description: Option<String>,

    /// When it is due: an object, or one line such as `5 2 * * 6`, `@daily`, `every 5m`, `in 30m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ScheduleShape>)]
    pub schedule: Option<TextOr<Schedule>>,
    /// Short for `schedule: {at: …}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_time: Option<Instant>,

    /// A command: one line for the shell, or program and arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<CommandShape>)]
    pub command: Option<TextOrList>,
    /// Additional environment of the command.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Working directory of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub cwd: Option<String>,
    /// User to run the command as; needs a worker that runs as root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128)]
    pub user: Option<String>,
    /// What the command reads on standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// The shell for the command; `/bin/sh` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub shell: Option<String>,
    /// Time between TERM and KILL when the command is stopped; 10s if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<Span>,
    /// How much memory the processes of the command may use together: a warning in its output from 90 %
    /// on, and the end of all of them beyond it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<SizeShape>)]
    pub memory_limit: Option<Size>,
    /// A request to make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpTarget>,
    /// A message to hand to a broker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publish: Option<PublishTarget>,
    /// The name of a handler that a worker has registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "email_send", max_length = 128)]
    pub job_type: Option<String>,
    /// JSON for the handler or the broker, up to 200 KB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub payload: Option<Box<RawValue>>,

    /// The queue whose workers run it; `default` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128)]
    pub queue: Option<String>,
    /// Higher goes first within the queue; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -1000, maximum = 1000)]
    pub priority: Option<i32>,
    /// Labels a worker must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requires: BTreeMap<String, String>,
    /// What one attempt is expected to use. Workers that count resources never get more than they
    /// offer; workers that count slots do not look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Whether one worker runs it each time, or all that are connected and take it, each with a run
    /// of its own; `any` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_workers: Option<TargetWorkers>,
    /// How many retries after a known failure; short for `retry: {max: …}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 10000)]
    pub retries: Option<u32>,
    /// Retries in detail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// What happens when an outcome is unknown; `at_most_once` without retries, else `at_least_once`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// What happens to ticks that nothing could fire: `once`, `skip`, `all`, or an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<MisfireShape>)]
    pub misfire: Option<TextOr<Misfire>>,
    /// What happens to a tick while a run is open: `skip`, `queue`, `replace`, `allow`, or an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<OverlapShape>)]
    pub overlap: Option<TextOr<Overlap>>,
    /// Runs with the same ordering key run in schedule order, one at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub ordering_key: Option<String>,
    /// Whether a failed run holds its ordering key up; `block` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// How long an attempt may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// How late a run may start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_after: Option<Span>,
    /// What counts as success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<Success>,
    /// How long to keep what happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
    /// Notices to send. Stored and returned; sending them is not part of this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    pub notify: Option<Box<RawValue>>,
    /// Whether it is to run; true if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// A job as the server has it.
#[derive(Clone, Debug, Serialize)]
pub struct Job {
    /// What the server knows about it.
    #[serde(flatten)]
    pub info: JobInfo,
    /// What the caller asked for, secrets masked.
    #[serde(flatten)]
    pub spec: JobSpec,
}

/// What the server knows about a job, beyond what the caller asked for.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct JobInfo {
    /// Its id.
    #[schema(example = "job_06D1R3M0G0400")]
    pub id: String,
    /// Where it stands. What its group is in shows in `group_paused` and `group_maintenance`.
    pub status: JobStatus,
    /// The shard that owns it.
    pub shard: u16,
    /// The batch it is a member of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<String>,
    /// Its next time; of a one-off job, its time. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_time: Option<Instant>,
    /// Its schedule in plain words.
    pub schedule_text: String,
    /// When it was created.
    pub created_at: Instant,
    /// When it was last changed.
    pub updated_at: Instant,
    /// How often it was changed, from 1.
    pub revision: u32,
    /// How many runs there have been.
    pub runs: u32,
    /// Open runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_runs: Vec<String>,
    /// The last run that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<LastRun>,
    /// Set while it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Mark>,
    /// Set while it is in maintenance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<Mark>,
    /// Set while its group is paused: nothing is launched, though `status` is the job's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_paused: Option<Mark>,
    /// Set while its group is in maintenance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_maintenance: Option<Mark>,
    /// Things the caller should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The fields of [`JobInfo`].
const INFO_FIELDS: [&str; 17] = [
    "id",
    "status",
    "shard",
    "batch",
    "execution_time",
    "schedule_text",
    "created_at",
    "updated_at",
    "revision",
    "runs",
    "open_runs",
    "last_run",
    "paused",
    "maintenance",
    "group_paused",
    "group_maintenance",
    "warnings",
];

/// Raw JSON within a flattened struct cannot be read by derived code: the fields are told apart
/// here.
impl<'de> Deserialize<'de> for Job {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Job, D::Error> {
        let all = serde_json::Map::deserialize(deserializer)?;
        let (info, spec): (serde_json::Map<_, _>, serde_json::Map<_, _>) =
            all.into_iter().partition(|(name, _)| INFO_FIELDS.contains(&name.as_str()));
        Ok(Job {
            info: JobInfo::deserialize(serde_json::Value::Object(info))
                .map_err(D::Error::custom)?,
            spec: JobSpec::deserialize(serde_json::Value::Object(spec))
                .map_err(D::Error::custom)?,
        })
    }
}

/// Where a job stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// A tick will come.
    Scheduled,
    /// A run is open.
    Running,
    /// It is paused itself: nothing is launched until it is resumed.
    Paused,
    /// No tick will come; the last run was fine.
    Completed,
    /// No tick will come; the last run failed or was lost.
    Failed,
    /// No tick will come; the last run was canceled or skipped.
    Canceled,
}

/// How the last run ended.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LastRun {
    /// Its id.
    pub id: String,
    /// Its status.
    pub status: crate::RunStatus,
    /// Its tick.
    pub scheduled_at: Instant,
    /// When it ended.
    pub finished_at: Instant,
}

/// Who set something, when, until when and why.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Mark {
    /// When.
    pub at: Instant,
    /// By whom.
    pub by: String,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Instant>,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// A batch of jobs to create.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchRequest {
    /// The jobs.
    #[schema(max_items = 10000)]
    pub jobs: Vec<JobSpec>,
}

/// What became of a batch.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct BatchAnswer {
    /// How many were created.
    pub created: u32,
    /// How many were there already, with the same body.
    pub existing: u32,
    /// How many were refused.
    pub failed: u32,
    /// One result per job, in order.
    pub results: Vec<BatchResult>,
}

/// What became of one job of a batch.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BatchResult {
    /// 201 created, 200 there already, else what the error says.
    pub status: u16,
    /// The job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

/// Pausing: why.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    /// Why, for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    pub note: Option<String>,
}

/// Maintenance: until when and why.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MaintenanceRequest {
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Instant>,
    /// How long it lasts, instead of `until`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "for")]
    pub lasting: Option<Span>,
    /// Why, for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    pub note: Option<String>,
}

/// A group of jobs.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Group {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How many jobs it has, up to the number that was counted.
    pub jobs: u64,
    /// Whether there are more jobs than were counted.
    pub jobs_is_minimum: bool,
    /// Set while it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Mark>,
    /// Set while it is in maintenance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<Mark>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_round_trips_with_raw_payload() {
        let text = r#"{"id":"job_06D1R3M0G0400","status":"scheduled","shard":3,"schedule_text":"once",
            "created_at":"2026-01-01T00:00:00.000Z","updated_at":"2026-01-01T00:00:00.000Z","revision":1,
            "runs":0,"job_type":"email_send","schedule_time":"2026-12-31T23:59:59Z",
            "payload":{"user_id":12345678901234567890},"retries":3}"#;
        let job: Job = serde_json::from_str(text).unwrap();
        assert_eq!(job.spec.payload.as_ref().unwrap().get(), r#"{"user_id":12345678901234567890}"#);
        let again: Job = serde_json::from_str(&serde_json::to_string(&job).unwrap()).unwrap();
        assert_eq!(again.info.id, job.info.id);
        assert_eq!(again.spec.retries, Some(3));
    }

    #[test]
    fn every_field_that_the_server_knows_is_read_as_such() {
        use utoipa::PartialSchema;
        let schema = serde_json::to_value(JobInfo::schema()).unwrap();
        let fields = schema["properties"].as_object().unwrap();
        let unread: Vec<_> = fields.keys().filter(|f| !INFO_FIELDS.contains(&f.as_str())).collect();
        assert_eq!((unread, fields.len()), (vec![], INFO_FIELDS.len()));
    }

    #[test]
    fn r15_the_short_form_is_accepted_as_it_stands() {
        let text = r#"{ "job_type": "email_send", "schedule_time": "2026-12-31T23:59:59Z", "payload": {"user_id": 123}, "retries": 3 }"#;
        let spec: JobSpec = serde_json::from_str(text).unwrap();
        assert_eq!(spec.job_type.as_deref(), Some("email_send"));
    }

    #[test]
    fn unknown_fields_are_named() {
        let error = serde_json::from_str::<JobSpec>(r#"{"comand": "ls"}"#).unwrap_err().to_string();
        assert!(error.contains("comand"), "{error}");
    }
}
