//! Workers that ask request by request, and may ask another node each time.
//!
//! Such a worker has its seat at one node; how that is found is for whoever takes its requests. When
//! the node of its seat is gone, the node that it asks next becomes it: what the worker has is known to
//! the leaders of its runs. Nothing is said to be lost before they were asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bellwether_core::id::RunId;
use bellwether_core::shard::StillHeld;
use bellwether_core::turn::{Assignment, Offer};
use bellwether_core::waist::Shard;
use tokio::time::Instant;

use super::Remotes;
use super::known::Remote;
use super::registry::NotLetIn;

/// How long a worker may be kept waiting while this node is out of touch with leaders.
const IN_TOUCH_WITHIN: Duration = Duration::from_secs(4);
/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl Remotes {
    /// Gives a worker that polls a seat here. It gets nothing before it asks for work.
    ///
    /// # Errors
    /// When its name is taken, or is none.
    pub fn seat(&self, worker: &str, namespace: Option<String>) -> Result<(), NotLetIn> {
        self.polled(worker, &Offer { namespace, ..Offer::default() }).map(|_| ())
    }

    /// Whether a worker has anything, as far as this node knows.
    #[must_use]
    pub fn holds_any(&self, worker: &str) -> bool {
        self.workers.lock().get(worker).is_some_and(|remote| !remote.held.is_empty())
    }

    /// Finds out about what a worker says it is at and this node knows nothing of: it may have been
    /// handed out by another. False if nobody can say.
    pub async fn take_up_named(&self, worker: &str, at: &[(RunId, u64)]) -> bool {
        let unknown: BTreeSet<(RunId, u64)> = {
            let workers = self.workers.lock();
            let Some(remote) = workers.get(worker) else { return true };
            at.iter().filter(|(run, token)| !remote.holds(*run, *token)).copied().collect()
        };
        let Some(around) = self.around().filter(|_| !unknown.is_empty()) else { return true };
        let there = |shard: &Shard| usize::from(*shard) < self.shards.len();
        let shards = unknown.iter().map(|(run, _)| run.job.shard()).filter(there).collect();
        let Some(held) = around.held_by(worker, Some(shards)).await else { return false };
        let named = |held: &StillHeld| unknown.contains(&(held.run, held.token));
        self.take_up_held(held.into_iter().filter(named).collect());
        true
    }

    /// Counts something as with a worker, if that has a seat here and polls.
    pub fn take_up_if_polls(&self, held: StillHeld) {
        if self.orders_of(&held.worker).is_some() {
            self.take_up_held(vec![held]);
        }
    }

    /// Waits until the leaders of what a worker has know that it is here. False if that takes too
    /// long: then it must not be told that its lease goes on.
    pub async fn in_touch_soon(&self, worker: &str) -> bool {
        let until = Instant::now() + IN_TOUCH_WITHIN;
        while !self.is_in_touch(worker) {
            if Instant::now() >= until {
                return false;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        true
    }

    /// Takes back what a worker was about to be handed.
    pub fn withdraw(&self, worker: &str, assignments: &[Assignment]) {
        self.forget(worker, assignments);
        self.hand_back(assignments);
    }

    /// Lets go of workers that are looked after elsewhere: those that have left this node and are
    /// connected to another, and those that poll and have a seat at one of a lower number, unless they
    /// are waiting here right now or have something from here. The other node may not know of that,
    /// and would give it back to the queue if nobody had it; it knows once the worker has named it
    /// there, which it does before its lease ends, or the worker is given up here. Returns their names.
    pub fn let_go(&self, own: u64, elsewhere: &BTreeMap<Arc<str>, u64>) -> Vec<String> {
        let mut workers = self.workers.lock();
        let is_theirs = |(name, remote): &(&String, &Remote)| {
            let Some(node) = elsewhere.get(name.as_str()) else { return false };
            match &remote.polls {
                Some(orders) => *node < own && remote.held.is_empty() && orders.try_lock().is_ok(),
                None => remote.open.is_none(),
            }
        };
        let gone: Vec<String> =
            workers.iter().filter(is_theirs).map(|(name, _)| name.clone()).collect();
        for name in &gone {
            if let Some(remote) = workers.remove(name) {
                self.evict(name, remote);
                tracing::debug!(worker = name, "a worker is looked after by another node");
            }
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use bellwether_core::id::JobId;
    use bellwether_core::record::Definition;
    use bellwether_core::turn::Lane;

    use super::*;
    use crate::work::remote::LeaseSettings;

    fn remotes() -> Arc<Remotes> {
        let hour = Duration::from_secs(3_600);
        let settings = LeaseSettings { heartbeat: hour, lease: hour };
        Remotes::new(Arc::default(), Vec::new(), settings, String::new())
    }

    fn held(worker: &str) -> StillHeld {
        let run = RunId { job: JobId(1), n: 1 };
        let lane = Lane::of(&Definition::default(), "");
        StillHeld { worker: worker.to_owned(), run, token: 1, stop: false, lane }
    }

    #[tokio::test]
    async fn r21_of_two_seats_of_a_worker_that_polls_the_one_of_higher_number_goes() {
        let remotes = remotes();
        remotes.seat("p", None).ok().unwrap();
        let at = |node: u64| BTreeMap::from([(Arc::from("p"), node)]);
        assert_eq!(remotes.let_go(2, &BTreeMap::new()), Vec::<String>::new());
        assert_eq!(remotes.let_go(2, &at(3)), Vec::<String>::new());
        let orders = remotes.orders_of("p").unwrap();
        let asking = orders.lock().await;
        assert_eq!(remotes.let_go(2, &at(1)), Vec::<String>::new(), "it waits here for work");
        drop(asking);
        remotes.take_up_held(vec![held("p")]);
        assert_eq!(remotes.let_go(2, &at(1)), Vec::<String>::new(), "it has something from here");
        remotes.take_up("p", &[(held("p").run, 1)]);
        assert_eq!(remotes.let_go(2, &at(1)), ["p"]);
        assert!(!remotes.has_seat("p"));
    }

    #[tokio::test]
    async fn r21_a_worker_that_has_left_for_another_node_is_let_go_with_what_it_has() {
        let remotes = remotes();
        remotes.take_up_held(vec![held("w")]);
        assert_eq!(remotes.dispatch.under_way("default"), 1);
        assert_eq!(remotes.let_go(1, &BTreeMap::from([(Arc::from("w"), 3)])), ["w"]);
        assert_eq!(remotes.dispatch.under_way("default"), 0);
    }
}
