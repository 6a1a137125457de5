//! Restoring a backup into an empty data directory.
//!
//! While that is under way the directory has a file [`MARKER`], and no server starts from it. A
//! restore that was interrupted is not continued: remove the directory and begin again.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bellwether_core::key;
use bellwether_core::record::{self, RestoreRow, StoreRow};
use bellwether_core::settings::Settings;
use bellwether_core::time::Time;
use bellwether_core::turn::{self, Gap, HeldCount, RestoreCursor, Turn};
use bellwether_core::waist::{Batch, Family, Op, Shard, StoreError};
use bellwether_store::{Applied, DiskEngine, DiskOptions, Engine, Replicated, meta_term_key};
use bytes::Bytes;

use crate::fetch::{parts, read_part};
use crate::part::BackupRow;
use crate::place::make_private;
use crate::{BackupError, Manifest, Place, Progress, Result, Section, ShardEntry};

/// The file that says that a restore is under way, or was interrupted.
pub const MARKER: &str = "RESTORING";
/// How far above those of the backup terms begin: more than the old cluster can have had since.
const TERMS_APART: u64 = 1 << 16;
/// Rows looked at in one commit when what may have run is held.
const STEP: usize = 500;

/// What to restore, and where to.
#[derive(Clone, Debug)]
pub struct Restore {
    /// The backup.
    pub manifest: Manifest,
    /// The data directory of the new cluster's first node.
    pub data_dir: PathBuf,
    /// The new cluster's id.
    pub id: String,
    /// The present.
    pub now: Time,
}

/// Refuses a directory in which a restore was interrupted.
///
/// # Errors
/// When it is one.
pub fn check_not_restoring(data_dir: &Path) -> Result<()> {
    if data_dir.join(MARKER).exists() {
        return Err(BackupError::HalfRestored(data_dir.to_owned()));
    }
    Ok(())
}

/// Restores a backup. Says what was done about the time since it was taken.
///
/// # Errors
/// When the directory is not empty, the backup is damaged, or anything cannot be read or written.
pub async fn restore(
    place: &Place,
    what: &Restore,
    progress: &Arc<Progress>,
) -> Result<RestoreRow> {
    progress.begin(what.manifest.shards.len());
    begin(&what.data_dir)?;
    let mut options = DiskOptions::new(&what.data_dir);
    options.sync = false; // All of it is, at the end; until then it is worth nothing.
    let engine = blocking(move || Ok(Arc::new(DiskEngine::open(options)?))).await?;
    for entry in &what.manifest.shards {
        load_shard(place, &what.manifest, entry, &engine, progress).await?;
        progress.shard_done();
    }
    let (closing, what) = (engine, what.clone());
    blocking(move || {
        closing.persist()?;
        let row = settle(&closing, &what)?;
        closing.close()?;
        end(&what.data_dir)?;
        Ok(row)
    })
    .await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|_| BackupError::Panicked)?
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> BackupError {
    let path = path.to_owned();
    move |source| BackupError::Io { path: path.clone(), source }
}

/// Makes the directory, with the marker in it.
fn begin(dir: &Path) -> Result<()> {
    check_not_restoring(dir)?;
    if dir.exists() && fs::read_dir(dir).map_err(io(dir))?.next().is_some() {
        return Err(BackupError::NotEmpty(dir.to_owned()));
    }
    make_private(dir).map_err(io(dir))?;
    let marker = dir.join(MARKER);
    let mut file = File::create(&marker).map_err(io(&marker))?;
    file.write_all(b"A restore is under way, or was interrupted: then remove this directory.\n")
        .and_then(|()| file.sync_all())
        .map_err(io(&marker))?;
    sync(dir)
}

fn end(dir: &Path) -> Result<()> {
    let marker = dir.join(MARKER);
    fs::remove_file(&marker).map_err(io(&marker))?;
    sync(dir)
}

fn sync(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(io(dir))
}

