//! Taking a backup, shard by shard.
//!
//! ```text
//! view of a shard ─► thread: rows, blocks, hashes ─► one part at a time ─► storage
//!                    rests as long as it works
//! ```
//! Rows are read on a thread of their own, which rests between blocks so that launches do not
//! suffer. Two parts are in memory at most, one that is being filled and one that is on its way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bellwether_core::time::Time;
use bellwether_core::waist::{Family, Shard, StoreError, Term, View};
use bellwether_store::meta_term_key;
use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::sync::mpsc;

use crate::catalog::{name_of, remove_abandoned};
use crate::manifest::sha256;
use crate::part::{PartId, PartWriter};
use crate::{
    BackupError, FORMAT, Manifest, PartEntry, Place, Progress, Result, Section, SectionEntry,
    ShardEntry,
};

/// Bytes of an object after which the next one is begun.
const PART_BYTES: usize = 16 << 20;
/// Bytes of rows after which the next object is begun, however well they are packed.
const PART_RAW_BYTES: u64 = 64 << 20;
/// The longest rest between two blocks.
const REST_MAX: Duration = Duration::from_millis(100);

/// Where rows come from: a consistent view that contains a shard, of this node or another.
pub trait Source: Send + Sync {
    /// The newest durable state of a shard.
    fn view(&self, shard: Shard) -> BoxFuture<'_, Result<Arc<dyn View>, StoreError>>;

    /// The present.
    fn now(&self) -> Time;
}

/// How fast rows are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// As fast as can be.
    Full,
    /// Half of the time, so that others get on.
    Gentle,
}

/// What to take a backup of.
#[derive(Clone, Debug)]
pub struct Take {
    /// The cluster's id.
    pub cluster: String,
    /// The program's version.
    pub program: String,
    /// How many shards it has.
    pub shards: u16,
    /// How fast.
    pub pace: Pace,
    /// When it is begun.
    pub begun: Time,
}

impl Take {
    /// The name that the backup gets.
    #[must_use]
    pub fn name(&self) -> String {
        name_of(&self.cluster, self.begun)
    }
}

/// Takes a backup. What those of the same cluster have left that were interrupted is removed first.
///
/// # Errors
/// When a shard cannot be read, the place cannot be written, or it was stopped. What has been
/// written by then is no backup.
pub async fn take(
    place: &Place,
    source: &dyn Source,
    what: &Take,
    progress: &Arc<Progress>,
) -> Result<Manifest> {
    progress.begin(usize::from(what.shards));
    remove_abandoned(place, &what.cluster, what.begun).await?;
    let name = what.name();
    let copy = Copy { place, name: &name, pace: what.pace, progress };
    let mut batches = Vec::new();
    for shard in 0..what.shards {
        let view = source.view(shard).await?;
        batches.push(copy.section(view, shard, Section::Batches).await?);
    }
    let mut shards = Vec::new();
    for (shard, batches) in (0..what.shards).zip(batches) {
        // The view is taken after this moment, so all that happened before it is there.
        let taken = source.now();
        let view = source.view(shard).await?;
        let term = term_of(&*view, shard)?;
        let rows = copy.section(view, shard, Section::Rows).await?;
        let keys = SectionEntry::default();
        shards.push(ShardEntry { shard, term, taken_ms: taken.0, batches, rows, keys });
        progress.shard_done();
    }
    for entry in &mut shards {
        let view = source.view(entry.shard).await?;
        entry.keys = copy.section(view, entry.shard, Section::Keys).await?;
    }
    let manifest = Manifest {
        format: FORMAT,
        name: name.clone(),
        cluster: what.cluster.clone(),
        program: what.program.clone(),
        begun_ms: what.begun.0,
        ended_ms: source.now().0,
        shards,
    };
    // Whoever thought that it was given up may have cleared it away, if it stood still for long.
    let there = place.names_under(&name).await?;
    if !manifest.parts().all(|part| there.contains(&format!("{name}/{}", part.name))) {
        return Err(BackupError::ClearedAway);
    }
    manifest.write(place).await?;
    Ok(manifest)
}

