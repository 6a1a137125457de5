//! How many voters a shard is to have, and getting it so many.

use super::standing::Standing;
use super::{FIRST_SHARD, NodeId, Planner, Replicas, Role, Rules, Step};

/// How many voters a shard is to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seats {
    /// At nodes that are wanted.
    pub(super) wanted: usize,
    /// At nodes that were given up and whose place nobody can take: they may come back.
    pub(super) given_up: usize,
}

impl Seats {
    /// Of any shard but the first: as many as asked for, or as there are nodes.
    pub(super) fn ordinary(standing: &Standing<'_>, rules: &Rules) -> Seats {
        let zones = standing.zone_sizes();
        let asked = rules.replicas.max(1) | 1;
        Seats::of(&zones, asked, asked.min(zones.iter().sum()))
    }

    /// Of the first shard: an odd number, since the others follow anyway.
    pub(super) fn first(standing: &Standing<'_>, rules: &Rules) -> Seats {
        let zones = standing.zone_sizes();
        let asked = rules.first_shard_voters.max(rules.replicas).max(1) | 1;
        let most = asked.min(zones.iter().sum());
        Seats::of(&zones, asked, if most > 2 && most.is_multiple_of(2) { most - 1 } else { most })
    }

    fn of(zones: &[usize], asked: usize, most: usize) -> Seats {
        let nodes: usize = zones.iter().sum();
        let mut wanted = most;
        while zones.len() >= 3 && wanted > 3 && !bears_loss_of_a_zone(zones, wanted) {
            wanted -= if wanted.is_multiple_of(2) { 1 } else { 2 };
        }
        // Those that are up must be a majority also with these.
        let spare = if wanted == nodes { asked - wanted } else { 0 };
        Seats { wanted, given_up: spare.min(wanted.saturating_sub(1)) }
    }
}

/// Whether a majority is left without the zone that has most of so many voters, spread as evenly as
/// there are nodes for it.
fn bears_loss_of_a_zone(zones: &[usize], voters: usize) -> bool {
    let most =
        (1..=voters).find(|most| zones.iter().map(|size| size.min(most)).sum::<usize>() >= voters);
    most.is_some_and(|most| 2 * (voters - most) > voters)
}

impl<'a> Planner<'a> {
    /// How many voters of a shard are at nodes that are wanted.
    pub(super) fn taken(&self, replicas: &Replicas) -> usize {
        replicas.voters.iter().filter(|voter| self.standing.is_wanted(**voter)).count()
    }

    pub(super) fn lacks_voters(&self, replicas: &Replicas) -> bool {
        self.taken(replicas) < self.seats(replicas.shard).wanted
    }

    /// Goes on with copies that are under way, or gives them up. Those of the first shard are not
    /// told apart from nodes that only follow.
    pub(super) fn go_on_copying(&mut self) {
        let all: Vec<&'a Replicas> = self.shards.values().copied().collect();
        for replicas in all {
            let shard = replicas.shard;
            if shard == FIRST_SHARD || replicas.learners.is_empty() {
                continue;
            }
            let astray = replicas.learners.iter().find(|node| !self.standing.can_take(**node));
            match (self.steps.contains_key(&shard), astray) {
                (false, Some(node)) => self.step(shard, Step::Remove { shard, node: *node }),
                (false, None) => self.go_on_with(replicas),
                (true, _) => self.copies += 1,
            }
        }
    }

    fn go_on_with(&mut self, replicas: &'a Replicas) {
        let shard = replicas.shard;
        let learners: Vec<NodeId> = replicas.learners.iter().copied().collect();
        if self.lacks_voters(replicas) {
            if let Some(node) = self.best_taker(replicas, learners.into_iter()) {
                self.place(replicas, node);
            }
        } else if !self.is_settled(replicas) {
            self.copies += 1;
        } else if let Some(swap) = self.best_swap(replicas, &learners) {
            self.loses(shard, swap.from);
            self.place(replicas, swap.to);
        } else if let Some(node) = learners.first() {
            self.step(shard, Step::Remove { shard, node: *node });
        }
    }

    /// Places voters where there are too few: those first that can bear least.
    pub(super) fn fill_seats(&mut self) {
        let mut lacking = self.free();
        lacking.retain(|replicas| self.lacks_voters(replicas));
        lacking.sort_by_key(|replicas| {
            let up = replicas.voters.iter().filter(|voter| self.standing.is_up(**voter)).count();
            (2 * up as i64 - replicas.voters.len() as i64, replicas.shard)
        });
        for replicas in lacking {
            let takers: Vec<NodeId> = self.standing.takers().collect();
            if let Some(node) = self.best_taker(replicas, takers.into_iter())
                && (replicas.learners.contains(&node) || self.copies < self.rules.copies_max)
            {
                self.place(replicas, node);
            }
        }
    }

    /// Lets every node follow the first shard, and no node that leaves.
    pub(super) fn follow_first_shard(&mut self) {
        let Some(first) = self.free().into_iter().find(|replicas| replicas.shard == FIRST_SHARD)
        else {
            return;
        };
        let shard = FIRST_SHARD;
        if let Some(node) = first.learners.iter().find(|node| self.standing.is_leaving(**node)) {
            return self.step(shard, Step::Remove { shard, node: *node });
        }
        let has = |node: &NodeId| first.voters.contains(node) || first.learners.contains(node);
        let next = self.standing.takers().find(|node| !has(node));
        if let Some(node) = next.filter(|_| self.copies < self.rules.copies_max) {
            self.copies += 1;
            self.step(shard, Step::Place { shard, node, role: Role::Learner });
        }
    }

    /// Lets a node vote. Whoever follows the first shard has its data already.
    pub(super) fn place(&mut self, replicas: &Replicas, node: NodeId) {
        let shard = replicas.shard;
        if shard != FIRST_SHARD || !replicas.learners.contains(&node) {
            self.copies += 1;
        }
        self.gains(shard, node);
        self.step(shard, Step::Place { shard, node, role: Role::Voter });
    }

    /// Of these nodes the best for one more voter: in the zone that has fewest, then with the least
    /// load, or with the data already.
    fn best_taker(
        &self,
        replicas: &Replicas,
        nodes: impl Iterator<Item = NodeId>,
    ) -> Option<NodeId> {
        let zones = self.zones(replicas);
        let fits =
            nodes.filter(|node| self.standing.can_take(*node) && !replicas.voters.contains(node));
        fits.min_by_key(|node| {
            let in_zone = zones.get(self.standing.zone(*node)).copied().unwrap_or(0);
            let cost = match replicas.shard {
                FIRST_SHARD => usize::from(!replicas.learners.contains(node)),
                _ => self.load(*node),
            };
            (in_zone, cost, *node)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r123_so_many_voters_that_the_loss_of_a_zone_leaves_a_majority() {
        let wanted = |zones: &[usize], asked: usize| {
            Seats::of(zones, asked, asked.min(zones.iter().sum())).wanted
        };
        assert_eq!(wanted(&[1, 1, 1], 3), 3);
        assert_eq!(wanted(&[2, 2, 1], 5), 5);
        assert_eq!(wanted(&[3, 1, 1], 5), 3, "three in one zone would be the majority of five");
        assert_eq!(wanted(&[2, 1, 1], 5), 3, "two of four are as good as a majority");
        assert_eq!(wanted(&[1, 1, 1, 1], 5), 4, "with fewer nodes than asked for, all");
        assert_eq!(wanted(&[9, 1], 5), 5, "two zones cannot do it");
        assert_eq!(wanted(&[2], 3), 2);
    }
}
