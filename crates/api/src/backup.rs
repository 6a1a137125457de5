//! Backups, and stores that came out of one.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Instant;

/// A wish for a backup.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BackupSpec {
    /// Where to: an absolute path on the server's machine, or `s3://BUCKET/PREFIX`. If it is absent,
    /// where the server's setting `backup_to` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 1024, example = "s3://bucket/bellwether")]
    pub to: Option<String>,
}

/// Where a backup stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BackupState {
    /// It is being taken.
    Running,
    /// It is there, whole.
    Complete,
    /// It could not be taken; `error` says why.
    Failed,
    /// It was interrupted, or is taken by a node that does not answer, and is no backup. The next one
    /// clears it up.
    Incomplete,
    /// What is stored of it is not what was written; `error` says what.
    Damaged,
}

/// A backup.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Backup {
    /// Its name; names sort by time.
    pub name: String,
    /// Where it is.
    pub to: String,
    /// Where it stands.
    pub state: BackupState,
    /// The name of the node that takes it, or has tried to. Absent if it is known from the place only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// When it was begun. All that was acknowledged before is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_at: Option<Instant>,
    /// When it was complete, or had failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Instant>,
    /// Shards of the cluster.
    pub shards: u32,
    /// Those that are in it so far.
    pub shards_done: u32,
    /// Rows so far.
    pub rows: u64,
    /// Bytes of these rows.
    pub bytes: u64,
    /// Bytes of objects that have been written.
    pub stored_bytes: u64,
    /// The id of the cluster it was taken of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The version of the program that took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// That a cluster came out of a backup, and what that led to. What happened to its jobs between
/// `taken_at` and `restored_at` is not known.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Restored {
    /// The backup's name.
    pub backup: String,
    /// The id of the cluster it was taken of.
    pub from_cluster: String,
    /// When it was taken.
    pub taken_at: Instant,
    /// When it was restored.
    pub restored_at: Instant,
    /// Jobs with `at_most_once` that were held because they may have run in between.
    pub held_jobs: u64,
    /// Runs of such jobs that were open and became `lost`.
    pub lost_runs: u64,
    /// Runs of other jobs that were with a worker and were started again.
    pub repeated_runs: u64,
    /// Batches whose remaining items become jobs that are held.
    pub held_batches: u64,
}
