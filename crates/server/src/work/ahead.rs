//! Who stands before a run that asks, and what a worker that counts resources has to leave them.
//!
//! This is asked for every lane of every turn while all shards wait, so its cost matters: it is
//! worked out once for a grant, and only when a worker has anything free; and for each worker it
//! ends as soon as what is set aside leaves nothing. So while there is more work than room, a grant
//! costs about as much as there are lanes that wait and workers. Only lanes ahead that a worker
//! with room does not serve are looked at for each such worker.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_core::turn::{Demand, Lane, Turnstile, Work};
use bellwether_core::waist::Shard;

use super::budget::Budget;
use super::queues::QueueUse;
use super::seat::Seat;
use super::table::{Hungry, Waiting};

/// The namespaces that wait, by queue and kind of work.
type Namespaces<'a> = BTreeMap<(&'a str, &'a Work), BTreeSet<&'a str>>;

/// The lanes whose first runs come before one that asks.
pub struct Ahead<'a> {
    lanes: Vec<InFront<'a>>,
    /// How often a lane was looked at.
    #[cfg(test)]
    pub looked: usize,
}

/// Runs of a lane that come before another.
struct InFront<'a> {
    lane: &'a Lane,
    /// How many of them each have to be left their share: the first of each shard.
    count: usize,
    /// How many other namespaces wait for the same.
    others: usize,
}

impl<'a> Ahead<'a> {
    /// Of the first run of a lane in a shard.
    pub fn new(hungry: &'a Hungry, shard: Shard, lane: &Lane, first: Turnstile) -> Ahead<'a> {
        let mut namespaces = Namespaces::new();
        let mut lanes = Vec::new();
        for (other, shards) in hungry {
            let waiting = namespaces.entry((other.queue.as_str(), &other.work)).or_default();
            waiting.insert(other.namespace.as_str());
            let is_ahead = |(of, (head, _)): &(&Shard, &Waiting)| {
                is_before(head, &first) && (**of != shard || other != lane)
            };
            let count = shards.iter().filter(is_ahead).count();
            if count > 0 {
                lanes.push(InFront { lane: other, count, others: 0 });
            }
        }
        for in_front in &mut lanes {
            let waiting = namespaces.get(&(in_front.lane.queue.as_str(), &in_front.lane.work));
            in_front.others = waiting.map_or(0, |waiting| waiting.len() - 1);
        }
        Ahead {
            #[cfg(test)]
            looked: hungry.len(),
            lanes,
        }
    }

    /// How many runs of a demand still fit into a worker when those ahead are left their share.
    pub fn leave(
        &mut self,
        seat: &mut Seat,
        budget: Budget,
        demand: Demand,
        queues: &mut BTreeMap<String, QueueUse>,
    ) -> usize {
        let mut aside = Demand::NONE;
        for InFront { lane, count, others } in &self.lanes {
            #[cfg(test)]
            {
                self.looked += 1;
            }
            if !seat.takes(lane) {
                continue;
            }
            let free = seat.room.free(lane).max(1);
            let may = match queues.get_mut(&lane.queue) {
                Some(queue) => queue.allowed(&lane.namespace, *count, free, *others),
                None => *count,
            };
            aside = aside.and(lane.demand.times(may));
            if budget.free(demand, aside) == 0 {
                return 0;
            }
        }
        budget.free(demand, aside)
    }
}

/// Whether a run comes before another.
pub fn is_before(head: &Turnstile, other: &Turnstile) -> bool {
    (head.rank, head.scheduled) < (other.rank, other.scheduled)
}
