//! Tokens, the audit log, workers and the node itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Instant, Resources, Span};

/// What a token allows. Each role includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// May look.
    Viewer,
    /// May also pause, resume, trigger, cancel and retry.
    Operator,
    /// May also create, change and delete jobs.
    Editor,
    /// May also manage tokens and read the audit log.
    Admin,
}

impl Role {
    /// The role's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Editor => "editor",
            Role::Admin => "admin",
        }
    }

    /// The role of a name.
    #[must_use]
    pub fn of(name: &str) -> Option<Role> {
        [Role::Viewer, Role::Operator, Role::Editor, Role::Admin]
            .into_iter()
            .find(|role| role.name() == name)
    }
}

/// A token to be made.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenSpec {
    /// Its name, for lists and the audit log.
    #[schema(example = "deploy", min_length = 1, max_length = 64)]
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// The one namespace it is good for; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128)]
    pub namespace: Option<String>,
    /// How long it is good for; until it is revoked if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_after: Option<Span>,
}

/// A token, without its secret.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Its name.
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// The one namespace it is good for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// When it was made.
    pub created_at: Instant,
    /// By whom.
    pub created_by: String,
    /// When it stops being good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Instant>,
}

/// A new token with its secret, which is shown this once.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NewToken {
    /// The token.
    #[serde(flatten)]
    pub token: Token,
    /// The secret, to be sent as `Authorization: Bearer …`.
    pub secret: String,
}

/// An entry of the audit log.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// When.
    pub at: Instant,
    /// Who: the name of a token, or `anonymous`.
    pub actor: String,
    /// What, as `noun.verb`.
    #[schema(example = "job.create")]
    pub action: String,
    /// On what.
    pub subject: String,
    /// In which namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// More.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The jobs, if several were changed at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<String>,
}

/// A worker.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Worker {
    /// Its name.
    pub name: String,
    /// The name of the node that it is connected to, or was.
    #[serde(default)]
    pub node: String,
    /// `active`; `draining`, when it takes nothing more; `away`, when it has gone and what it holds
    /// is still its own.
    pub state: String,
    /// The queues it takes from; empty for all.
    pub queues: Vec<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Attempts it runs now.
    pub running: u64,
    /// What it runs, or has not reported yet; the first hundred.
    #[serde(default)]
    pub runs: Vec<String>,
    /// Attempts it can run at once, by kind of work or of `all` kinds; nothing if that has no bound.
    pub slots: BTreeMap<String, u64>,
    /// What its attempts may use together, if it counts resources instead of slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// The job types it has handlers for.
    #[serde(default)]
    pub job_types: Vec<String>,
    /// The one namespace whose runs it gets, that of its token; absent if it gets all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its version.
    pub version: String,
    /// When it last dialled in; absent for a server's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected_at: Option<Instant>,
    /// When it was last heard; absent for a server's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard_at: Option<Instant>,
}

/// All nodes and shards, as the node that answers knows them.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Cluster {
    /// Its id.
    pub id: String,
    /// The version of the node that answers.
    pub version: String,
    /// How many replicas each shard is to have, if there are as many nodes.
    #[serde(default)]
    pub replicas: u64,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The shards.
    pub shards: Vec<ShardState>,
    /// The times that it came out of a backup, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restored: Vec<crate::Restored>,
}

/// A node.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Its number, which is never given to another.
    pub node: u64,
    /// Its name.
    pub name: String,
    /// `up`, `down`, `stopping` or `leaving`.
    pub state: String,
    /// Where its API listens.
    pub listen: String,
    /// Where other nodes reach it; empty if they do not.
    pub peer: String,
    /// Where it stands.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub zone: String,
    /// Its version, if it has been heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// When it was started, if it has been heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Instant>,
    /// When it was last heard, if it is not the one that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard_at: Option<Instant>,
    /// Bytes on disk, as far as is known.
    pub disk_bytes: u64,
    /// Of these, bytes of the log that replicas agree on, as far as is known.
    #[serde(default)]
    pub log_bytes: u64,
    /// By how many milliseconds at least its clock is ahead of that of the node that answers, or behind
    /// if that is negative.
    #[serde(default)]
    pub clock_ahead_ms: i64,
    /// How many shards it leads.
    pub leads: u64,
    /// How many shards it has replicas of.
    pub replicas: u64,
}

/// A shard.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ShardState {
    /// Its number.
    pub shard: u16,
    /// The node that leads it, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// The term under which it acts; 0 if it does not act anywhere right now.
    pub term: u64,
    /// The nodes whose replicas vote.
    #[serde(default)]
    pub voters: Vec<String>,
    /// How many nodes are to vote: fewer than there are to be replicas while there are too few nodes,
    /// or too many of them in one zone.
    #[serde(default)]
    pub voters_wanted: u64,
    /// The nodes whose replicas only follow.
    #[serde(default)]
    pub learners: Vec<String>,
    /// How many entries of the log replicas have yet to apply, by node, as far as is known: those of
    /// nodes that are down are not in it.
    #[serde(default)]
    pub lag: BTreeMap<String, u64>,
    /// The nodes that have a replica, and are down.
    #[serde(default)]
    pub down: Vec<String>,
    /// About how many bytes a replica uses on disk: that of the leader, else the largest one. What was
    /// written last is in the log alone, and not counted.
    #[serde(default)]
    pub bytes: u64,
    /// Open runs.
    pub open_runs: u64,
    /// Runs that wait for a worker.
    pub ready_runs: u64,
    /// Entries of the due index in memory.
    pub wheel_entries: u64,
}
