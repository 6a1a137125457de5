//! What waits in shards that act here, for other nodes whose workers may take it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use bellwether_core::turn::{Lane, Turnstile};
use bellwether_core::waist::Shard;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The first waiting run of a lane, and how many wait.
type Head = (Lane, Turnstile, usize);

/// Gathers what has changed until it is told.
#[derive(Default)]
pub struct Hints {
    /// Whether there is anybody to tell.
    wanted: AtomicBool,
    state: Mutex<State>,
    news: Notify,
}

#[derive(Default)]
struct State {
    changed: BTreeMap<Shard, Vec<Head>>,
    /// Shards of which others believe that something waits.
    waiting: BTreeSet<Shard>,
}

impl Hints {
    /// Says whether there is anybody to tell.
    pub fn want(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Relaxed);
    }

    /// Whether there is anybody to tell.
    #[must_use]
    pub fn are_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Notes what waits in a shard, if somebody is to be told.
    pub fn put(&self, shard: Shard, heads: &[Head]) {
        if !self.are_wanted() {
            return;
        }
        let mut state = self.state.lock();
        let waited = state.waiting.contains(&shard);
        if heads.is_empty() && !waited {
            return;
        }
        if heads.is_empty() {
            state.waiting.remove(&shard);
        } else {
            state.waiting.insert(shard);
        }
        state.changed.insert(shard, heads.to_vec());
        self.news.notify_one();
    }

    /// Waits for something to tell, and takes it.
    pub async fn take(&self) -> BTreeMap<Shard, Vec<Head>> {
        loop {
            let changed = std::mem::take(&mut self.state.lock().changed);
            if !changed.is_empty() {
                return changed;
            }
            self.news.notified().await;
        }
    }
}
