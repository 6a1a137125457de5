//! Backups of all shards in a directory or in S3-compatible storage, and the way back.
//!
//! ```text
//! PLACE/backup-20260101T000000.000Z-0a1b2c3d/
//!         shard-00000/batches-00001   rows of batches as wholes, taken before everything else
//!         shard-00000/rows-00001 …    all other rows of the shard
//!         shard-00000/keys-00001      keys reserved for jobs of other shards, taken after all rows
//!         manifest.json               written last: what there is, with its hashes
//! ```
//! A backup is what has a manifest. One without was interrupted; the next one of the same cluster
//! removes it. Each shard is copied from one consistent view, which is held no longer than that
//! takes. Shards are independent of one another but for two things. The items of a batch become jobs
//! in other shards: so the rows of batches as wholes are taken of all shards first, and whatever
//! became of the items since is found in the shards themselves. And a key may be reserved for a job of
//! another shard, before that is made: so such keys are taken of all shards last.
//!
//! What belongs to the store's own machinery (its terms, the position in a log) is not copied. A
//! restored store is a new one: it has an id of its own, and terms far above those of the old one,
//! so that nothing a worker of the old cluster says is believed.
//!
//! Where to start reading: [`take()`] makes a backup, `part` is the format, [`verify()`] and
//! [`restore()`] read it. What is done about work that may have run since the backup was taken is
//! decided in `bellwether_core::turn::Turn::hold_restored`.
//!
//! What is not here: schedules, flags, progress bars. The server and the command line have those.

#![forbid(unsafe_code)]

mod catalog;
mod error;
mod fetch;
mod manifest;
mod part;
mod place;
mod progress;
mod restore;
mod s3;
mod section;
mod take;
mod verify;

pub use catalog::{Listed, find, list, look, newest, newest_readable, prune, remove_abandoned};
pub use error::BackupError;
pub use manifest::{FORMAT, Manifest, PartEntry, SectionEntry, ShardEntry};
pub use place::Place;
pub use progress::Progress;
pub use restore::{MARKER, Restore, check_not_restoring, restore};
pub use section::Section;
pub use take::{Pace, Source, Take, take};
pub use verify::{Verdict, verify};

/// A result of this crate.
pub type Result<T, E = BackupError> = std::result::Result<T, E>;
