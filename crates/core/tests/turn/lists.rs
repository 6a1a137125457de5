//! Lists, as readers ask for them: also with cursors that nobody was given.

// A view is shared, also one that counts.
#![allow(clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::sync::Mutex;

use bellwether_core::id::{JobId, RunId};
use bellwether_core::read::{self, JobFilter, RunCursor, RunFilter};
use bellwether_core::record::RunStatus;
use bellwether_core::time::Time;
use bellwether_core::waist::{Family, Rows, StoreError, View};
use bytes::Bytes;

use crate::world::job::run;
use crate::world::{SHARD, World, job, t};

#[test]
fn r25_a_cursor_may_hold_any_number() {
    let mut w = World::new();
    let id = w.add(job().at(t(1)));
    w.until(1);
    w.fail(run(id, 1));
    let all = RunFilter::default();
    let dead = RunFilter { statuses: vec![RunStatus::Failed], ..RunFilter::default() };
    for filter in [all, dead] {
        let count = |cursor| {
            let found = read::runs(&w.store, &[SHARD], &filter, Some(cursor), 10).unwrap();
            found.items.len()
        };
        for job in [JobId(0), JobId(u64::MAX), id] {
            for n in [0, u32::MAX] {
                let id = RunId { job, n };
                assert_eq!(count(RunCursor::Ended(Time(i64::MAX), id)), 1);
                assert_eq!(count(RunCursor::Ended(Time(i64::MIN), id)), 0);
            }
        }
    }
    for time in [i64::MIN, i64::MAX] {
        for n in [0, u32::MAX] {
            assert!(read::ticks_of(&w.store, id, Some((Time(time), n)), 10).unwrap().is_empty());
            read::audits(&w.store, SHARD, Some((Time(time), n)), 10).unwrap();
        }
    }
}

/// A store on another node: it notes what is asked for without having been foreseen.
struct Far<'a> {
    store: &'a dyn View,
    foreseen: Mutex<BTreeSet<(Family, Bytes)>>,
    asked: Mutex<Vec<(Family, Bytes)>>,
}

impl View for Far<'_> {
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let wanted = (family, Bytes::copy_from_slice(key));
        if self.foreseen.lock().unwrap().insert(wanted.clone()) {
            self.asked.lock().unwrap().push(wanted);
        }
        self.store.get(family, key)
    }

    fn scan<'a>(&'a self, family: Family, from: &[u8], to: &[u8]) -> Rows<'a> {
        self.store.scan(family, from, to)
    }

    fn scan_back<'a>(&'a self, family: Family, from: &[u8], to: &[u8]) -> Rows<'a> {
        self.store.scan_back(family, from, to)
    }

    fn is_far(&self) -> bool {
        true
    }

    fn foresee(&self, keys: &[(Family, Bytes)]) -> Result<(), StoreError> {
        self.foreseen.lock().unwrap().extend(keys.iter().cloned());
        Ok(())
    }
}

#[test]
fn r64_a_list_says_ahead_what_it_reads_of_another_node() {
    let mut w = World::new();
    let mut ids = Vec::new();
    for n in 0..40 {
        ids.push(w.add(job().at(t(1 + n % 2 * 1_000))));
        ids.push(w.add(job().every("1s")));
    }
    w.until(2);
    let open: Vec<RunId> = ids.iter().map(|id| run(*id, 1)).collect();
    for (n, id) in open.into_iter().enumerate() {
        if w.find_run(id).is_some() && n % 3 != 0 {
            w.fail(id);
        }
    }
    let far = || Far { store: &w.store, foreseen: Mutex::default(), asked: Mutex::default() };
    let check = |what: &str, far: Far<'_>, here: usize, there: usize| {
        assert!(here > 5, "{what}: {here}");
        assert_eq!(here, there, "{what}");
        let asked = far.asked.into_inner().unwrap();
        assert!(asked.len() <= 1, "{what}: only the shard's own row, not {asked:?}");
    };
    let jobs = |view: &dyn View| {
        read::jobs(view, &[SHARD], &JobFilter::default(), None, 100).unwrap().items.len()
    };
    let view = far();
    let there = jobs(&view);
    check("jobs", view, jobs(&w.store), there);
    for statuses in [vec![], vec![RunStatus::Failed], vec![RunStatus::Queued, RunStatus::Claimed]] {
        let filter = RunFilter { statuses, ..RunFilter::default() };
        let runs =
            |view: &dyn View| read::runs(view, &[SHARD], &filter, None, 100).unwrap().items.len();
        let view = far();
        let there = runs(&view);
        check(&format!("{filter:?}"), view, runs(&w.store), there);
    }
}
