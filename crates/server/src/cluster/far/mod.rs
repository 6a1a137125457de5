//! Reading what this node has no replica of.
//!
//! ```text
//!   reader ─► FarView ─┬─ here ──► this node's own replicas
//!                      └─ far ───► rows, from a node that has a replica   (rows.proto)
//! ```
//! With more nodes than replicas no node has everything. Which shards are read from the own replicas
//! is looked at twice a second: a replica counts once it votes, since one that is being filled shows
//! half of what there is, and only as long as the group counts on it and it keeps up: that of a node
//! which was away shows what is long past.
//!
//! For every other shard this node remembers how far its log was when somebody was told of something
//! through this node, or asked for what is true now. Whoever is asked for rows must be as far as that:
//! so it does not matter which replica answers, and nobody goes back in time. Shard 0 is read here as soon as
//! the own replica has arrived: everybody follows it.
//!
//! Not here: who may see what, and what rows mean. Where to start reading: [`FarView`].

mod ask;
mod known;
mod serve;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bellwether_core::waist::{Shard, View};
use bellwether_store::Engine;
use parking_lot::{Mutex, RwLock};

use super::Cluster;
use super::wire::attend::FAR_BEHIND;
pub use serve::rows_service;
pub use view::{FarView, HeldAt};

/// How long something is kept for another node that asks nothing of it.
const HELD_FOR: Duration = Duration::from_secs(300);
/// States of shards that are kept for other nodes at most.
const HELD_MAX: usize = 64;

/// What is read here and what elsewhere.
#[derive(Default)]
pub struct Far {
    state: RwLock<State>,
    held: Mutex<BTreeMap<u64, Held>>,
}

#[derive(Default)]
struct State {
    /// The shards that are read from the own replicas.
    here: Arc<BTreeSet<Shard>>,
    /// How far the logs of the others were when they were last heard of.
    floors: BTreeMap<Shard, u64>,
}

/// A state of a shard that is kept for another node.
struct Held {
    shard: Shard,
    view: Arc<dyn View>,
    used: Instant,
}

impl Far {
    /// Whether a shard is read here.
    #[must_use]
    pub fn is_here(&self, shard: Shard) -> bool {
        self.state.read().here.contains(&shard)
    }

    /// The shards that are read here.
    #[must_use]
    pub fn here(&self) -> Arc<BTreeSet<Shard>> {
        self.state.read().here.clone()
    }

    /// Notes how far the log of a shard is that is not read here. False if it is read here.
    #[must_use]
    pub fn raise(&self, shard: Shard, index: u64) -> bool {
        let mut state = self.state.write();
        if state.here.contains(&shard) {
            return false;
        }
        let floor = state.floors.entry(shard).or_default();
        *floor = index.max(*floor);
        true
    }

    fn floor(&self, shard: Shard) -> u64 {
        self.state.read().floors.get(&shard).copied().unwrap_or(0)
    }

    /// Reads a shard here from now on, if the own replica is as far as it has to be.
    fn read_here(&self, shard: Shard, applied: u64) {
        let mut state = self.state.write();
        let behind = state.floors.get(&shard).is_some_and(|floor| *floor > applied);
        if !state.here.contains(&shard) && !behind {
            Arc::make_mut(&mut state.here).insert(shard);
            state.floors.remove(&shard);
        }
    }

    /// Reads a shard elsewhere from now on, where it must be as far as the own replica was.
    fn read_elsewhere(&self, shard: Shard, applied: u64) {
        let mut state = self.state.write();
        if state.here.contains(&shard) {
            Arc::make_mut(&mut state.here).remove(&shard);
            state.floors.insert(shard, applied);
        }
    }

    /// Keeps a state of a shard. `None` if there is no room for it.
    fn hold(&self, shard: Shard, view: Arc<dyn View>) -> Option<u64> {
        self.forget_unused();
        let mut held = self.held.lock();
        if held.len() >= HELD_MAX {
            return None;
        }
        let number = rand::random();
        held.insert(number, Held { shard, view, used: Instant::now() });
        Some(number)
    }

    fn held(&self, number: u64, shard: Shard) -> Option<Arc<dyn View>> {
        let mut held = self.held.lock();
        let kept = held.get_mut(&number).filter(|kept| kept.shard == shard)?;
        kept.used = Instant::now();
        Some(kept.view.clone())
    }

    fn release(&self, number: u64) {
        self.held.lock().remove(&number);
    }

    /// Lets go of what is kept for nodes that have forgotten of it.
    pub fn forget_unused(&self) {
        self.held.lock().retain(|_, kept| kept.used.elapsed() < HELD_FOR);
    }
}

impl Cluster {
    /// The newest state of all shards.
    #[must_use]
    pub fn view(self: &Arc<Self>) -> Arc<dyn View> {
        if self.book.is_empty() {
            return self.engine.view();
        }
        let (local, here) = self.local_view();
        if here.len() == self.shards.len() {
            return local;
        }
        Arc::new(FarView::new(self.clone(), local, here))
    }

    /// The newest state of the own replicas, and which shards can be read from it.
    pub(super) fn local_view(&self) -> (Arc<dyn View>, Arc<BTreeSet<Shard>>) {
        // A replica may go or come meanwhile: what counts was here before and after.
        let before = self.far.here();
        let local = self.engine.view();
        let after = self.far.here();
        let here = match Arc::ptr_eq(&before, &after) {
            true => before,
            false => Arc::new(before.intersection(&after).copied().collect()),
        };
        (local, here)
    }

    /// Looks which shards can be read here.
    pub(super) fn look_what_is_here(&self) {
        for handle in &self.shards {
            let shard = handle.shard;
            let applied = self.engine.standing(shard).map_or(0, |standing| standing.applied);
            match self.is_readable(shard) {
                true => self.far.read_here(shard, applied),
                false => self.far.read_elsewhere(shard, applied),
            }
        }
        self.far.forget_unused();
    }

    /// A shard is not read here any more: its replica is about to go.
    pub(super) fn read_elsewhere(&self, shard: Shard) {
        let applied = self.engine.standing(shard).map_or(0, |standing| standing.applied);
        self.far.read_elsewhere(shard, applied);
    }

    /// Whether this node's replica of a shard shows what the group has.
    fn is_readable(&self, shard: Shard) -> bool {
        let Some(own) = self.engine.standing(shard) else { return false };
        let node = self.identity.node;
        if own.leader == Some(node) {
            return true;
        }
        if shard == 0 {
            return !self.engine.is_awaited(0);
        }
        // One that was let go while its node was down still believes that it votes.
        let newest = self.book.replicas(shard).into_iter().map(|(_, said)| said);
        let newest = newest.filter(|said| said.leader.is_some()).max_by_key(|r| (r.term, r.last));
        let let_go = newest.is_some_and(|said| {
            (said.term, said.last) >= (own.term, own.last) && !said.voters.contains(&node)
        });
        own.voters.contains(&node) && !let_go && own.behind <= FAR_BEHIND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_read_here_only_once_it_shows_what_was_told_elsewhere() {
        let far = Far::default();
        assert!(far.raise(3, 10));
        assert!(far.raise(3, 7));
        assert_eq!(far.floor(3), 10);
        far.read_here(3, 9);
        assert!(!far.is_here(3));
        far.read_here(3, 10);
        assert!(far.is_here(3));
        assert!(!far.raise(3, 20), "the own replica is waited for instead");
        far.read_elsewhere(3, 25);
        assert_eq!(far.floor(3), 25, "nobody goes back in time");
    }
}
