//! Workers of this node as other nodes see them, and those of other nodes as this one does.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use bellwether_core::id::RunId;
use bellwether_core::shard::StillHeld;
use bellwether_core::waist::Shard;
use futures::future::BoxFuture;

use super::Remotes;

/// What is to be known of other nodes.
pub trait Surroundings: Send + Sync + 'static {
    /// Whether there are none.
    fn is_alone(&self) -> bool;

    /// Whether the leaders of these shards know which workers are here.
    fn is_in_touch(&self, shards: &BTreeSet<Shard>) -> bool;

    /// What is with a worker, as the leaders of all shards know, or of these; `None` if one of them
    /// cannot be asked.
    fn held_by<'a>(
        &'a self,
        worker: &'a str,
        shards: Option<BTreeSet<Shard>>,
    ) -> BoxFuture<'a, Option<Vec<StillHeld>>>;

    /// Has the leaders give up what a worker has, unless it is connected to another node.
    fn fell_silent(self: Arc<Self>, silent: Silent) -> BoxFuture<'static, ()>;
}

/// A worker that was not heard for as long as its lease lasts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Silent {
    /// Its name.
    pub worker: String,
    /// What it has: runs and tokens.
    pub runs: Vec<(RunId, u64)>,
    /// The same for people.
    pub detail: String,
}

impl Remotes {
    /// Makes other nodes known.
    pub fn set_surroundings(&self, surroundings: Weak<dyn Surroundings>) {
        let _ = self.surroundings.set(surroundings);
    }

    /// The other nodes, while this one has to do with them.
    pub(super) fn around(&self) -> Option<Arc<dyn Surroundings>> {
        self.surroundings.get().and_then(Weak::upgrade)
    }

    /// Whether there is no other node: while this one is down, nobody can give away what workers have.
    #[must_use]
    pub fn is_sole(&self) -> bool {
        self.around().is_none_or(|around| around.is_alone())
    }

    /// Ends the conversations with the workers that have dialled in. They dial again, and hear anew
    /// how things are: they were told that there is no other node.
    pub fn have_dial_again(&self) {
        let workers = self.workers.lock();
        for remote in workers.values().filter(|remote| remote.polls.is_none()) {
            if let Some(open) = &remote.open {
                open.cancel();
            }
        }
    }

    /// Whether the leaders of what a worker holds know that it is here.
    pub(super) fn is_in_touch(&self, worker: &str) -> bool {
        let around = self.around();
        around.is_none_or(|around| around.is_in_touch(&self.shards_of(worker)))
    }

    /// Finds out what is with a worker that this node knows nothing of: it may come from another.
    /// False if nobody can say.
    pub async fn look_up(&self, worker: &str) -> bool {
        let Some(around) = self.around() else { return true };
        if self.knows(worker) {
            return true;
        }
        match around.held_by(worker, None).await {
            Some(held) => {
                self.take_up_held(held);
                true
            }
            None => false,
        }
    }

    /// What a worker that is connected here holds.
    #[must_use]
    pub fn held_by(&self, worker: &str) -> Vec<(RunId, u64)> {
        let workers = self.workers.lock();
        let held = workers.get(worker).into_iter().flat_map(|remote| &remote.held);
        held.map(|(run, held)| (*run, held.token)).collect()
    }

    /// Whether a worker is known here, connected or not: what it holds is.
    #[must_use]
    pub fn knows(&self, worker: &str) -> bool {
        self.workers.lock().contains_key(worker)
    }

    /// Whether a worker is connected here.
    #[must_use]
    pub fn has_seat(&self, worker: &str) -> bool {
        self.workers.lock().get(worker).is_some_and(|remote| remote.open.is_some())
    }

    /// The shards of whose runs a worker holds some.
    #[must_use]
    pub fn shards_of(&self, worker: &str) -> BTreeSet<Shard> {
        self.held_by(worker).into_iter().map(|(run, _)| run.job.shard()).collect()
    }
}
