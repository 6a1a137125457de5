//! One test's cluster, with what is asked of it and what it really does.

use std::path::Path;
use std::sync::LazyLock;

use tempfile::TempDir;

use crate::check::{self, Tally};
use crate::history::History;
use crate::load::Load;
use crate::random::setting;
use crate::record::Record;
use crate::server::{Cluster, PROGRAM, Shape};
use crate::{clock, net, replicas, skipped};

/// Clusters that may run at the same time: more would be measuring the machine.
static AT_ONCE: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(2);
/// Why there can be no clusters here, if that is so. Looked at once: it makes and removes things.
static MISSING: LazyLock<Option<String>> = LazyLock::new(|| {
    let missing = net::missing().or_else(clock::missing);
    if missing.is_none() {
        net::remove_left_overs();
    }
    missing
});

/// A cluster that has settled, and the record of what its jobs do.
pub struct Trial {
    test: &'static str,
    /// What decides random choices.
    pub seed: u64,
    pub record: Record,
    pub cluster: Cluster,
    _place: Place,
}

impl Trial {
    /// Starts a cluster, unless there can be none here; which is a failure with `NEMESIS_REQUIRED=1`.
    pub async fn begin(test: &'static str, shape: Shape) -> Option<Trial> {
        Trial::begin_with(test, shape, Path::new(PROGRAM)).await
    }

    /// The same with nodes of a program that is not the one under test, perhaps.
    pub async fn begin_with(test: &'static str, shape: Shape, program: &Path) -> Option<Trial> {
        let turn = AT_ONCE.acquire().await.unwrap();
        if let Some(why) = &*MISSING {
            assert_ne!(setting("NEMESIS_REQUIRED", 0), 1, "{test} cannot be skipped: {why}");
            skipped::say(test, why);
            return None;
        }
        let place = Place { dir: Some(tempfile::tempdir().unwrap()), _turn: turn };
        let seed = setting("NEMESIS_SEED", u64::from(rand::random::<u32>()));
        let history = History::new(test, seed, place.path().to_owned());
        let cluster = Cluster::start(place.path(), shape, program, history).await;
        let record = Record::begin(place.path(), &cluster.net.outside()).await;
        Some(Trial { test, seed, record, cluster, _place: place })
    }

    /// A load with so many jobs that tick.
    pub async fn load(&self, recurring: usize) -> Load<'_> {
        let mut load = Load::new(&self.cluster, &self.record);
        load.add_recurring(recurring).await;
        load
    }

    /// Waits until everything has ended, and holds what the cluster says against the record.
    pub async fn checked(&self, load: &Load<'_>) -> Tally {
        load.stop_recurring().await;
        check::until_all_ended(&self.cluster, load).await;
        check::all(&self.cluster, load, &self.record).await
    }

    /// The same; then replicas are compared as well, and what was found is told.
    pub async fn concluded(&self, load: &Load<'_>) -> Tally {
        let tally = self.checked(load).await;
        self.compared(&tally).await;
        tally
    }

    /// Compares the replicas, and tells what was found.
    pub async fn compared(&self, tally: &Tally) {
        let rows = replicas::compare(&self.cluster).await;
        println!("{}: {tally:?}, {rows} rows of replicas are equal", self.test);
    }
}

/// Where a test has its files, which are kept if it fails.
struct Place {
    dir: Option<TempDir>,
    _turn: tokio::sync::SemaphorePermit<'static>,
}

impl Place {
    fn path(&self) -> &Path {
        self.dir.as_ref().unwrap().path()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(dir) = self.dir.take()
        {
            println!("logs and the record are kept in {}", dir.keep().display());
        }
    }
}
