//! Views for lists, and how old what they show may be.
//!
//! A list is made from what replicas show, without asking anybody whether that is all: so it costs the
//! leaders nothing, and goes on without them for a while. What the own replica of a shard shows is
//! taken if it was level lately (see `level`), else another node is asked for it (see `far`). If nobody can be
//! asked either, there is no list: what is long past is not shown as if it were true.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bellwether_core::waist::{Shard, View};
use bellwether_store::Engine;

use super::Cluster;
use super::far::FarView;
use super::level::{BEHIND_MAX, can_be_listed};

/// What a list is made from.
pub struct Listing {
    view: Arc<dyn View>,
    /// As of when everything from the own replicas is true; `None` if it always is.
    here: Option<Instant>,
    /// What other nodes were asked for, if any.
    far: Option<Arc<FarView>>,
}

/// What a node has of a shard is too old to be shown, and nobody else can be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "this node cannot reach the others that have shard {shard}, and what it has of it itself may be {} s \
     old, more than the {} s that lists may be behind; ask another node, or see whether a majority of the nodes is up",
    behind.as_secs(),
    BEHIND_MAX.as_secs()
)]
pub struct TooOld {
    /// The shard.
    pub shard: Shard,
    /// How old it may be.
    pub behind: Duration,
}

impl Listing {
    /// What to read from.
    #[must_use]
    pub fn view(&self) -> &dyn View {
        &*self.view
    }

    /// The most that what was read can be behind what is true now.
    #[must_use]
    pub fn behind(&self, now: Instant) -> Duration {
        let far = self.far.as_ref().and_then(|far| far.level());
        let oldest = self.here.into_iter().chain(far).min();
        oldest.map_or(Duration::ZERO, |oldest| now.saturating_duration_since(oldest))
    }
}

impl Cluster {
    /// What a list over shards is made from. To be called within a runtime.
    ///
    /// # Errors
    /// When what this node has is too old, and it knows of nobody else to be asked.
    pub fn listing(self: &Arc<Self>, shards: &[Shard]) -> Result<Listing, TooOld> {
        if self.book.is_empty() && self.engine.has(0) {
            return Ok(Listing { view: self.engine.view(), here: None, far: None });
        }
        // What is read afterwards is as new as that, or newer.
        let levels = self.known_levels().all();
        let (local, readable) = self.local_view();
        let now = Instant::now();
        let level = |shard: &Shard| levels.get(shard).copied();
        let here: BTreeSet<Shard> =
            readable.iter().filter(|shard| can_be_listed(level(shard), now)).copied().collect();
        let oldest = shards.iter().filter(|shard| here.contains(shard)).filter_map(level).min();
        if shards.iter().all(|shard| here.contains(shard)) {
            return Ok(Listing { view: local, here: oldest, far: None });
        }
        for shard in shards.iter().filter(|shard| !here.contains(shard)) {
            // One that was never level has just been started: others are about to be heard.
            if let Some(at) = level(shard)
                && self.others_with(*shard).is_empty()
            {
                let behind = now.saturating_duration_since(at);
                return Err(TooOld { shard: *shard, behind });
            }
        }
        let far = Arc::new(FarView::for_list(self.clone(), local, Arc::new(here)));
        Ok(Listing { view: far.clone(), here: oldest, far: Some(far) })
    }
}
