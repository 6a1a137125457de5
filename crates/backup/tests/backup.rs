//! Backups and the way back, against real stores in directories (R114).

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use bellwether_backup::{
    BackupError, MARKER, Manifest, Pace, Place, Progress, Restore, Source, Take,
    check_not_restoring, find, list, newest, prune, restore, take, verify,
};
use bellwether_core::id::{BatchId, JobId, RunId};
use bellwether_core::key;
use bellwether_core::record::{
    self, BatchRow, CommandTarget, Definition, KeyRow, OutputChunk, RestoreRow, Rule, RuleForm,
    Schedule, StoreRow, Target,
};
use bellwether_core::settings::Settings;
use bellwether_core::time::Time;
use bellwether_core::turn::{self, Input, NewJob, Turn};
use bellwether_core::waist::{Batch, Family, Op, Row, Shard, StoreError, View};
use bellwether_store::{DiskEngine, DiskOptions, Engine, MemoryEngine, meta_term_key};
use bytes::Bytes;
use futures::future::BoxFuture;
use proptest::prelude::*;

const NOW: Time = Time(1_767_225_600_000);
const SHARDS: u16 = 2;
const CLUSTER: &str = "0a1b2c3d4e5f0a1b2c3d4e5f0a1b2c3d";

/// A store with a few jobs in each shard, as a server would have made them.
struct Old {
    engine: MemoryEngine,
    terms: Vec<u64>,
    /// How often somebody asked for a view.
    views: AtomicUsize,
    /// What happens to the store before the view of this number.
    before: Option<(usize, Batch)>,
}

fn definition(at: Time) -> Definition {
    let target = CommandTarget { line: "true".to_owned(), ..CommandTarget::default() };
    let rule = Rule { form: Some(RuleForm::AtMs(at.0)) };
    Definition {
        target: Some(Target::Command(target)),
        schedule: Some(Schedule { any: vec![rule], ..Schedule::default() }),
        ..Definition::default()
    }
}

fn put(family: Family, key: Bytes, value: Bytes) -> Op {
    Op::Put { family, key, value }
}

fn old(jobs: usize) -> Old {
    let engine = MemoryEngine::new();
    let mut terms = Vec::new();
    for shard in 0..SHARDS {
        let term = engine.acquire(shard).unwrap();
        let mut memory = turn::load(&*engine.view(), shard, term, Settings::default()).unwrap();
        let jobs = (0..jobs).map(|n| NewJob {
            definition: definition(NOW.plus_ms(60_000 + 1_000 * n as u64)),
            hash: Bytes::new(),
            reserved: None,
        });
        let view = engine.view();
        let mut turn = Turn::new(&*view, &mut memory, NOW);
        turn.decide(Input::Create { actor: "ana".to_owned(), jobs: jobs.collect() }).unwrap();
        let ops = turn.finish().ops;
        engine.commit(Batch { shard, term, ops }).unwrap();
        terms.push(term);
    }
    let row = StoreRow { id: CLUSTER.to_owned(), shards: u32::from(SHARDS), created_ms: NOW.0 };
    let ops = vec![put(Family::Meta, key::store_row(), record::encode(&row))];
    engine.commit(Batch { shard: 0, term: terms[0], ops }).unwrap();
    Old { engine, terms, views: AtomicUsize::new(0), before: None }
}

impl Source for Old {
    fn view(&self, _: Shard) -> BoxFuture<'_, Result<Arc<dyn View>, StoreError>> {
        let number = self.views.fetch_add(1, Ordering::Relaxed);
        if let Some((at, batch)) = &self.before
            && *at == number
        {
            self.engine.commit(batch.clone()).unwrap();
        }
        Box::pin(async { Ok(self.engine.view()) })
    }

    fn now(&self) -> Time {
        NOW.plus_ms(self.views.load(Ordering::Relaxed) as u64)
    }
}

fn what(begun: Time) -> Take {
    let program = "1.2.3".to_owned();
    Take { cluster: CLUSTER.to_owned(), program, shards: SHARDS, pace: Pace::Full, begun }
}

async fn taken(place: &Place, old: &Old) -> Manifest {
    take(place, old, &what(old.now()), &Arc::default()).await.unwrap()
}

