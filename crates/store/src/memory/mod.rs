//! The engine in memory, for tests and the simulator.
//!
//! Rows live in persistent maps, so a view is a handful of `Arc` clones and never changes. There
//! is no thread: a submitted batch is applied, and its callback called, before `submit` returns,
//! which keeps a simulation deterministic. [`Faults`] changes that: it holds batches back as a
//! disk holds what is not yet synced, lets a sync fail, and plays a crash.
//!
//! Where to start reading: `Inner::submit`, then `Inner::sync`.

mod faults;
mod replica;
mod tables;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bellwether_core::waist::{Batch, Family, Shard, StoreError, Term, View};
use parking_lot::{Mutex, MutexGuard};

pub use self::faults::Faults;
pub use self::replica::MemoryTables;
use self::tables::Tables;
use crate::engine::{Done, Engine, EngineStats, FamilyStats};
use crate::rules::{assert_batch, batch_bytes, check_fence};

/// A store that forgets everything when it is dropped.
#[derive(Default)]
pub struct MemoryEngine {
    inner: Arc<Inner>,
}

impl MemoryEngine {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The handle with which a test makes this store misbehave.
    #[must_use]
    pub fn faults(&self) -> Faults {
        Faults::new(Arc::clone(&self.inner))
    }

    /// A new engine on what is durable in this one, as after a restart. This one is unaffected.
    #[must_use]
    pub fn reopen(&self) -> MemoryEngine {
        self.inner.reopen()
    }
}

impl Engine for MemoryEngine {
    fn acquire(&self, shard: Shard) -> Result<Term, StoreError> {
        self.inner.acquire(shard)
    }

    fn view(&self) -> Arc<dyn View> {
        self.inner.durable.load_full()
    }

    fn submit(&self, batch: Batch, done: Done) {
        assert_batch(&batch);
        self.inner.submit(batch, done);
    }

    fn stats(&self) -> EngineStats {
        self.inner.stats()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.inner.close()
    }
}

/// The store and what waits for its sync.
#[derive(Default)]
struct Inner {
    /// What views show.
    durable: ArcSwap<Tables>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    terms: HashMap<Shard, Term>,
    /// Submitted, not yet durable. Empty unless a fault holds it back.
    waiting: VecDeque<(Batch, Done)>,
    /// Decided, to be called without the lock, in this order.
    ready: VecDeque<(Done, Result<(), StoreError>)>,
    /// Somebody is calling what is ready.
    delivering: bool,
    holding: bool,
    /// How many batches still succeed before a sync fails.
    batches_until_failure: Option<u64>,
    closed: bool,
    stats: EngineStats,
}

impl State {
    /// Why nothing can be written any more, if so.
    fn refusal(&self) -> Option<StoreError> {
        if let Some(reason) = &self.stats.failure {
            return Some(StoreError::Failed(reason.clone()));
        }
        self.closed.then_some(StoreError::Closed)
    }

    fn term(&self, shard: Shard) -> Term {
        self.terms.get(&shard).copied().unwrap_or(0)
    }
}

impl Inner {
    fn submit(&self, batch: Batch, done: Done) {
        let mut state = self.state.lock();
        if let Some(error) = state.refusal() {
            state.ready.push_back((done, Err(error)));
        } else {
            state.waiting.push_back((batch, done));
            if !state.holding {
                self.sync(&mut state, usize::MAX);
            }
        }
        self.deliver(state);
    }

    fn acquire(&self, shard: Shard) -> Result<Term, StoreError> {
        let mut state = self.state.lock();
        // One journal: what was submitted before becomes durable with the new term.
        self.sync(&mut state, usize::MAX);
        let result = match state.refusal() {
            Some(error) => Err(error),
            None => {
                let term = state.term(shard) + 1;
                state.terms.insert(shard, term);
                let mut tables = Tables::clone(&self.durable.load());
                tables.set_term(shard, term);
                self.durable.store(Arc::new(tables));
                Ok(term)
            }
        };
        self.deliver(state);
        result
    }

    /// Makes the first `limit` of what waits durable. One new view for all of them.
    fn sync(&self, state: &mut State, limit: usize) {
        let mut tables = Tables::clone(&self.durable.load());
        let mut synced = 0;
        while synced < limit && state.stats.failure.is_none() {
            let Some((batch, done)) = state.waiting.pop_front() else {
                break;
            };
            synced += 1;
            let result = self.apply(state, &mut tables, &batch);
            state.ready.push_back((done, result));
        }
        if synced > 0 {
            state.stats.syncs += 1;
            self.durable.store(Arc::new(tables));
        }
        if let Some(error) = state.refusal()
            && state.stats.failure.is_some()
        {
            let lost = std::mem::take(&mut state.waiting);
            let lost = lost.into_iter().map(|(_, done)| (done, Err(error.clone())));
            state.ready.extend(lost);
        }
    }

    fn apply(
        &self,
        state: &mut State,
        tables: &mut Tables,
        batch: &Batch,
    ) -> Result<(), StoreError> {
        if let Some(left) = &mut state.batches_until_failure {
            if *left == 0 {
                let reason = "a sync failed, as a test asked for".to_owned();
                state.stats.failure = Some(reason.clone());
                return Err(StoreError::Failed(reason));
            }
            *left -= 1;
        }
        let fence = check_fence(batch, state.term(batch.shard));
        if fence.is_err() {
            state.stats.batches_fenced += 1;
            return fence;
        }
        state.stats.batches += 1;
        state.stats.ops += batch.ops.len() as u64;
        state.stats.bytes += batch_bytes(batch) as u64;
        tables.apply(batch);
        Ok(())
    }

    /// Calls what is ready, in order and without the lock, so that callbacks may come back here.
    fn deliver(&self, mut state: MutexGuard<'_, State>) {
        if state.delivering {
            // A callback, or another thread, is at it and will find what was just added.
            return;
        }
        state.delivering = true;
        while let Some((done, result)) = state.ready.pop_front() {
            MutexGuard::unlocked(&mut state, || done(result));
        }
        state.delivering = false;
    }

    fn close(&self) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        self.sync(&mut state, usize::MAX);
        state.closed = true;
        let failure = state.stats.failure.clone();
        self.deliver(state);
        failure.map_or(Ok(()), |reason| Err(StoreError::Failed(reason)))
    }

    fn reopen(&self) -> MemoryEngine {
        let tables = self.durable.load_full();
        let state = State { terms: tables.terms(), ..State::default() };
        MemoryEngine {
            inner: Arc::new(Inner { durable: ArcSwap::from(tables), state: Mutex::new(state) }),
        }
    }

    fn stats(&self) -> EngineStats {
        let state = self.state.lock();
        let tables = self.durable.load();
        let mut stats = state.stats.clone();
        stats.queue_len = state.waiting.len() as u64;
        stats.queue_bytes = state.waiting.iter().map(|(b, _)| batch_bytes(b) as u64).sum();
        stats.open_duration = Duration::ZERO;
        stats.families = Family::ALL
            .into_iter()
            .map(|family| FamilyStats {
                family,
                disk_bytes: 0,
                tables: 0,
                l0_runs: 0,
                memtables_sealed: 0,
                memtable_bytes: 0,
                rows_approximate: tables.rows(family) as u64,
            })
            .collect();
        stats
    }
}
