//! Backups.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use bellwether_api::{Backup, BackupSpec, BackupState, Gathered, Problem, Role};

use super::answer::Answer;
use super::extract::OptionalBody;
use super::listed::Listed;
use crate::access::Caller;
use crate::backup::{LISTED_MAX, combined};
use crate::live::Relayed;
use crate::node::Node;

/// The longest place.
const TO_MAX: usize = 1_024;
/// The most of a name that is repeated.
const NAME_MAX: usize = 128;

/// Backups are about all namespaces.
fn need_all(caller: &Caller) -> Result<(), Problem> {
    caller.need(Role::Admin)?;
    if caller.namespace.is_some() {
        let detail = "a backup is of all namespaces, and this token is good for one";
        return Err(Problem::new(403, "other_namespace", detail));
    }
    Ok(())
}

/// Begins a backup of all shards, which goes on by itself. A node takes one at a time.
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

/// Lists backups, newest first: those that are being taken, whichever node does, the newest 100 in the
/// place that the server's setting `backup_to` names, and those that failed since the nodes were
/// started.
#[utoipa::path(get, path = "/v1/backups", tag = "operations", operation_id = "listBackups",
    responses(
        (status = 200, description = "The backups", body = Gathered<Backup>,
            headers(("Bellwether-Staleness-Ms" = u64, description = "How many milliseconds the list may be behind, at most"))),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn list(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Relayed(relayed): Relayed,
) -> Answer<Listed<Gathered<Backup>>> {
    need_all(&caller)?;
    let (mut known, mut missing_nodes) = known(&node, &caller, relayed).await;
    // The place is the same for all nodes: whoever is asked looks there.
    let mut found = if relayed { Vec::new() } else { node.backups.found(&node).await? };
    if has_stray(&known, &found) {
        // It was begun since the nodes were asked, or completed since the place was looked at.
        let (again, missing) = self::known(&node, &caller, relayed).await;
        (known, missing_nodes) = (again.into_iter().chain(known).collect(), missing);
        let (stray, mut rest): (Vec<Backup>, Vec<Backup>) =
            found.into_iter().partition(|backup| is_stray(&known, backup));
        for backup in stray {
            rest.extend(node.backups.find(&node, &backup.name).await?);
        }
        found = rest;
    }
    let items = combined(known, found, LISTED_MAX);
    Ok(Listed::now(Gathered { items, next_cursor: None, missing_nodes }))
}

/// Whether a backup in the place is incomplete and no node knows of it.
fn is_stray(known: &[Backup], found: &Backup) -> bool {
    found.state == BackupState::Incomplete && known.iter().all(|known| known.name != found.name)
}

fn has_stray(known: &[Backup], found: &[Backup]) -> bool {
    found.iter().any(|found| is_stray(known, found))
}

/// A backup: how far it is, or what became of it.
#[utoipa::path(get, path = "/v1/backups/{backup}", tag = "operations", operation_id = "getBackup",
    params(("backup" = String, Path, description = "Name of the backup")),
    responses(
        (status = 200, description = "The backup", body = Backup),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn get(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Relayed(relayed): Relayed,
    Path(name): Path<String>,
) -> Answer<Json<Backup>> {
    need_all(&caller)?;
    let (mut known, missing) = known(&node, &caller, relayed).await;
    known.retain(|backup| backup.name == name);
    // Whoever takes it or has tried to knows best, and storage need not be asked.
    let found = if known.is_empty() { node.backups.find(&node, &name).await? } else { None };
    let backup = combined(known, found.into_iter().collect(), 1).pop();
    if backup.as_ref().is_none_or(|backup| backup.state == BackupState::Incomplete)
        && !missing.is_empty()
    {
        let missing = missing.join(", ");
        let detail = format!(
            "the backup may be one of a node that does not answer ({missing}); ask again later"
        );
        return Err(Problem::new(503, "node_silent", detail).into());
    }
    let Some(backup) = backup else {
        let name: String = name.chars().take(NAME_MAX).collect();
        let detail = format!("no node knows a backup '{name}', and it is not in `backup_to`");
        return Err(Problem::new(404, "backup_not_found", detail).into());
    };
    Ok(Json(backup))
}

/// What the nodes have in memory, and who did not answer. Whoever is asked by another node knows what
/// is its own.
async fn known(node: &Node, caller: &Caller, relayed: bool) -> (Vec<Backup>, Vec<String>) {
    let mut known = node.backups.known();
    if relayed {
        return (known, Vec::new());
    }
    let others = node.gather::<Gathered<Backup>>(caller, "/v1/backups").await;
    known.extend(others.answers.into_iter().flat_map(|(_, answer)| answer.items));
    (known, others.missing)
}
