//! Checking a backup: everything in it is read, and nothing is written.

use std::sync::Arc;

use bellwether_core::key;
use bellwether_core::record::{self, StoreRow};
use bellwether_core::waist::Family;

use crate::fetch::{parts, read_part};
use crate::part::BackupRow;
use crate::{BackupError, Manifest, Place, Progress, Result, Section};

/// The most problems that are listed.
const PROBLEMS_MAX: usize = 20;

/// What was found.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The backup.
    pub manifest: Manifest,
    /// What is wrong with it; nothing if it is sound.
    pub problems: Vec<String>,
}

/// Reads everything of a backup: that objects are what was written, that rows belong to their shard
/// and are in order and complete, and that every record can be understood.
///
/// # Errors
/// When the storage cannot be reached or it was stopped. Damage is no error but a verdict.
pub async fn verify(
    place: &Place,
    manifest: Manifest,
    progress: &Arc<Progress>,
) -> Result<Verdict> {
    progress.begin(manifest.shards.len());
    let mut problems = Vec::new();
    let mut store = None;
    for entry in &manifest.shards {
        for section in Section::ALL {
            let mut last = None;
            for part in parts(entry, section) {
                let check = Checking { store: store.take() };
                match check.part(place, &manifest, part, last.take(), progress).await {
                    Ok((found, now_last)) => (store, last) = (found, now_last),
                    Err(BackupError::Damaged(problem)) => problems.push(problem),
                    Err(error) => return Err(error),
                }
            }
        }
        progress.shard_done();
    }
    if problems.is_empty() {
        problems.extend(check_store(&manifest, store));
    }
    problems.truncate(PROBLEMS_MAX);
    Ok(Verdict { manifest, problems })
}

struct Checking {
    store: Option<StoreRow>,
}

type Checked = (Option<StoreRow>, crate::fetch::Last);

impl Checking {
    async fn part(
        self,
        place: &Place,
        manifest: &Manifest,
        part: (crate::part::PartId, &crate::PartEntry),
        last: crate::fetch::Last,
        progress: &Arc<Progress>,
    ) -> Result<Checked> {
        let (sender, found) = crossbeam_channel::bounded(1);
        let name = part.0.name();
        let check = move |rows: Vec<BackupRow>| {
            for row in &rows {
                record::check_row(row.family, &row.key, &row.value)
                    .map_err(|error| BackupError::damaged(format!("{name}: {error}")))?;
                if row.family == Family::Meta && row.key == key::store_row() {
                    // There is one such key, and it is read once.
                    let _ = sender.try_send(record::decode("store", row.value.clone())?);
                }
            }
            Ok(())
        };
        let (last, check) = read_part(place, manifest, part, last, progress, check).await?;
        drop(check);
        Ok((found.try_recv().ok().or(self.store), last))
    }
}

/// A backup is that of a whole store.
fn check_store(manifest: &Manifest, store: Option<StoreRow>) -> Option<String> {
    match store {
        None => Some("the store's own record is missing".to_owned()),
        Some(store) if store.shards as usize != manifest.shards.len() => Some(format!(
            "the store has {} shards, the backup {}",
            store.shards,
            manifest.shards.len()
        )),
        Some(store) if store.id != manifest.cluster => {
            Some("the store's own record is that of another cluster".to_owned())
        }
        Some(_) => None,
    }
}
