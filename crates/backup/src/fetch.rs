//! Reading a backup part by part, each checked against the manifest before anything is made of it.

use std::sync::Arc;

use bellwether_core::waist::Family;
use bytes::Bytes;

use crate::manifest::sha256;
use crate::part::{BackupRow, PartId, PartReader};
use crate::{BackupError, Manifest, PartEntry, Place, Progress, Result, Section, ShardEntry};

/// The last row that was read of a section.
pub(crate) type Last = Option<(Family, Bytes)>;

/// Reads one part: hands its rows on, block by block, on a thread where that may block. The last
/// row of the part.
pub(crate) async fn read_part<F>(
    place: &Place,
    manifest: &Manifest,
    (id, entry): (PartId, &PartEntry),
    last: Last,
    progress: &Arc<Progress>,
    mut take: F,
) -> Result<(Last, F)>
where
    F: FnMut(Vec<BackupRow>) -> Result<()> + Send + 'static,
{
    progress.go_on()?;
    let name = id.name();
    if entry.name != name {
        return Err(BackupError::damaged(format!("{name} is called {}", entry.name)));
    }
    let bytes = place.get(&format!("{}/{name}", manifest.name)).await?;
    let bytes = bytes.ok_or_else(|| BackupError::damaged(format!("{name} is missing")))?;
    progress.add_stored(bytes.len() as u64);
    let (entry, progress) = (entry.clone(), progress.clone());
    let reading = tokio::task::spawn_blocking(move || {
        if bytes.len() as u64 != entry.stored_bytes || sha256(&bytes) != entry.sha256 {
            return Err(BackupError::damaged(format!("{name} is not what was written")));
        }
        let mut reader = PartReader::open(id, bytes, last)?;
        let (mut rows, mut raw) = (0, 0);
        while let Some(block) = reader.next_block()? {
            progress.go_on()?;
            let block_bytes = block.iter().map(BackupRow::bytes).sum::<u64>();
            (rows, raw) = (rows + block.len() as u64, raw + block_bytes);
            progress.add_rows(block.len() as u64, block_bytes);
            take(block)?;
        }
        if (rows, raw) != (entry.rows, entry.bytes) {
            let told = format!("{name} has {rows} rows instead of {}", entry.rows);
            return Err(BackupError::damaged(told));
        }
        Ok((reader.last(), take))
    });
    reading.await.map_err(|_| BackupError::Panicked)?
}

/// The parts of a section, with what the manifest says of each.
pub(crate) fn parts(
    entry: &ShardEntry,
    section: Section,
) -> impl Iterator<Item = (PartId, &PartEntry)> {
    let numbered = (1..).zip(&entry.section(section).parts);
    let shard = entry.shard;
    numbered.map(move |(number, part)| (PartId { shard, section, number }, part))
}