/// Loads all rows of a shard, and a term above all that the old cluster has used.
async fn load_shard(
    place: &Place,
    manifest: &Manifest,
    entry: &ShardEntry,
    engine: &Arc<DiskEngine>,
    progress: &Arc<Progress>,
) -> Result<()> {
    let shard = entry.shard;
    for section in Section::ALL {
        let mut last = None;
        for part in parts(entry, section) {
            let engine = engine.clone();
            let take = move |rows: Vec<BackupRow>| load_rows(&engine, shard, rows);
            (last, _) = read_part(place, manifest, part, last.take(), progress, take).await?;
        }
    }
    let term = entry.term.saturating_add(TERMS_APART);
    let value = Bytes::copy_from_slice(&term.to_be_bytes());
    let put = Op::Put { family: Family::Meta, key: meta_term_key(shard), value };
    let engine = engine.clone();
    blocking(move || load(&engine, shard, vec![put])).await
}

fn load_rows(engine: &DiskEngine, shard: Shard, rows: Vec<BackupRow>) -> Result<()> {
    let put = |row: BackupRow| {
        record::check_row(row.family, &row.key, &row.value)?;
        Ok(Op::Put { family: row.family, key: row.key, value: row.value })
    };
    let ops = rows.into_iter().map(put).collect::<Result<Vec<Op>, StoreError>>()?;
    load(engine, shard, ops)
}

fn load(engine: &DiskEngine, shard: Shard, ops: Vec<Op>) -> Result<()> {
    let (sender, done) = crossbeam_channel::bounded(1);
    let call = Box::new(move |result: Result<Applied, StoreError>| {
        // The receiver waits below, so this cannot fail.
        let _ = sender.send(result);
    });
    // Without a position: a log that is begun over these rows begins anew.
    engine.apply(shard, Replicated::Load(ops), Bytes::new(), call);
    done.recv().unwrap_or(Err(StoreError::Closed))?;
    Ok(())
}

/// Holds what may have run since, and makes the store a new one.
fn settle(engine: &DiskEngine, what: &Restore) -> Result<RestoreRow> {
    let bytes = engine.view().get(Family::Meta, &key::store_row())?;
    let missing = || BackupError::damaged("the store's own record is missing");
    let old: StoreRow = record::decode("store", bytes.ok_or_else(missing)?)?;
    if old.shards as usize != what.manifest.shards.len() {
        return Err(BackupError::damaged("the backup lacks shards"));
    }
    let mut count = HeldCount::default();
    for entry in &what.manifest.shards {
        hold(engine, entry, what.now, &mut count)?;
    }
    let taken = what.manifest.shards.iter().map(|entry| entry.taken_ms).min();
    let row = RestoreRow {
        backup: what.manifest.name.clone(),
        from_id: old.id,
        taken_ms: taken.unwrap_or(what.manifest.begun_ms),
        restored_ms: what.now.0,
        held_jobs: count.jobs,
        lost_runs: count.lost,
        repeated_runs: count.repeated,
        held_batches: count.batches,
    };
    let store = StoreRow { id: what.id.clone(), shards: old.shards, created_ms: what.now.0 };
    let put = |key: Bytes, value: Bytes| Op::Put { family: Family::Meta, key, value };
    let mut ops = vec![
        put(key::restore(what.now), record::encode(&row)),
        put(key::store_row(), record::encode(&store)),
    ];
    // The nodes of the old cluster are none of the new one: it has yet to get its own.
    let (from, to) = key::nodes(0);
    for node in engine.view().scan(Family::Meta, &from, &to) {
        ops.push(Op::Delete { family: Family::Meta, key: node?.0 });
    }
    let term = engine.acquire(0)?;
    engine.commit(Batch { shard: 0, term, ops })?;
    Ok(row)
}

fn hold(engine: &DiskEngine, entry: &ShardEntry, now: Time, count: &mut HeldCount) -> Result<()> {
    let shard = entry.shard;
    let term = engine.acquire(shard)?;
    let mut memory = turn::load(&*engine.view(), shard, term, Settings::default())?;
    let gap = Gap { taken: Time(entry.taken_ms), restored: now };
    let mut cursor = Some(RestoreCursor::default());
    while let Some(from) = cursor {
        let view = engine.view();
        let mut turn = Turn::new(&*view, &mut memory, now);
        cursor = turn.hold_restored(&gap, from, STEP, count)?;
        let ops = turn.finish().ops;
        if !ops.is_empty() {
            engine.commit(Batch { shard, term, ops })?;
        }
    }
    Ok(())
}
