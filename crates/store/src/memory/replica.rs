//! Tables in memory that a replicated log is applied to, for the simulator.

use std::sync::Arc;

use bellwether_core::waist::{Batch, Family, Op, Shard, StoreError, Term, View};
use bytes::Bytes;
use parking_lot::Mutex;

use super::tables::Tables as Rows;
use crate::disk::{Applied, AppliedDone, Replicated, position_key};
use crate::rules::{assert_batch, check_fence, decode_term, meta_term_key};
use crate::tables::Tables;

/// Tables that lose what was not persisted when their machine goes down. They outlive it: what a
/// crash leaves is found by whoever opens them next.
#[derive(Default)]
pub struct MemoryTables {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    rows: Rows,
    persisted: Rows,
    /// How they were after everything that was applied since they were last persisted, in order.
    since: Vec<Rows>,
    forget_fence: bool,
    /// Loads of copied rows after which the power fails.
    loads_left: Option<usize>,
    /// The power is failing: nothing is written any more.
    failed: bool,
}

impl MemoryTables {
    /// A mistake to be made on purpose: batches whose term is void are applied all the same.
    pub fn forget_fence(&self) {
        self.state.lock().forget_fence = true;
    }

    /// From the load of copied rows on that comes after so many, nothing is written any more, until
    /// the machine has gone down. `None` if that is not to happen.
    pub fn fail_in_copy(&self, after: Option<usize>) {
        self.state.lock().loads_left = after;
    }

    /// Whether nothing is written any more.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.state.lock().failed
    }

    /// How many things a crash could lose.
    #[must_use]
    pub fn loose(&self) -> usize {
        self.state.lock().since.len()
    }

    /// The machine goes down: of what was applied since the last time they were persisted, only the
    /// first `kept` are left.
    pub fn crash(&self, kept: usize) {
        let mut state = self.state.lock();
        state.since.truncate(kept);
        state.rows = state.since.last().unwrap_or(&state.persisted).clone();
        (state.loads_left, state.failed) = (None, false);
    }

    /// Everything is gone, as on a new disk.
    pub fn wipe(&self) {
        let mut state = self.state.lock();
        let forget_fence = state.forget_fence;
        *state = State { forget_fence, ..State::default() };
    }
}

impl Tables for MemoryTables {
    fn view(&self) -> Arc<dyn View> {
        Arc::new(self.state.lock().rows.clone())
    }

    fn apply(&self, shard: Shard, what: Replicated, position: Bytes, done: AppliedDone) {
        let applied = self.state.lock().apply(shard, what, position);
        done(applied);
    }

    fn persist(&self) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        state.check_power()?;
        state.persisted = state.rows.clone();
        state.since.clear();
        Ok(())
    }
}

impl State {
    fn apply(
        &mut self,
        shard: Shard,
        what: Replicated,
        position: Bytes,
    ) -> Result<Applied, StoreError> {
        if matches!(what, Replicated::Load(_)) {
            self.failed |= self.loads_left == Some(0);
            self.loads_left = self.loads_left.map(|left| left.saturating_sub(1));
        }
        self.check_power()?;
        let newest = self.term(shard)?;
        let applied = match what {
            Replicated::Nothing => Applied::Done,
            Replicated::Acquire => {
                self.rows.set_term(shard, newest + 1);
                Applied::Acquired(newest + 1)
            }
            Replicated::Load(ops) => {
                self.rows.apply(&Batch { shard, term: newest, ops });
                Applied::Done
            }
            Replicated::Write(batch) => {
                assert_batch(&batch);
                if self.forget_fence || check_fence(&batch, newest).is_ok() {
                    self.rows.apply(&batch);
                    Applied::Done
                } else {
                    Applied::Fenced { newest }
                }
            }
        };
        let key = position_key(shard);
        let ops = vec![Op::Put { family: Family::Meta, key, value: position }];
        self.rows.apply(&Batch { shard, term: newest, ops });
        self.since.push(self.rows.clone());
        Ok(applied)
    }

    fn check_power(&self) -> Result<(), StoreError> {
        match self.failed {
            true => Err(StoreError::Failed("the power is failing, as was asked for".to_owned())),
            false => Ok(()),
        }
    }

    fn term(&self, shard: Shard) -> Result<Term, StoreError> {
        let stored = self.rows.get(Family::Meta, &meta_term_key(shard))?;
        stored.map_or(Ok(0), |value| decode_term(shard, &value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(tables: &MemoryTables, term: Term, key: &'static [u8]) -> Applied {
        let key = Bytes::from_static(key);
        let put = Op::Put { family: Family::Job, key, value: Bytes::new() };
        apply(tables, Replicated::Write(Batch { shard: 1, term, ops: vec![put] }))
    }

    fn apply(tables: &MemoryTables, what: Replicated) -> Applied {
        let told = Arc::new(Mutex::new(None));
        let tell = told.clone();
        let done = move |result: Result<Applied, StoreError>| *tell.lock() = result.ok();
        tables.apply(1, what, Bytes::from_static(b"here"), Box::new(done));
        told.lock().take().unwrap()
    }

    fn rows(tables: &MemoryTables) -> usize {
        tables.view().scan(Family::Job, b"", b"\xff").count()
    }

    #[test]
    fn a_crash_leaves_what_was_persisted_and_some_of_what_came_after() {
        let tables = MemoryTables::default();
        assert_eq!(apply(&tables, Replicated::Acquire), Applied::Acquired(1));
        write(&tables, 1, b"\0\x01a");
        tables.persist().unwrap();
        write(&tables, 1, b"\0\x01b");
        write(&tables, 1, b"\0\x01c");
        assert_eq!((rows(&tables), tables.loose()), (3, 2));
        tables.crash(1);
        assert_eq!(rows(&tables), 2);
        tables.crash(0);
        assert_eq!(rows(&tables), 1);
        tables.wipe();
        assert_eq!(rows(&tables), 0);
    }

    #[test]
    fn a_void_term_changes_nothing_unless_that_is_forgotten_on_purpose() {
        let tables = MemoryTables::default();
        apply(&tables, Replicated::Acquire);
        apply(&tables, Replicated::Acquire);
        assert_eq!(write(&tables, 1, b"\0\x01a"), Applied::Fenced { newest: 2 });
        assert_eq!(rows(&tables), 0);
        tables.forget_fence();
        assert_eq!(write(&tables, 1, b"\0\x01a"), Applied::Done);
        assert_eq!(rows(&tables), 1);
    }

    #[test]
    fn a_copy_can_be_interrupted_and_a_part_of_it_is_left() {
        let tables = MemoryTables::default();
        let load = |key: &'static [u8]| {
            let put = Op::Put { family: Family::Job, key: key.into(), value: Bytes::new() };
            let told = Arc::new(Mutex::new(None));
            let tell = told.clone();
            let done = move |result: Result<Applied, StoreError>| *tell.lock() = Some(result);
            tables.apply(1, Replicated::Load(vec![put]), Bytes::new(), Box::new(done));
            told.lock().take().unwrap()
        };
        tables.fail_in_copy(Some(1));
        load(b"\0\x01a").unwrap();
        assert!(!tables.has_failed());
        load(b"\0\x01b").unwrap_err();
        load(b"\0\x01c").unwrap_err();
        tables.persist().unwrap_err();
        assert!(tables.has_failed());
        tables.crash(1);
        assert_eq!((rows(&tables), tables.has_failed()), (1, false));
        load(b"\0\x01b").unwrap();
    }
}
