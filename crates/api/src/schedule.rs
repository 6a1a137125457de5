//! Schedules.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::flexible::ScheduleRuleShape;
use crate::{Instant, Span, TextOr};

/// When a job is due. Exactly one of `cron`, `every`, `rate`, `at`, `delay` or `any`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Cron expression with 5, 6 (seconds first) or 7 (year last) fields, or a preset such as `@daily`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "5 2 * * 6", max_length = 512)]
    pub cron: Option<String>,
    /// A fixed period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
    /// A fixed period in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "rate(5 minutes)", max_length = 64)]
    pub rate: Option<String>,
    /// With `every` or `rate`: `start` keeps a fixed grid, `finish` counts from the last end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<After>,
    /// Once, at this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Instant>,
    /// Once, so long after creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Due whenever any of these is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 32, value_type = Option<Vec<ScheduleRuleShape>>)]
    pub any: Option<Vec<TextOr<ScheduleRule>>>,
    /// But not when any of these is. A five-field cron expression here covers its whole minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 32, value_type = Option<Vec<ScheduleRuleShape>>)]
    pub except: Option<Vec<TextOr<ScheduleRule>>>,
    /// IANA time zone; UTC if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "Europe/Berlin", max_length = 64)]
    pub timezone: Option<String>,
    /// What it means that day-of-month and day-of-week are both restricted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day_match: Option<DayMatch>,
    /// What happens when clocks are changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst: Option<Dst>,
    /// Nothing is due before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Instant>,
    /// Nothing is due after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Instant>,
    /// The schedule makes no more runs than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_runs: Option<u32>,
    /// Each run is delayed by up to this much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Span>,
}

/// One rule of a union or exclusion. Exactly one field.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleRule {
    /// Cron expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 512)]
    pub cron: Option<String>,
    /// A fixed period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
    /// Once, at this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Instant>,
    /// Once, so long after creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
}

/// What a period is counted from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum After {
    /// A fixed grid from the start.
    Start,
    /// The end of the last run.
    Finish,
}

/// How two restricted day fields combine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DayMatch {
    /// A day that matches either is due, as in cron.
    Either,
    /// Only a day that matches both is due.
    Both,
}

/// What happens when clocks are changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Dst {
    /// For times that are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
    /// For times that come twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<Fold>,
}

/// What becomes of times that are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Gap {
    /// One run right after the gap.
    RunAfter,
    /// Nothing.
    Skip,
}

/// Which of two equal times counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fold {
    /// The first.
    First,
    /// The second.
    Second,
    /// Both.
    Both,
}

/// A question about a schedule that need not belong to any job.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewRequest {
    /// A schedule in one line, as people type it: `5 2 * * 6`, `@daily`, `every 5m`, `in 30m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 512)]
    pub expression: Option<String>,
    /// Cron expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "5 2 * * 6", max_length = 512)]
    pub cron: Option<String>,
    /// A fixed period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
    /// A fixed period in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 64)]
    pub rate: Option<String>,
    /// What the period is counted from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<After>,
    /// Once, at this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Instant>,
    /// Once, so long from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Due whenever any of these is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 32, value_type = Option<Vec<ScheduleRuleShape>>)]
    pub any: Option<Vec<TextOr<ScheduleRule>>>,
    /// But not when any of these is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 32, value_type = Option<Vec<ScheduleRuleShape>>)]
    pub except: Option<Vec<TextOr<ScheduleRule>>>,
    /// IANA time zone; UTC if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 64)]
    pub timezone: Option<String>,
    /// What it means that day-of-month and day-of-week are both restricted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day_match: Option<DayMatch>,
    /// What happens when clocks are changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst: Option<Dst>,
    /// Nothing is due before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Instant>,
    /// Nothing is due after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Instant>,
    /// No more times than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_runs: Option<u32>,
    /// Each run would be delayed by up to this much; not shown in the times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Span>,
    /// How many times to show; 5 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub count: Option<u32>,
    /// Show times after this; now if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Instant>,
    /// What hashed fields (`H`) are computed from: a job's `namespace/key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 512)]
    pub identity: Option<String>,
}

impl PreviewRequest {
    /// The schedule in question, without the question; `expression` stays apart.
    #[must_use]
    pub fn schedule(&self) -> Schedule {
        Schedule {
            cron: self.cron.clone(),
            every: self.every,
            rate: self.rate.clone(),
            after: self.after,
            at: self.at,
            delay: self.delay,
            any: self.any.clone(),
            except: self.except.clone(),
            timezone: self.timezone.clone(),
            day_match: self.day_match,
            dst: self.dst,
            start: self.start,
            end: self.end,
            max_runs: self.max_runs,
            jitter: self.jitter,
        }
    }
}

/// What a schedule means.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Preview {
    /// In plain words.
    pub description: String,
    /// The next times.
    pub times: Vec<Instant>,
}

/// The next times of a job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct NextTimes {
    /// In plain words.
    pub description: String,
    /// The next times; empty if the schedule has none, or counts from the end of an open run.
    pub times: Vec<Instant>,
}
