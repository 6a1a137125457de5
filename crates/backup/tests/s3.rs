//! Backups in storage that speaks S3: a real service, over plain HTTP at loopback.

#![allow(clippy::unwrap_used)]

mod storage;

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bellwether_backup::{
    BackupError, Manifest, Pace, Place, Restore, Source, Take, find, list, newest, prune,
    remove_abandoned, restore, take, verify,
};
use bellwether_core::key;
use bellwether_core::record::{self, StoreRow};
use bellwether_core::time::Time;
use bellwether_core::waist::{Batch, Family, Op, Shard, StoreError, View};
use bellwether_store::{Engine, MemoryEngine};
use futures::future::BoxFuture;
use storage::{SECRET_KEY, Storage, variables};

const CLUSTER: &str = "0a1b2c3d4e5f0a1b2c3d4e5f0a1b2c3d";
const BUCKET: &str = "backups";
/// How long a failure may take to be told.
const BEARABLE: Duration = Duration::from_secs(30);

/// A store with nothing but its own record.
struct Old(MemoryEngine);

impl Source for Old {
    fn view(&self, _: Shard) -> BoxFuture<'_, Result<Arc<dyn View>, StoreError>> {
        Box::pin(async { Ok(self.0.view()) })
    }

    fn now(&self) -> Time {
        now()
    }
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Time(i64::try_from(since.as_millis()).unwrap())
}

fn old() -> Old {
    let engine = MemoryEngine::new();
    let term = engine.acquire(0).unwrap();
    let row = StoreRow { id: CLUSTER.to_owned(), shards: 1, created_ms: now().0 };
    let put = Op::Put { family: Family::Meta, key: key::store_row(), value: record::encode(&row) };
    engine.commit(Batch { shard: 0, term, ops: vec![put] }).unwrap();
    Old(engine)
}

async fn try_take(place: &Place, begun: Time) -> Result<Manifest, BackupError> {
    let (cluster, program) = (CLUSTER.to_owned(), "1.2.3".to_owned());
    let what = Take { cluster, program, shards: 1, pace: Pace::Full, begun };
    take(place, &old(), &what, &Arc::default()).await
}

async fn names(place: &Place) -> Vec<String> {
    list(place, 1_000).await.unwrap().into_iter().map(|listed| listed.name).collect()
}

#[tokio::test]
async fn r114_backups_in_s3_are_taken_checked_restored_and_pruned_under_their_prefix() {
    let storage = Storage::start(BUCKET);
    let open = |text: &str| Place::open_with(text, storage.variables()).unwrap();
    let (place, beside, whole) =
        (open("s3://backups/a/b"), open("s3://backups/a/bb"), open("s3://backups"));
    assert!(names(&place).await.is_empty());
    let begun = now();
    let mut taken = Vec::new();
    for n in 0..3 {
        taken.push(try_take(&place, begun.plus_ms(n)).await.unwrap());
    }
    let other = try_take(&beside, begun).await.unwrap();
    assert!(storage.path(&format!("backups/a/b/{}/manifest.json", taken[0].name)).exists());
    let newest_first = taken.iter().rev().map(|manifest| manifest.name.clone());
    assert_eq!(names(&place).await, newest_first.collect::<Vec<_>>());
    assert_eq!(names(&beside).await, [other.name]);
    assert!(names(&whole).await.is_empty(), "what is under a prefix is not in the place above it");
    let found = newest(&place, None, None).await.unwrap();
    assert_eq!(found.name, taken[2].name);
    let missing = find(&place, "backup-20000101T000000.000Z-0a1b2c3d").await.unwrap_err();
    assert!(matches!(missing, BackupError::NotFound { .. }), "{missing}");
    let verdict = verify(&place, found.clone(), &Arc::default()).await.unwrap();
    assert_eq!(verdict.problems, [""; 0]);
    let dir = tempfile::tempdir().unwrap();
    let what = Restore {
        manifest: found,
        data_dir: dir.path().join("data"),
        id: "new".into(),
        now: now(),
    };
    restore(&place, &what, &Arc::default()).await.unwrap();

    let removed = prune(&place, CLUSTER, 1).await.unwrap();
    assert_eq!(removed, [taken[0].name.clone(), taken[1].name.clone()]);
    assert_eq!(names(&place).await, [taken[2].name.clone()]);
    assert_eq!(names(&beside).await.len(), 1, "beside it nothing was removed");
}

