//! What can go wrong with backups, each with what to do about it.

use std::io;
use std::path::PathBuf;

use bellwether_core::waist::StoreError;
use bellwether_store::OpenError;

/// Why a backup could not be made, found or used.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// That is no place for backups.
    #[error("'{0}' is no place for backups: {1}")]
    BadPlace(String, String),
    /// The storage failed in a way that is not known here.
    #[error("{place}: {source}")]
    Storage {
        /// Where.
        place: String,
        /// Why.
        source: object_store::Error,
    },
    /// The storage cannot be reached, or does not answer.
    #[error("{place}: {why}")]
    StorageSilent {
        /// Where.
        place: String,
        /// Why, and what to do.
        why: String,
    },
    /// The storage does not accept the credentials, or they are not good for this.
    #[error("{place}: {why}")]
    StorageRefuses {
        /// Where.
        place: String,
        /// Why, and what to do.
        why: String,
    },
    /// The storage has no such bucket.
    #[error("{place}: {why}")]
    NoBucket {
        /// Where.
        place: String,
        /// Why, and what to do.
        why: String,
    },
    /// There is no such backup.
    #[error(
        "there is no backup {name} in {place}; `bellwether cluster restore --from {place} --list` shows what there is"
    )]
    NotFound {
        /// Which.
        name: String,
        /// Where.
        place: String,
    },
    /// There are backups of several clusters.
    #[error(
        "{place} has backups of several clusters, whose names end in {one}, {another} and so on: say which one \
         is meant with --cluster {one}; `bellwether cluster restore --from {place} --list` shows them"
    )]
    Several {
        /// How the newest one's name ends.
        one: String,
        /// How that of the newest of another cluster ends.
        another: String,
        /// Where.
        place: String,
    },
    /// There is no backup at all.
    #[error("there is no complete backup in {0}")]
    None(String),
    /// It was made by a later version.
    #[error(
        "{name} has format {found}, and this program knows {known}: use a later version of bellwether"
    )]
    TooNew {
        /// Which backup.
        name: String,
        /// Its format.
        found: u32,
        /// The newest known one.
        known: u32,
    },
    /// What is stored of it is not what was written.
    #[error("{0}; use another backup")]
    Damaged(String),
    /// The shard's store could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Parts of it were removed while it was taken.
    #[error(
        "it took so long that it was thought to be given up, and parts of it were removed; take another"
    )]
    ClearedAway,
    /// It was stopped.
    #[error("it was stopped before it was complete")]
    Stopped,
    /// A restore needs a directory with nothing in it.
    #[error("{} is not empty: restore into a directory that does not exist yet", .0.display())]
    NotEmpty(PathBuf),
    /// A restore was interrupted there.
    #[error(
        "{} is what an interrupted restore has left; remove the directory and restore again",
        .0.display()
    )]
    HalfRestored(PathBuf),
    /// The directory could not be opened as a store.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The operating system refused.
    #[error("{}: {source}", .path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// A thread of ours came to grief.
    #[error("a thread has panicked")]
    Panicked,
}

impl BackupError {
    /// What is stored is not what was written.
    pub(crate) fn damaged(what: impl Into<String>) -> BackupError {
        BackupError::Damaged(what.into())
    }
}