async fn problems(place: &Place, manifest: Manifest) -> Vec<String> {
    verify(place, manifest, &Arc::default()).await.unwrap().problems
}

fn place_in(dir: &Path) -> Place {
    Place::open(dir.to_str().unwrap()).unwrap()
}

/// All rows but those of the store's machinery and the record of the store itself.
fn rows(view: &dyn View, shard: Shard, family: Family) -> Vec<Row> {
    let (from, to) = key::shard_range(shard);
    let rows = view.scan(family, &from, &to).map(Result::unwrap);
    let of_engine = |key: &[u8]| family == Family::Meta && key.get(2) == Some(&0);
    rows.filter(|(key, _)| !of_engine(key)).collect()
}

fn into(dir: &Path, manifest: Manifest, now: Time) -> Restore {
    Restore { manifest, data_dir: dir.to_owned(), id: "new".to_owned(), now }
}

/// How a restored store is opened: its log, which is empty, is the truth.
fn restored_in(dir: &std::path::Path) -> DiskOptions {
    DiskOptions { sync: false, ..DiskOptions::new(dir) }
}

#[tokio::test]
async fn r114_what_was_backed_up_is_restored_row_by_row() {
    let dir = tempfile::tempdir().unwrap();
    let (place, data) = (place_in(&dir.path().join("b")), dir.path().join("data"));
    let old = old(20);
    let manifest = taken(&place, &old).await;
    assert_eq!(manifest.name, "backup-20260101T000000.000Z-0a1b2c3d");
    assert_eq!(problems(&place, manifest.clone()).await, [""; 0]);
    let progress = Arc::new(Progress::default());
    let what = into(&data, manifest.clone(), NOW.plus_ms(10));
    let row = restore(&place, &what, &progress).await.unwrap();
    assert_eq!((progress.shards_done(), progress.rows()), (2, manifest.rows()));
    assert_eq!((row.held_jobs, row.from_id.as_str()), (0, CLUSTER));

    let engine = DiskEngine::open(restored_in(&data)).unwrap();
    let (view, old_view) = (engine.view(), old.engine.view());
    for shard in 0..SHARDS {
        for family in Family::ALL.into_iter().filter(|family| *family != Family::Meta) {
            assert_eq!(rows(&*view, shard, family), rows(&*old_view, shard, family), "{family:?}");
        }
        let term = engine.acquire(shard).unwrap();
        assert!(term > old.terms[usize::from(shard)] + 60_000, "old tokens must be void: {term}");
    }
    let bytes = view.get(Family::Meta, &key::store_row()).unwrap().unwrap();
    let store: StoreRow = record::decode("store", bytes).unwrap();
    assert_eq!((store.id.as_str(), store.shards), ("new", 2), "it is a cluster of its own");
    let restores: Vec<RestoreRow> = bellwether_core::read::restores(&*view).unwrap();
    assert_eq!(restores, [row]);
    assert!(!data.join(MARKER).exists());
}

#[tokio::test]
async fn r114_nobody_else_of_the_machine_can_read_a_backup_or_what_is_restored() {
    let dir = tempfile::tempdir().unwrap();
    let (backups, data) = (dir.path().join("b"), dir.path().join("new").join("data"));
    let place = place_in(&backups);
    let manifest = taken(&place, &old(3)).await;
    let backup = backups.join(&manifest.name);
    restore(&place, &into(&data, manifest, NOW), &Arc::default()).await.unwrap();
    for private in [&backups, &backup, &backup.join("shard-00000"), &data] {
        let mode = std::fs::metadata(private).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{}", private.display());
    }
}

#[tokio::test]
async fn r114_jobs_that_may_have_run_since_are_held_in_every_shard() {
    let dir = tempfile::tempdir().unwrap();
    let (place, data) = (place_in(&dir.path().join("b")), dir.path().join("data"));
    let manifest = taken(&place, &old(1_200)).await;
    let what = into(&data, manifest, NOW.plus_ms(60_000 + 599_500));
    let row = restore(&place, &what, &Arc::default()).await.unwrap();
    assert_eq!(row.held_jobs, 1_200, "600 of each shard");
    let engine = DiskEngine::open(restored_in(&data)).unwrap();
    let view = engine.view();
    assert_eq!(rows(&*view, 1, Family::Job).len(), 600, "those that are held are in full form");
    assert_eq!(rows(&*view, 1, Family::Due).len(), 600, "the others wait as they did");
}

