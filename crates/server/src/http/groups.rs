//! Groups of jobs.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use bellwether_api::{Group, MaintenanceRequest, Page, PauseRequest, Problem, Role};
use bellwether_core::read;
use bellwether_core::turn::{GroupChange, Input, Reply};
use serde::Deserialize;
use utoipa::IntoParams;

use super::answer::{Answer, blocking};
use super::extract::{OptionalBody, Params, bad_cursor, lengths, limit};
use super::jobs::InNamespace;
use super::jobs_control::{note, until};
use super::listed::Listed;
use super::present;
use crate::access::Caller;
use crate::node::Node;

/// Which groups to list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// Only of this namespace.
    #[param(max_length = 128)]
    namespace: Option<String>,
    /// Where to go on.
    #[param(max_length = 512)]
    cursor: Option<String>,
    /// How many at most; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Lists groups, by namespace and name.
#[utoipa::path(get, path = "/v1/groups", tag = "groups", operation_id = "listGroups",
    params(ListParams),
    responses(
        (status = 200, description = "Some of them", body = Page<Group>,
            headers(("Bellwether-Staleness-Ms" = u64, description = "How many milliseconds the list may be behind, at most"))),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn list(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Params(params): Params<ListParams>,
) -> Answer<Listed<Page<Group>>> {
    caller.need(Role::Viewer)?;
    let limit = limit(params.limit)?;
    lengths([
        ("namespace", params.namespace.as_deref(), 128),
        ("cursor", params.cursor.as_deref(), 512),
    ])?;
    let namespace = caller.narrowed(params.namespace)?;
    let after = match &params.cursor {
        Some(cursor) => Some(cursor.split_once('/').ok_or_else(bad_cursor)?),
        None => None,
    };
    let after = after.map(|(namespace, name)| (namespace.to_owned(), name.to_owned()));
    blocking(move || {
        let after = after.as_ref().map(|(namespace, name)| (&**namespace, &**name));
        let shards = node.shard_numbers();
        let listing = node.listing(&shards)?;
        let view = listing.view();
        let mut found = read::groups(view, &shards, namespace.as_deref(), after, limit + 1)?;
        let more = found.len() > limit;
        found.truncate(limit);
        let last = found.last().filter(|_| more);
        let next_cursor = last.map(|group| format!("{}/{}", group.namespace, group.name));
        let items = found.into_iter().map(present::group).collect();
        Ok(Listed::of(Page { items, next_cursor }, &listing))
    })
    .await
}

/// Makes a change in every shard. Should one fail, the request can be sent again.
async fn change(
    node: &Arc<Node>,
    caller: &Caller,
    group: &str,
    params: &InNamespace,
    change: GroupChange,
) -> Answer<StatusCode> {
    caller.need(Role::Operator)?;
    let own = caller.namespace.as_deref();
    let namespace = params.namespace.as_deref().or(own).unwrap_or("default");
    caller.need_namespace(namespace)?;
    if group.is_empty() || group.len() > 128 || namespace.len() > 128 {
        let detail = "names of groups and namespaces have 1 to 128 characters";
        return Err(Problem::new(422, "invalid_name", detail).at("group").into());
    }
    let mut begun = false;
    for shard in &node.shards {
        loop {
            let input = Input::Group {
                actor: caller.name.clone(),
                namespace: namespace.to_owned(),
                group: group.to_owned(),
                change: change.clone(),
            };
            let reply = shard.ask(input).await.map_err(|failure| match begun {
                true => failure.after_part(shard.shard),
                false => failure,
            })?;
            begun = true;
            if reply != Reply::More(true) {
                break;
            }
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Pauses all jobs of a group, present and future.
#[utoipa::path(post, path = "/v1/groups/{group}/pause", tag = "groups", operation_id = "pauseGroup",
    params(("group" = String, Path, description = "Name of the group"), InNamespace),
    request_body(content = Option<PauseRequest>),
    responses(
        (status = 204, description = "It is paused"),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn pause(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(group): Path<String>,
    Params(params): Params<InNamespace>,
    OptionalBody(request): OptionalBody<PauseRequest>,
) -> Answer<StatusCode> {
    let note = note(request.note)?;
    change(&node, &caller, &group, &params, GroupChange::Pause { note }).await
}

/// Ends a group's pause and its maintenance.
#[utoipa::path(post, path = "/v1/groups/{group}/resume", tag = "groups", operation_id = "resumeGroup",
    params(("group" = String, Path, description = "Name of the group"), InNamespace),
    responses(
        (status = 204, description = "It is resumed"),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn resume(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(group): Path<String>,
    Params(params): Params<InNamespace>,
) -> Answer<StatusCode> {
    change(&node, &caller, &group, &params, GroupChange::Resume).await
}

/// Puts a group into maintenance: ticks of its jobs are skipped, and shown as such.
#[utoipa::path(post, path = "/v1/groups/{group}/maintenance", tag = "groups", operation_id = "maintainGroup",
    params(("group" = String, Path, description = "Name of the group"), InNamespace),
    request_body(content = Option<MaintenanceRequest>),
    responses(
        (status = 204, description = "It is in maintenance"),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn maintenance(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(group): Path<String>,
    Params(params): Params<InNamespace>,
    OptionalBody(request): OptionalBody<MaintenanceRequest>,
) -> Answer<StatusCode> {
    let until = until(&request)?;
    let note = note(request.note)?;
    change(&node, &caller, &group, &params, GroupChange::Maintenance { until, note }).await
}
