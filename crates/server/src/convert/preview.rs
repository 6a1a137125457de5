//! Schedules that belong to no job: what `POST /v1/schedules:preview` asks about.

use bellwether_api::{PreviewRequest, Problem};
use bellwether_core::record::{self, Definition};
use bellwether_core::schedule::{Schedule, ScheduleSpec};
use bellwether_core::spec::schedule_spec;
use bellwether_core::time::Time;

use super::limits::{IDENTITY_CHARS_MAX, PREVIEW_TIMES_MAX};
use super::name::longer_than;
use super::problem::{count_within, invalid, too_long};
use super::schedule::{compile_problem, expression, from_object, schedule_problem};

/// The schedule that a preview is about.
///
/// # Errors
/// A problem that names the field. Whether the schedule can fire is not checked; [`preview`] does.
pub fn preview_spec(request: &PreviewRequest) -> Result<ScheduleSpec, Problem> {
    let schedule = Some(preview_stored(request)?);
    Ok(schedule_spec(&Definition { schedule, ..Definition::default() }))
}

/// The schedule that a preview is about, compiled as of `now`.
///
/// # Errors
/// A problem that names the field; `never_fires` if no time can come.
pub fn preview(request: &PreviewRequest, now: Time) -> Result<Schedule, Problem> {
    let stored = preview_stored(request)?;
    let identity = request.identity.as_deref().unwrap_or_default();
    let schedule = Some(stored.clone());
    let spec = schedule_spec(&Definition { schedule, ..Definition::default() });
    Schedule::compile(&spec, identity, now).map_err(|error| match &request.expression {
        Some(_) if error.field == "any[0]" => schedule_problem(&error, "expression"),
        _ => compile_problem(&error, "", &stored),
    })
}

fn preview_stored(request: &PreviewRequest) -> Result<record::Schedule, Problem> {
    if let Some(count) = request.count {
        count_within("count", count, PREVIEW_TIMES_MAX)?;
    }
    if request.identity.as_deref().is_some_and(|text| longer_than(text, IDENTITY_CHARS_MAX)) {
        return Err(too_long("identity", IDENTITY_CHARS_MAX, "characters"));
    }
    let mut schedule = request.schedule();
    let Some(text) = &request.expression else {
        return from_object("", schedule);
    };
    let form = expression("expression", text)?;
    // The line takes the place of `any`, so that zone and bounds go with it and other forms do not.
    if schedule.any.is_some() {
        let detail = "`expression` and `any` are two schedules; give one of them";
        return Err(invalid("conflicting_schedules", "expression", detail));
    }
    schedule.any = Some(Vec::new());
    let mut stored = from_object("", schedule).map_err(|problem| match problem.code.as_str() {
        "conflicting_schedules" => {
            let detail = "`expression` is a complete schedule; leave the other forms out";
            invalid("conflicting_schedules", "expression", detail)
        }
        _ => problem,
    })?;
    stored.any = vec![record::Rule { form: Some(form) }];
    Ok(stored)
}