#[tokio::test]
async fn r114_a_batch_is_taken_before_what_becomes_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let place = place_in(dir.path());
    let mut old = old(1);
    let id = BatchId(JobId::new(NOW, 0, 9).0);
    let batch = |ops| Batch { shard: 0, term: 1, ops };
    let row = record::encode(&BatchRow { key: "b".to_owned(), ..BatchRow::default() });
    old.engine.commit(batch(vec![put(Family::Batch, key::batch(id), row)])).unwrap();
    // It goes when the rows of both shards are about to be copied: its items are in none of them.
    let gone = vec![Op::Delete { family: Family::Batch, key: key::batch(id) }];
    old.before = Some((2, batch(gone)));
    let manifest = taken(&place, &old).await;
    assert_eq!(manifest.shards[0].batches.parts[0].rows, 1);
    assert_eq!(problems(&place, manifest).await, [""; 0]);
    assert_eq!(old.views.load(Ordering::Relaxed), 6, "three views of each shard");
}

#[tokio::test]
async fn r114_a_key_that_is_reserved_for_another_shard_is_taken_after_its_job() {
    let dir = tempfile::tempdir().unwrap();
    let (place, data) = (place_in(&dir.path().join("b")), dir.path().join("data"));
    let mut old = old(1);
    let name = key::caller_key(0, "default", "k");
    let job = JobId::new(NOW, 1, 9);
    let row = record::encode(&KeyRow { job: job.0, reserved_ms: NOW.0 });
    // Shard 0 has been copied, and shard 1, where the job is made, has not.
    let ops = vec![put(Family::Key, name.clone(), row)];
    old.before = Some((3, Batch { shard: 0, term: 1, ops }));
    let manifest = taken(&place, &old).await;
    assert_eq!(manifest.shards[0].keys.parts[0].rows, 1);
    assert_eq!(problems(&place, manifest.clone()).await, [""; 0]);
    restore(&place, &into(&data, manifest, NOW), &Arc::default()).await.unwrap();
    let engine = DiskEngine::open(restored_in(&data)).unwrap();
    assert!(engine.view().get(Family::Key, &name).unwrap().is_some());
}

#[tokio::test]
async fn r114_an_interrupted_backup_is_none_and_the_next_one_clears_up() {
    let dir = tempfile::tempdir().unwrap();
    let place = place_in(dir.path());
    let progress = Arc::new(Progress::default());
    let interrupted = taken(&place, &old(3)).await;
    std::fs::remove_file(dir.path().join(&interrupted.name).join("manifest.json")).unwrap();
    assert!(matches!(newest(&place, None, None).await, Err(BackupError::None(_))));
    assert!(matches!(find(&place, &interrupted.name).await, Err(BackupError::NotFound { .. })));
    let listed = list(&place, 10).await.unwrap();
    assert!(listed.len() == 1 && listed[0].manifest.is_none());

    progress.stop();
    let stopped = take(&place, &old(3), &what(NOW), &progress).await;
    assert!(matches!(stopped, Err(BackupError::Stopped)));

    let of_another = dir.path().join("backup-20250101T000000.000Z-ffffffff");
    std::fs::create_dir_all(of_another.join("shard-00000")).unwrap();
    std::fs::write(of_another.join("shard-00000/rows-00001"), b"x").unwrap();
    let source = old(3);
    source.views.store(7, Ordering::Relaxed);
    let good = taken(&place, &source).await;
    let names = names_in(&place).await;
    assert_eq!(
        names.len(),
        3,
        "another node may be taking the one that is not complete: {names:?}"
    );

    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_millis(NOW.0 as u64) - LONG;
    let mut all = Vec::new();
    objects(dir.path(), &mut all);
    for object in all {
        File::options().write(true).open(object).unwrap().set_modified(long_ago).unwrap();
    }
    source.views.store(8, Ordering::Relaxed);
    let better = taken(&place, &source).await;
    let names = names_in(&place).await;
    assert_eq!(names[..2], [better.name.clone(), good.name], "complete ones stay");
    assert_eq!(names.len(), 3, "what another cluster does there is its own affair: {names:?}");
    assert_eq!(newest(&place, Some(CLUSTER), None).await.unwrap(), better);
    let unclear = newest(&place, None, None).await.unwrap_err();
    assert!(unclear.to_string().contains("--cluster 0a1b2c3d"), "{unclear}");
}

