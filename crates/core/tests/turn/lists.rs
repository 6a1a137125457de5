//! Lists, as readers ask for them: also with cursors that nobody was given.

use bellwether_core::id::{JobId, RunId};
use bellwether_core::read::{self, RunCursor, RunFilter};
use bellwether_core::record::RunStatus;
use bellwether_core::time::Time;

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
