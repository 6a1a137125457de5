//! Schedules in plain words, without a job.

use bellwether_api::{Instant, Preview, PreviewRequest, Problem, Role};

use super::answer::Answer;
use super::extract::JsonBody;
use crate::access::Caller;
use crate::{clock, convert};

/// Says what a schedule means and when it would fire, before it is saved.
#[utoipa::path(post, path = "/v1/schedules:preview", tag = "schedules", operation_id = "previewSchedule",
    request_body = PreviewRequest,
    responses(
        (status = 200, description = "What it means", body = Preview),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn preview(
    caller: Caller,
    JsonBody(request): JsonBody<PreviewRequest>,
) -> Answer<axum::Json<Preview>> {
    caller.need(Role::Viewer)?;
    let from = request.from.map_or_else(clock::now, |from| from.0);
    let schedule = convert::preview(&request, from)?;
    let count = request.count.unwrap_or(5).min(schedule.spec().max_runs.unwrap_or(u32::MAX));
    let times = match schedule.is_once() {
        Some(at) => vec![at],
        None => schedule.times(from, count as usize),
    };
    Ok(axum::Json(Preview {
        description: schedule.describe(),
        times: times.into_iter().map(Instant).collect(),
    }))
}
