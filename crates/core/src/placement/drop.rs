//! Taking voters away that are too many, or at nodes that are not to have any.

use super::{FIRST_SHARD, NodeId, Planner, Replicas, Role, Step};

impl<'a> Planner<'a> {
    /// Takes away a voter of each shard that has enough others.
    pub(super) fn drop_surplus(&mut self) {
        for replicas in self.free() {
            if self.lacks_voters(replicas) {
                continue;
            }
            let unwanted = self.unwanted(replicas);
            let next = match unwanted.is_empty() {
                false => unwanted.into_iter().find(|voter| self.can_go(replicas, *voter)),
                true => self.one_too_many(replicas),
            };
            if let Some(voter) = next {
                self.drop_voter(replicas, voter);
            }
        }
    }

    fn can_go(&self, replicas: &Replicas, voter: NodeId) -> bool {
        self.standing.has_majority(&replicas.voters, Some(voter))
    }

    /// Voters at nodes that are not to have any; those first that are down and so count for nothing.
    fn unwanted(&self, replicas: &Replicas) -> Vec<NodeId> {
        let voters = || replicas.voters.iter().copied();
        let given_up = voters().filter(|voter| self.standing.is_given_up(*voter));
        let leaving = |up| {
            let standing = &self.standing;
            voters().filter(move |node| standing.is_leaving(*node) && standing.is_up(*node) == up)
        };
        given_up
            .skip(self.seats(replicas.shard).given_up)
            .chain(leaving(false))
            .chain(leaving(true))
            .collect()
    }

    /// The voter whose loss is best for the spread over zones, then for the load of nodes, if there
    /// is one more than wanted. One that is down is waited for.
    fn one_too_many(&self, replicas: &Replicas) -> Option<NodeId> {
        if self.taken(replicas) <= self.seats(replicas.shard).wanted {
            return None;
        }
        let zones = self.zones(replicas);
        let can_go =
            |voter: &NodeId| self.standing.can_take(*voter) && self.can_go(replicas, *voter);
        let voters = replicas.voters.iter().copied().filter(can_go);
        voters.max_by_key(|voter| {
            let in_zone = zones.get(self.standing.zone(*voter)).copied().unwrap_or(0);
            let load = if replicas.shard == FIRST_SHARD { 0 } else { self.load(*voter) };
            (in_zone, load, replicas.leader != Some(*voter), *voter)
        })
    }

    /// Takes a voter away; if it leads, another is to lead first.
    fn drop_voter(&mut self, replicas: &'a Replicas, node: NodeId) {
        let shard = replicas.shard;
        self.loses(shard, node);
        if replicas.leader == Some(node) {
            self.lead_elsewhere(replicas);
        } else if shard == FIRST_SHARD && !self.standing.is_leaving(node) {
            self.step(shard, Step::Place { shard, node, role: Role::Learner });
        } else {
            self.step(shard, Step::Remove { shard, node });
        }
    }
}
