//! When a shard acts here: while this node leads its group, and not a moment longer.
//!
//! ```text
//!        this node leads                acquire the term, load, recover           thread
//!  wait ─────────────────► take over ──────────────────────────────────► act ───────────────┐
//!   ▲                                                                     │ another leads,  │
//!   └─────────────────────────────────────────────────────────────────────┴ or cannot commit┘
//! ```
//! A leader that has lost its lead without knowing cannot commit, so it acts on nothing; when it
//! learns of it, it stops. What it was asked and has not decided goes to the next. When it is to let another
//! lead, it stops first: then nothing is under way of which nobody would know what became of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bellwether_core::id::RunId;
use bellwether_core::key;
use bellwether_core::record::{self, Run, StoreRow};
use bellwether_core::settings::Settings;
use bellwether_core::shard::StillHeld;
use bellwether_core::turn::{self, Memory};
use bellwether_core::waist::{Batch, Family, Op, Shard, StoreError, Term};
use bellwether_raft::Watch;
use bellwether_raft::engine::RaftEngine;
use bellwether_store::Engine;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::handle::ShardHandle;
use super::looping::{ShardParts, spawn};
use super::recover::recover;

/// How long to wait before a shard is taken over again after that has failed.
const AGAIN: Duration = Duration::from_millis(100);

/// Says of a run that is with a worker how it is known that the worker does not have it.
pub type Gone = dyn Fn(RunId, &Run) -> Option<String> + Send + Sync;
/// Hears what is with workers when a shard has been taken over.
pub type Held = dyn Fn(Shard, Vec<StillHeld>) + Send + Sync;

/// What it takes to act for shards.
#[derive(Clone)]
pub struct Office {
    /// Where everything is stored, and who leads what.
    pub engine: Arc<RaftEngine>,
    /// What the rules depend on.
    pub settings: Settings,
    /// What the store says about itself, if it is new.
    pub store: StoreRow,
    /// What shards need to run.
    pub parts: Arc<ShardParts>,
    /// Which runs are known to be gone when a shard is taken over.
    pub gone: Arc<Gone>,
    /// Who hears what is not.
    pub held: Arc<Held>,
    /// Who hears that a shard has failed for good.
    pub failed: mpsc::UnboundedSender<(Shard, StoreError)>,
    /// Cancelled when no shard is to be taken over any more.
    pub stop: CancellationToken,
}

/// The shards that somebody acts for here whenever this node leads them: one task each.
#[derive(Default)]
pub struct Holding(Mutex<BTreeSet<Shard>>);

impl Holding {
    /// Whether nobody does yet; from here on the caller does.
    pub fn take(&self, shard: Shard) -> bool {
        self.0.lock().insert(shard)
    }

    /// Whether nobody needs to any more, because there is no group. One that is begun after this has
    /// to be taken anew.
    fn let_go(&self, shard: Shard, is_there: impl FnOnce() -> bool) -> bool {
        let mut holding = self.0.lock();
        !is_there() && holding.remove(&shard)
    }
}

impl Office {
    /// Acts for a shard whenever this node leads it. Ends when the shard has stopped for good, or this
    /// node has no part in its group any more. One task for each shard does this: see [`Holding`].
    pub async fn hold(self, handle: ShardHandle, holding: Arc<Holding>) {
        let shard = handle.shard;
        while !self.stop.is_cancelled() {
            if self.hold_group(&handle).await {
                return;
            }
            // The group has ended: for good, or it was begun anew because it counts on this node after
            // all.
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(AGAIN) => {}
            }
            if holding.let_go(shard, || self.engine.has(shard)) {
                return;
            }
        }
    }

    /// Acts for a shard until its group ends. Whether that is for good.
    async fn hold_group(&self, handle: &ShardHandle) -> bool {
        let shard = handle.shard;
        let Some(mut watch) = self.engine.watch(shard) else { return false };
        loop {
            if !self.until_led_here(handle, &mut watch).await {
                return false;
            }
            match self.tenure(handle, &mut watch).await {
                Ok(()) if self.stop.is_cancelled() => return true,
                Ok(()) => {}
                Err(
                    StoreError::NotLeader { .. }
                    | StoreError::Replaced { .. }
                    | StoreError::Fenced { .. },
                ) => {
                    tracing::info!(shard, "another node leads the shard");
                    tokio::time::sleep(AGAIN).await;
                }
                Err(StoreError::Closed) => return false,
                Err(error) => {
                    tracing::error!(shard, %error, "shard has stopped: its store failed");
                    let _ = self.failed.send((shard, error));
                    return true;
                }
            }
        }
    }

    fn leads(&self, watch: &Watch) -> bool {
        watch.leader() == Some(self.engine.node())
    }

    /// Waits until this node leads, and is not about to let another do so. False if it never will.
    async fn until_led_here(&self, handle: &ShardHandle, watch: &mut Watch) -> bool {
        let mut giving = handle.giving();
        while !self.leads(watch) || *giving.borrow_and_update() {
            tokio::select! {
                () = self.stop.cancelled() => return false,
                changed = watch.changed() => if !changed { return false },
                Ok(()) = giving.changed() => {}
            }
        }
        !self.stop.is_cancelled()
    }

    /// Takes the shard over and acts for it until its thread has ended.
    async fn tenure(&self, handle: &ShardHandle, watch: &mut Watch) -> Result<(), StoreError> {
        let shard = handle.shard;
        let begun = Instant::now();
        let term = tokio::select! {
            () = self.stop.cancelled() => return Ok(()),
            taken = self.engine.take_over(shard) => taken?,
        };
        let others = self.engine.standing(shard).is_some_and(|now| now.peers.len() > 1);
        handle.status.shared.store(others, Ordering::Relaxed);
        let taken = begun.elapsed();
        let office = self.clone();
        let (memory, held) =
            tokio::task::spawn_blocking(move || office.load(shard, term)).await.map_err(
                |_| StoreError::Failed("loading a shard panicked, which is a bug".to_owned()),
            )??;
        (self.held)(shard, held);
        let ended = spawn(memory, self.parts.clone(), handle.clone());
        let mut ended = ended.map_err(|error| StoreError::Failed(error.to_string()))?;
        if *handle.giving().borrow() {
            handle.resign(); // Whoever is to give it away has not found it acting yet.
        }
        tracing::debug!(shard, term, ?taken, acts = ?begun.elapsed(), "acts for the shard");
        let stopped = |_| Err(StoreError::Failed("its thread has ended without a word".to_owned()));
        loop {
            tokio::select! {
                outcome = &mut ended => return outcome.unwrap_or_else(stopped),
                changed = watch.changed() => {
                    let others = self.engine.standing(shard).is_some_and(|now| now.peers.len() > 1);
                    handle.status.shared.store(others, Ordering::Relaxed);
                    if !changed || !self.leads(watch) {
                        handle.resign();
                        return ended.await.unwrap_or_else(stopped);
                    }
                }
            }
        }
    }

    /// What a shard begins with that has been taken over, and what is still with workers.
    fn load(&self, shard: Shard, term: Term) -> Result<(Memory, Vec<StillHeld>), StoreError> {
        let mut memory = turn::load(&*self.engine.view(), shard, term, self.settings.clone())?;
        if shard == 0 && self.engine.view().get(Family::Meta, &key::store_row())?.is_none() {
            let (family, key) = (Family::Meta, key::store_row());
            let put = Op::Put { family, key, value: record::encode(&self.store) };
            self.engine.commit(Batch { shard, term, ops: vec![put] })?;
        }
        let held = recover(&*self.engine, &mut memory, &*self.gone)?;
        Ok((memory, held))
    }
}