/// Lists come in pages of a thousand.
#[tokio::test]
async fn what_an_interrupted_backup_of_many_objects_has_left_in_s3_is_removed() {
    let storage = Storage::start(BUCKET);
    let place = Place::open_with("s3://backups/p", storage.variables()).unwrap();
    let left = "backup-20260101T000000.000Z-0a1b2c3d";
    let dir = storage.path(&format!("backups/p/{left}/shard-00000"));
    std::fs::create_dir_all(&dir).unwrap();
    for n in 0..1_100 {
        std::fs::write(dir.join(format!("rows-{n:05}")), b"x").unwrap();
    }
    assert_eq!(names(&place).await, [left]);
    assert_eq!(remove_abandoned(&place, CLUSTER, now()).await.unwrap(), 0, "it may be under way");
    let later = now().plus_ms(2 * 3_600_000);
    assert_eq!(remove_abandoned(&place, CLUSTER, later).await.unwrap(), 1);
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
}

#[tokio::test]
async fn what_storage_refuses_is_told_with_what_to_do() {
    let storage = Storage::start(BUCKET);
    let good = storage.variables();
    let endpoint = good[0].1.clone();
    let with = |name: &str, value: &str| {
        let mut variables = good.clone();
        variables.retain(|(known, _)| known != name);
        variables.push((name.to_owned(), value.to_owned()));
        variables
    };
    let wrong_secret = variables(&endpoint, "wrong");
    let place = Place::open_with("s3://backups/a", wrong_secret).unwrap();
    for failed in [
        list(&place, 10).await.unwrap_err(),
        find(&place, "backup-x").await.unwrap_err(),
        try_take(&place, now()).await.unwrap_err(),
    ] {
        assert!(matches!(failed, BackupError::StorageRefuses { .. }), "{failed:?}");
        let text = failed.to_string();
        assert!(text.starts_with("s3://backups/a: ") && text.contains(&endpoint), "{text}");
        assert!(text.contains("check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY"), "{text}");
        assert!(!text.contains("wrong") && !text.contains(SECRET_KEY), "{text}");
    }
    let unknown = with("AWS_ACCESS_KEY_ID", "AKIDNOBODY");
    let place = Place::open_with("s3://backups/a", unknown).unwrap();
    let failed = list(&place, 10).await.unwrap_err();
    assert!(matches!(failed, BackupError::StorageRefuses { .. }), "{failed:?}");

    let place = Place::open_with("s3://elsewhere/a", good.clone()).unwrap();
    for failed in [list(&place, 10).await.unwrap_err(), try_take(&place, now()).await.unwrap_err()]
    {
        assert!(matches!(failed, BackupError::NoBucket { .. }), "{failed:?}");
        let text = failed.to_string();
        assert!(text.contains("there is no bucket 'elsewhere'"), "{text}");
    }

    for word in ["false", "0", "off", "perhaps"] {
        let plain = with("AWS_ALLOW_HTTP", word);
        let failed = Place::open_with("s3://backups/a", plain).unwrap_err();
        assert!(failed.to_string().contains("set AWS_ALLOW_HTTP=true"), "{failed}");
    }
    for word in ["1", "true", "TRUE", "on", "yes", "y"] {
        let place = Place::open_with("s3://backups/a", with("AWS_ALLOW_HTTP", word)).unwrap();
        assert!(list(&place, 10).await.unwrap().is_empty(), "{word}");
    }
}

/// The first that does not answer has nobody there, the second accepts connections and says nothing,
/// and where the third asks for the keys of the machine's role there is nobody.
#[tokio::test]
async fn storage_that_does_not_answer_is_told_soon() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", listener.local_addr().unwrap());
    let nobody = "http://127.0.0.1:1";
    let keyless = [
        ("AWS_ENDPOINT_URL", nobody),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_METADATA_ENDPOINT", nobody),
    ];
    let keyless = keyless.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let cases = [
        (variables(nobody, SECRET_KEY), "http://127.0.0.1:1 cannot be reached (Connection refused"),
        (variables(&silent, SECRET_KEY), "does not answer"),
        (keyless, "there are no credentials: set AWS_ACCESS_KEY_ID"),
    ];
    let asking = cases.map(|(variables, part)| async move {
        let place = Place::open_with("s3://backups/a", variables).unwrap();
        let begun = Instant::now();
        let failed = try_take(&place, now()).await.unwrap_err();
        assert!(begun.elapsed() < BEARABLE, "{:?}: {failed}", begun.elapsed());
        assert!(failed.to_string().contains(part), "{failed}");
        failed
    });
    let failed = futures::future::join_all(asking).await;
    assert!(matches!(failed[0], BackupError::StorageSilent { .. }), "{failed:?}");
    assert!(failed[0].to_string().contains("check AWS_ENDPOINT_URL"), "{failed:?}");
    assert!(matches!(failed[1], BackupError::StorageSilent { .. }), "{failed:?}");
    assert!(matches!(failed[2], BackupError::StorageRefuses { .. }), "{failed:?}");
}