fn term_of(view: &dyn View, shard: Shard) -> Result<Term> {
    let stored = view.get(Family::Meta, &meta_term_key(shard))?;
    let bytes = stored.as_deref().and_then(|bytes| bytes.first_chunk::<8>());
    Ok(bytes.map_or(0, |bytes| Term::from_be_bytes(*bytes)))
}

/// An object that is ready to be stored.
struct Packed {
    entry: PartEntry,
    bytes: Bytes,
}

struct Copy<'a> {
    place: &'a Place,
    name: &'a str,
    pace: Pace,
    progress: &'a Arc<Progress>,
}

impl Copy<'_> {
    async fn section(
        &self,
        view: Arc<dyn View>,
        shard: Shard,
        section: Section,
    ) -> Result<SectionEntry> {
        let (sender, mut packed) = mpsc::channel::<Packed>(1);
        let (pace, progress) = (self.pace, self.progress.clone());
        let reading = tokio::task::spawn_blocking(move || {
            let mut reader = Reader { shard, section, pace, progress: &progress };
            reader.read(&*view, |part| sender.blocking_send(part).map_err(|_| BackupError::Stopped))
        });
        let stored = self.store(&mut packed).await;
        drop(packed);
        let read = reading.await.map_err(|_| BackupError::Panicked)?;
        // If storing failed, reading was stopped by that.
        let entry = stored?;
        read.map(|()| entry)
    }

    async fn store(&self, packed: &mut mpsc::Receiver<Packed>) -> Result<SectionEntry> {
        let mut entry = SectionEntry::default();
        while let Some(Packed { entry: part, bytes }) = packed.recv().await {
            self.place.put(&format!("{}/{}", self.name, part.name), bytes).await?;
            self.progress.add_stored(part.stored_bytes);
            entry.parts.push(part);
        }
        Ok(entry)
    }
}

/// Reads a section of a shard.
struct Reader<'a> {
    shard: Shard,
    section: Section,
    pace: Pace,
    progress: &'a Progress,
}

impl Reader<'_> {
    fn id(&self, number: u32) -> PartId {
        PartId { shard: self.shard, section: self.section, number }
    }

    fn read(&mut self, view: &dyn View, mut emit: impl FnMut(Packed) -> Result<()>) -> Result<()> {
        let (from, to) = bellwether_core::key::shard_range(self.shard);
        let mut id = self.id(1);
        let mut part = PartWriter::new(id);
        let mut told = (0, 0);
        let mut working = Instant::now();
        for family in self.section.families() {
            for row in view.scan(*family, &from, &to) {
                let (key, value) = row?;
                if !self.section.has(*family, &key, &value) || !part.add(*family, &key, &value) {
                    continue;
                }
                self.progress.go_on()?;
                self.progress.add_rows(part.rows - told.0, part.bytes - told.1);
                told = (part.rows, part.bytes);
                if part.stored_bytes() >= PART_BYTES || part.bytes >= PART_RAW_BYTES {
                    id = self.id(id.number + 1);
                    let full = std::mem::replace(&mut part, PartWriter::new(id));
                    told = (0, 0);
                    emit(pack(self.id(id.number - 1), full))?;
                }
                self.rest(working.elapsed());
                working = Instant::now();
            }
        }
        self.progress.go_on()?;
        if part.rows > 0 {
            self.progress.add_rows(part.rows - told.0, part.bytes - told.1);
            emit(pack(id, part))?;
        }
        Ok(())
    }

    fn rest(&self, worked: Duration) {
        if self.pace == Pace::Gentle {
            std::thread::sleep(worked.min(REST_MAX));
        }
    }
}

fn pack(id: PartId, part: PartWriter) -> Packed {
    let (rows, raw) = (part.rows, part.bytes);
    let bytes = part.finish();
    let entry = PartEntry {
        name: id.name(),
        rows,
        bytes: raw,
        stored_bytes: bytes.len() as u64,
        sha256: sha256(&bytes),
    };
    Packed { entry, bytes }
}