/// Longer than any backup goes on without writing something.
const LONG: Duration = Duration::from_secs(3_601);

async fn names_in(place: &Place) -> Vec<String> {
    list(place, 10).await.unwrap().into_iter().map(|listed| listed.name).collect()
}

/// R114: two nodes may take one each at the same time, by command and on the schedule.
#[tokio::test]
async fn r114_backups_that_are_taken_at_the_same_time_leave_one_another_alone() {
    let dir = tempfile::tempdir().unwrap();
    let place = place_in(dir.path());
    let (first, second) = (old(3), old(3));
    let at = |ms| what(Time(jiff::Timestamp::now().as_millisecond() + ms));
    let (early, late, progress) = (at(0), at(1), Arc::default());
    let one = take(&place, &first, &early, &progress);
    tokio::pin!(one);
    // The first has written something, and is not over.
    while first.views.load(Ordering::Relaxed) < 3 {
        assert!(futures::poll!(&mut one).is_pending());
        tokio::task::yield_now().await;
    }
    let other = take(&place, &second, &late, &Arc::default()).await.unwrap();
    let one = one.await.unwrap();
    for manifest in [one, other] {
        assert_eq!(problems(&place, manifest).await, [""; 0]);
    }
}

#[tokio::test]
async fn r114_old_backups_are_removed_but_never_those_of_another_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let place = place_in(dir.path());
    let source = old(1);
    let mut names = Vec::new();
    for _ in 0..4 {
        names.push(taken(&place, &source).await.name);
    }
    let other = Take { cluster: "ffffffffff".to_owned(), ..what(source.now()) };
    let other = take(&place, &source, &other, &Arc::default()).await.unwrap();
    assert_eq!(prune(&place, CLUSTER, 2).await.unwrap(), names[..2]);
    let left = names_in(&place).await;
    assert_eq!(left, [other.name, names[3].clone(), names[2].clone()]);
}

#[tokio::test]
async fn a_restore_wants_an_empty_directory_and_leaves_none_that_looks_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (place, data) = (place_in(&dir.path().join("b")), dir.path().join("data"));
    let manifest = taken(&place, &old(3)).await;
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("file"), b"x").unwrap();
    let what = into(&data, manifest.clone(), NOW);
    let refused = restore(&place, &what, &Arc::default()).await.unwrap_err();
    assert!(matches!(refused, BackupError::NotEmpty(_)), "{refused}");
    std::fs::remove_file(data.join("file")).unwrap();

    let victim = dir.path().join("b").join(&manifest.name).join("shard-00001/rows-00001");
    let whole = std::fs::read(&victim).unwrap();
    std::fs::write(&victim, &whole[..whole.len() - 1]).unwrap();
    let damaged = restore(&place, &what, &Arc::default()).await.unwrap_err();
    assert!(matches!(damaged, BackupError::Damaged(_)), "{damaged}");
    assert!(check_not_restoring(&data).is_err(), "no server may start from it");
    std::fs::write(&victim, whole).unwrap();
    let again = restore(&place, &what, &Arc::default()).await.unwrap_err();
    assert!(matches!(again, BackupError::HalfRestored(_)), "{again}");
    std::fs::remove_dir_all(&data).unwrap();
    restore(&place, &what, &Arc::default()).await.unwrap();
    check_not_restoring(&data).unwrap();
}

