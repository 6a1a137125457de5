//! Better places: evenly over zones, then evenly over nodes.

use std::collections::BTreeMap;

use super::{FIRST_SHARD, NodeId, Planner, Replicas, Shard};

/// A voter that would be better elsewhere, and how much: first the change of the spread over zones,
/// then that of the load of nodes, both as sums of squares. Less is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Swap {
    zones: i64,
    load: i64,
    /// Leaders stay if others will do as well.
    leads: bool,
    pub(super) to: NodeId,
    pub(super) from: NodeId,
}

impl<'a> Planner<'a> {
    /// Begins moves that make things better, the best ones first.
    pub(super) fn spread(&mut self) {
        let takers: Vec<NodeId> = self.standing.takers().collect();
        while self.copies < self.rules.copies_max {
            let fit = |shard: &&Replicas| {
                let copying = shard.shard != FIRST_SHARD && !shard.learners.is_empty();
                !copying && self.is_settled(shard)
            };
            let free = self.free().into_iter().filter(fit);
            let swaps = free.filter_map(|shard| Some((self.best_swap(shard, &takers)?, shard)));
            let best: Option<(Swap, &'a Replicas)> =
                swaps.min_by_key(|(swap, replicas)| (*swap, replicas.shard));
            let Some((swap, replicas)) = best else {
                return;
            };
            self.loses(replicas.shard, swap.from);
            self.place(replicas, swap.to);
        }
    }

    /// Whether a shard has the voters it is to have, and all of them are up: nothing is moved for
    /// beauty while one is down.
    pub(super) fn is_settled(&self, replicas: &Replicas) -> bool {
        self.taken(replicas) == self.seats(replicas.shard).wanted
            && replicas.voters.iter().all(|voter| self.standing.can_take(*voter))
    }

    /// The best move of a voter of a shard to one of these nodes, if any makes things better.
    pub(super) fn best_swap(&self, replicas: &Replicas, to: &[NodeId]) -> Option<Swap> {
        let zones = self.zones(replicas);
        let fits = |to: &&NodeId| !replicas.voters.contains(to);
        let swaps = replicas.voters.iter().flat_map(|from| {
            to.iter().filter(fits).map(|to| self.swap(replicas, &zones, *from, *to))
        });
        swaps.filter(|swap| (swap.zones, swap.load) < (0, 0)).min()
    }

    fn swap(
        &self,
        replicas: &Replicas,
        zones: &BTreeMap<&str, usize>,
        from: NodeId,
        to: NodeId,
    ) -> Swap {
        let change = |from: usize, to: usize| 2 * (to as i64 - from as i64 + 1);
        let count = |zone| zones.get(zone).copied().unwrap_or(0);
        let (there, here) = (self.standing.zone(to), self.standing.zone(from));
        Swap {
            zones: if there == here { 0 } else { change(count(here), count(there)) },
            load: self.change_of_load(replicas.shard, from, to),
            leads: replicas.leader == Some(from),
            to,
            from,
        }
    }

    fn change_of_load(&self, shard: Shard, from: NodeId, to: NodeId) -> i64 {
        match shard {
            FIRST_SHARD => 0,
            _ => 2 * (self.load(to) as i64 - self.load(from) as i64 + 1),
        }
    }

    /// How many voters of a shard are in each zone, at nodes that are wanted.
    pub(super) fn zones(&self, replicas: &Replicas) -> BTreeMap<&'a str, usize> {
        let mut zones = BTreeMap::new();
        for voter in replicas.voters.iter().filter(|voter| self.standing.is_wanted(**voter)) {
            *zones.entry(self.standing.zone(*voter)).or_default() += 1;
        }
        zones
    }
}
