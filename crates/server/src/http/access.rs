//! Tokens and the audit log.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use bellwether_api::{AuditEntry, NewToken, Page, Problem, Role, Token, TokenSpec};
use bellwether_core::read::{self, StoredAudit};
use bellwether_core::record::TokenRow;
use bellwether_core::time::Time;
use bellwether_core::turn::Input;
use bellwether_core::waist::{Shard, StoreError, View};
use serde::Deserialize;
use utoipa::IntoParams;

use super::answer::{Answer, blocking};
use super::extract::{JsonBody, Params, bad_cursor, lengths, limit};
use super::listed::Listed;
use super::present;
use crate::access::{self, Caller};
use crate::clock;
use crate::node::Node;
use crate::shard::Failure;

/// Makes a token. Its secret is in this answer and nowhere else.
#[utoipa::path(post, path = "/v1/tokens", tag = "access", operation_id = "createToken",
    request_body = TokenSpec,
    responses(
        (status = 201, description = "The token with its secret", body = NewToken),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn create_token(
    State(node): State<Arc<Node>>,
    caller: Caller,
    JsonBody(spec): JsonBody<TokenSpec>,
) -> Answer<(StatusCode, Json<NewToken>)> {
    caller.need(Role::Admin)?;
    if let Some(namespace) = &caller.namespace
        && spec.namespace.as_ref() != Some(namespace)
    {
        caller.need_namespace(spec.namespace.as_deref().unwrap_or(""))?;
    }
    let plain = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    if spec.name.len() > 64 || !plain(&spec.name) {
        let detail = "a token's name has 1 to 64 letters, digits and . _ -";
        return Err(Problem::new(422, "invalid_name", detail).at("name").into());
    }
    if spec.namespace.as_ref().is_some_and(|ns| ns.len() > 128 || !plain(ns)) {
        let detail = "a namespace has 1 to 128 letters, digits and . _ -";
        return Err(Problem::new(422, "invalid_name", detail).at("namespace").into());
    }
    let secret = access::new_secret()
        .map_err(|error| Problem::new(500, "no_randomness", error.to_string()))?;
    let now = clock::now();
    let token = TokenRow {
        name: spec.name,
        hash: access::hash(&secret),
        role: spec.role.name().to_owned(),
        namespace: spec.namespace.unwrap_or_default(),
        created_ms: now.0,
        created_by: caller.name.clone(),
        expires_ms: spec.expires_after.map(|span| now.plus_ms(span.0).0),
    };
    let shown = present::token(&token);
    node.shards[0].ask(Input::PutToken { actor: caller.name, token }).await?;
    // It is made, and its secret is shown only here. This node hears of it soon in any case.
    if let Err(error) = node.tokens.reload(|| node.view()) {
        tracing::warn!(%error, "a new token cannot be read yet");
    }
    Ok((StatusCode::CREATED, Json(NewToken { token: shown, secret })))
}

/// Lists tokens, without their secrets.
#[utoipa::path(get, path = "/v1/tokens", tag = "access", operation_id = "listTokens",
    responses(
        (status = 200, description = "All tokens", body = Page<Token>,
            headers(("Bellwether-Staleness-Ms" = u64, description = "How many milliseconds the list may be behind, at most"))),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn list_tokens(
    State(node): State<Arc<Node>>,
    caller: Caller,
) -> Answer<Listed<Page<Token>>> {
    caller.need(Role::Admin)?;
    let listing = node.listing(&[0])?;
    let rows = read::tokens(listing.view(), 0)?;
    let seen = rows.iter().filter(|row| caller.namespace.is_none() || caller.sees(&row.namespace));
    let items = seen.map(present::token).collect();
    Ok(Listed::of(Page { items, next_cursor: None }, &listing))
}

/// Revokes a token, at once.
#[utoipa::path(delete, path = "/v1/tokens/{name}", tag = "access", operation_id = "revokeToken",
    params(("name" = String, Path, description = "Name of the token")),
    responses(
        (status = 204, description = "It is good no more"),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn revoke_token(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Answer<StatusCode> {
    caller.need(Role::Admin)?;
    let rows = read::tokens(&*node.view(), 0)?;
    let seen = |row: &&TokenRow| {
        row.name == name && (caller.namespace.is_none() || caller.sees(&row.namespace))
    };
    if !rows.iter().any(|row| seen(&row)) {
        let name: String = name.chars().take(64).collect();
        let detail = format!("there is no token named '{name}'");
        return Err(Problem::new(404, "token_not_found", detail).into());
    }
    let keep_admin = node.tokens.required;
    node.shards[0].ask(Input::RevokeToken { actor: caller.name, name, keep_admin }).await?;
    let read = node.tokens.reload(|| node.view());
    read.map_err(|error| Failure::from(error).after_part(0))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Which part of the audit log.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AuditParams {
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

/// Who changed what, newest first.
#[utoipa::path(get, path = "/v1/audit", tag = "access", operation_id = "listAudit",
    params(AuditParams),
    responses(
        (status = 200, description = "Some of it", body = Page<AuditEntry>,
            headers(("Bellwether-Staleness-Ms" = u64, description = "How many milliseconds the list may be behind, at most"))),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn audit(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Params(params): Params<AuditParams>,
) -> Answer<Listed<Page<AuditEntry>>> {
    caller.need(Role::Admin)?;
    let limit = limit(params.limit)?;
    lengths([
        ("namespace", params.namespace.as_deref(), 128),
        ("cursor", params.cursor.as_deref(), 512),
    ])?;
    let namespace = caller.narrowed(params.namespace)?;
    let before = params.cursor.as_deref().map(audit_cursor).transpose()?;
    blocking(move || {
        let shards = node.shard_numbers();
        let listing = node.listing(&shards)?;
        let found = merged(listing.view(), &shards, before, limit)?;
        let next_cursor = found
            .last()
            .filter(|_| found.len() == limit)
            .map(|(shard, last)| format!("{}.{shard}.{}", last.at.0, last.sequence));
        let items = found
            .iter()
            .map(|(_, stored)| present::audit(stored))
            .filter(|entry| namespace.is_none() || entry.namespace == namespace)
            .collect();
        Ok(Listed::of(Page { items, next_cursor }, &listing))
    })
    .await
}

/// Where the log goes on: time, shard, sequence. Entries of one time come in the order of shards.
type AuditCursor = (Time, Shard, u32);

fn audit_cursor(text: &str) -> Answer<AuditCursor> {
    let mut parts = text.split('.');
    let mut part = || parts.next().ok_or_else(bad_cursor);
    let time = part()?.parse().map_err(|_| bad_cursor())?;
    let shard = part()?.parse().map_err(|_| bad_cursor())?;
    let sequence = part()?.parse().map_err(|_| bad_cursor())?;
    Ok((Time(time), shard, sequence))
}

fn merged(
    view: &dyn View,
    shards: &[Shard],
    before: Option<AuditCursor>,
    limit: usize,
) -> Result<Vec<(Shard, StoredAudit)>, StoreError> {
    let mut all = Vec::new();
    for shard in shards.iter().copied() {
        let before = before.map(|(time, at, sequence)| match shard.cmp(&at) {
            std::cmp::Ordering::Equal => (time, sequence),
            std::cmp::Ordering::Greater => (Time(time.0.saturating_add(1)), 0),
            std::cmp::Ordering::Less => (time, 0),
        });
        all.extend(read::audits(view, shard, before, limit)?.into_iter().map(|e| (shard, e)));
    }
    all.sort_by_key(|(shard, entry)| {
        (std::cmp::Reverse(entry.at), *shard, std::cmp::Reverse(entry.sequence))
    });
    all.truncate(limit);
    Ok(all)
}
