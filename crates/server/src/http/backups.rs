//! Backups.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use bellwether_api::{Backup, BackupSpec, Page, Problem, Role};

use super::answer::Answer;
use super::extract::OptionalBody;
use super::listed::Listed;
use crate::access::Caller;
use crate::node::Node;

/// The longest place.
const TO_MAX: usize = 1_024;

/// Backups are about all namespaces.
fn need_all(caller: &Caller) -> Result<(), Problem> {
    caller.need(Role::Admin)?;
    if caller.namespace.is_some() {
        let detail = "a backup is of all namespaces, and this token is good for one";
        return Err(Problem::new(403, "other_namespace", detail));
    }
    Ok(())
}

/// Begins a backup of all shards, which goes on by itself. One is taken at a time.
#[utoipa::path(post, path = "/v1/backups", tag = "operations", operation_id = "createBackup",
    request_body(content = Option<BackupSpec>),
    responses(
        (status = 202, description = "It is being taken", body = Backup),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn create(
    State(node): State<Arc<Node>>,
    caller: Caller,
    OptionalBody(spec): OptionalBody<BackupSpec>,
) -> Answer<(StatusCode, Json<Backup>)> {
    need_all(&caller)?;
    if spec.to.as_ref().is_some_and(|to| to.is_empty() || to.chars().count() > TO_MAX) {
        let detail = format!("`to` has 1 to {TO_MAX} characters");
        return Err(Problem::new(422, "invalid_backup_place", detail).at("to").into());
    }
    let backup = node.backups.begin(&node, spec.to)?;
    tracing::info!(backup = backup.name, to = backup.to, by = caller.name, "backup asked for");
    Ok((StatusCode::ACCEPTED, Json(backup)))
}

/// Lists backups, newest first: the one that is being taken, the newest 100 in the place that the
/// server's setting `backup_to` names, and those that failed since the server was started.
#[utoipa::path(get, path = "/v1/backups", tag = "operations", operation_id = "listBackups",
    responses(
        (status = 200, description = "The backups", body = Page<Backup>,
            headers(("Bellwether-Staleness-Ms" = u64, description = "How many milliseconds the list may be behind, at most"))),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn list(State(node): State<Arc<Node>>, caller: Caller) -> Answer<Listed<Page<Backup>>> {
    need_all(&caller)?;
    let items = node.backups.list(&node).await?;
    Ok(Listed::now(Page { items, next_cursor: None }))
}