#[tokio::test]
async fn a_large_shard_is_several_objects() {
    let dir = tempfile::tempdir().unwrap();
    let (place, data) = (place_in(&dir.path().join("b")), dir.path().join("data"));
    let old = old(1);
    let mut noise = 1_u64;
    for sequence in 0..40 {
        // Nothing that could be packed any smaller.
        let bytes: Vec<u8> = (0..512 * 1024)
            .map(|_| {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (noise >> 56) as u8
            })
            .collect();
        let chunk = OutputChunk { stream: 1, data: bytes.into(), dropped_before: 0 };
        let run = RunId { job: JobId::new(NOW, 1, 7), n: 1 };
        let place = key::Place { class: 1, time: NOW, run };
        let row = put(Family::Output, place.output(1, sequence), record::encode(&chunk));
        old.engine.commit(Batch { shard: 1, term: old.terms[1], ops: vec![row] }).unwrap();
    }
    let manifest = taken(&place, &old).await;
    let parts = &manifest.shards[1].rows.parts;
    assert_eq!(parts.len(), 2, "{parts:?}");
    assert!(parts.iter().all(|part| part.stored_bytes < 17 << 20));
    assert_eq!(problems(&place, manifest.clone()).await, [""; 0]);
    restore(&place, &into(&data, manifest, NOW), &Arc::default()).await.unwrap();
    let engine = DiskEngine::open(restored_in(&data)).unwrap();
    let found = rows(&*engine.view(), 1, Family::Output);
    assert_eq!(found, rows(&*old.engine.view(), 1, Family::Output));
}

#[tokio::test]
async fn storage_that_fails_is_told_and_leaves_no_backup() {
    let dir = tempfile::tempdir().unwrap();
    let place = place_in(dir.path());
    // A file stands where the backup's objects are to go.
    std::fs::write(dir.path().join(what(NOW).name()), b"").unwrap();
    let failed = take(&place, &old(3), &what(NOW), &Arc::default()).await.unwrap_err();
    assert!(matches!(failed, BackupError::Storage { .. }), "{failed}");
    assert!(list(&place, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn terms_are_not_taken_from_the_backup() {
    let dir = tempfile::tempdir().unwrap();
    let place = place_in(dir.path());
    let old = old(1);
    for _ in 0..5 {
        old.engine.acquire(1).unwrap();
    }
    assert!(old.engine.view().get(Family::Meta, &meta_term_key(1)).unwrap().is_some());
    let manifest = taken(&place, &old).await;
    assert_eq!(manifest.shards[1].term, old.terms[1] + 5);
}

/// Backups outlive versions. The fixture is written with `UPDATE_FIXTURES=1`, once for each format.
#[tokio::test]
async fn a_backup_of_format_1_is_readable() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1");
    if std::env::var_os("UPDATE_FIXTURES").is_some() {
        std::fs::remove_dir_all(&dir).unwrap_or_default();
        taken(&place_in(&dir), &old(3)).await;
    }
    let place = Place::open_existing(dir.to_str().unwrap()).unwrap();
    let manifest = newest(&place, None, None).await.unwrap();
    assert_eq!(problems(&place, manifest.clone()).await, [""; 0]);
    let data = tempfile::tempdir().unwrap();
    let what = into(&data.path().join("data"), manifest, NOW.plus_ms(61_500));
    assert_eq!(restore(&place, &what, &Arc::default()).await.unwrap().held_jobs, 4);
}

fn objects(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() { objects(&path, found) } else { found.push(path) }
    }
}

/// Finds the newest backup and checks it, as the command does.
async fn is_sound(place: &Place) -> bool {
    match newest(place, None, None).await {
        Ok(manifest) => problems(place, manifest).await.is_empty(),
        Err(_) => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn r114_damage_of_any_byte_is_found(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..8u8), 1..40)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let place = place_in(dir.path());
        runtime.block_on(taken(&place, &old(3)));
        let mut paths = Vec::new();
        objects(dir.path(), &mut paths);
        paths.sort();
        prop_assert!(runtime.block_on(is_sound(&place)));
        for (path, at, bit) in changes {
            let path = path.get(&paths);
            let sound = std::fs::read(path).unwrap();
            let mut damaged = sound.clone();
            let at = at.index(damaged.len());
            damaged[at] ^= 1 << bit;
            std::fs::write(path, &damaged).unwrap();
            prop_assert!(!runtime.block_on(is_sound(&place)), "{} {at} {bit}", path.display());
            std::fs::write(path, &sound[..at]).unwrap();
            prop_assert!(!runtime.block_on(is_sound(&place)), "{} cut at {at}", path.display());
            std::fs::write(path, &sound).unwrap();
        }
    }
}
