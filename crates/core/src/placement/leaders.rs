//! Who leads: nobody who leaves, and everybody else equally often, give or take one.

use std::collections::{BTreeMap, VecDeque};

use super::{NodeId, Planner, Replicas, Step};

impl<'a> Planner<'a> {
    /// Lets others lead what is led from nodes that leave.
    pub(super) fn leave_leaderships(&mut self) {
        for replicas in self.free() {
            if replicas.leader.is_some_and(|leader| self.standing.is_leaving(leader)) {
                self.lead_elsewhere(replicas);
            }
        }
    }

    /// Lets that other voter lead which leads least, if there is one.
    pub(super) fn lead_elsewhere(&mut self, replicas: &'a Replicas) {
        let others = self.can_lead(replicas).filter(|node| Some(*node) != replicas.leader);
        let least = others.min_by_key(|node| (self.leads(*node), *node));
        if let Some(node) = least {
            self.lead(replicas, node);
        }
    }

    /// Evens out leaders: where a leader cannot go directly to a node that leads less, each of a chain
    /// of leaders makes room for another.
    pub(super) fn balance_leaders(&mut self) {
        while self.transfers < self.rules.transfers_max
            && let Some(chain) = self.chain()
        {
            // The end of the chain makes room first, so that half a chain does no harm.
            for (replicas, node) in chain.into_iter().rev() {
                self.lead(replicas, node);
            }
        }
    }

    fn lead(&mut self, replicas: &'a Replicas, node: NodeId) {
        if self.transfers == self.rules.transfers_max {
            return;
        }
        self.transfers += 1;
        if let Some(leads) = replicas.leader.and_then(|leader| self.leads.get_mut(&leader)) {
            *leads = leads.saturating_sub(1);
        }
        *self.leads.entry(node).or_default() += 1;
        self.step(replicas.shard, Step::Lead { shard: replicas.shard, node });
    }

    fn leads(&self, node: NodeId) -> usize {
        self.leads.get(&node).copied().unwrap_or(0)
    }

    fn can_lead(&self, replicas: &'a Replicas) -> impl Iterator<Item = NodeId> {
        let voters = replicas.voters.difference(&replicas.behind).copied();
        voters.filter(|node| self.standing.can_take(*node))
    }

    /// The shortest chain of moves from a node that leads most to one that leads at least two fewer.
    fn chain(&self) -> Option<Vec<(&'a Replicas, NodeId)>> {
        let mut led: BTreeMap<NodeId, Vec<&'a Replicas>> = BTreeMap::new();
        for replicas in self.free() {
            if let Some(leader) = replicas.leader.filter(|leader| self.standing.can_take(*leader)) {
                led.entry(leader).or_default().push(replicas);
            }
        }
        let mut from: Vec<NodeId> = led.keys().copied().collect();
        from.sort_by_key(|node| (std::cmp::Reverse(self.leads(*node)), *node));
        from.into_iter().find_map(|from| self.chain_from(from, &led))
    }

    fn chain_from(
        &self,
        from: NodeId,
        led: &BTreeMap<NodeId, Vec<&'a Replicas>>,
    ) -> Option<Vec<(&'a Replicas, NodeId)>> {
        // Who passes which shard on to a node.
        let mut reached: BTreeMap<NodeId, Option<(NodeId, &'a Replicas)>> =
            BTreeMap::from([(from, None)]);
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            if self.leads(node) + 2 <= self.leads(from) {
                return Some(walk_back(node, &reached));
            }
            for replicas in led.get(&node).into_iter().flatten() {
                for next in self.can_lead(replicas) {
                    reached.entry(next).or_insert_with(|| {
                        queue.push_back(next);
                        Some((node, replicas))
                    });
                }
            }
        }
        None
    }
}

/// The moves that lead to a node, in order.
fn walk_back<'a>(
    mut node: NodeId,
    reached: &BTreeMap<NodeId, Option<(NodeId, &'a Replicas)>>,
) -> Vec<(&'a Replicas, NodeId)> {
    let mut moves = Vec::new();
    while let Some(Some((before, replicas))) = reached.get(&node) {
        moves.push((*replicas, node));
        node = *before;
    }
    moves.reverse();
    moves
}
