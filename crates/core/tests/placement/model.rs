//! A cluster that does as it is told, and objects to steps that would do harm.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_core::placement::{FIRST_SHARD, Node, NodeId, Replicas, Role, Rules, Step, plan};
use bellwether_core::time::Time;

/// A cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub nodes: BTreeMap<NodeId, Node>,
    pub shards: Vec<Replicas>,
    pub rules: Rules,
    pub now: Time,
}

impl Cluster {
    /// A cluster of one node that has everything: shards 0 to `shards`.
    pub fn new(shards: u16, zone: &str, rules: Rules) -> Cluster {
        let replicas = |shard| Replicas {
            shard,
            voters: BTreeSet::from([1]),
            learners: BTreeSet::new(),
            leader: Some(1),
            behind: BTreeSet::new(),
        };
        let mut cluster = Cluster {
            nodes: BTreeMap::new(),
            shards: (0..=shards).map(replicas).collect(),
            rules,
            now: Time(1_800_000_000_000),
        };
        cluster.join(zone);
        cluster
    }

    /// A cluster of nodes in these zones, after it has followed the plan.
    pub fn grown(shards: u16, zones: &[&str]) -> Cluster {
        let mut cluster = Cluster::new(shards, zones[0], Rules::default());
        for zone in &zones[1..] {
            cluster.join(zone);
        }
        cluster.follow();
        cluster
    }

    pub fn join(&mut self, zone: &str) -> NodeId {
        let id = self.nodes.keys().last().map_or(1, |last| last + 1);
        let node = Node { id, zone: zone.to_owned(), down_since: None, leaving: false };
        self.nodes.insert(id, node);
        id
    }

    pub fn leave(&mut self, node: NodeId) {
        self.nodes.get_mut(&node).unwrap().leaving = true;
    }

    pub fn down(&mut self, node: NodeId) {
        self.nodes.get_mut(&node).unwrap().down_since.get_or_insert(self.now);
        self.elect();
    }

    /// A node is back. It has missed what happened meanwhile.
    pub fn up(&mut self, node: NodeId) {
        if self.nodes.get_mut(&node).unwrap().down_since.take().is_some() {
            let has = |shard: &&mut Replicas| shard.voters.contains(&node);
            self.shards.iter_mut().filter(has).for_each(|shard| _ = shard.behind.insert(node));
        }
        self.elect();
    }

    /// A node has all there is.
    pub fn catch_up(&mut self, node: NodeId) {
        self.shards.iter_mut().for_each(|shard| _ = shard.behind.remove(&node));
    }

    pub fn wait_ms(&mut self, ms: u64) {
        self.now = self.now.plus_ms(ms);
    }

    pub fn is_up(&self, node: NodeId) -> bool {
        self.nodes[&node].down_since.is_none()
    }

    /// Whether it has been down for longer than the rules want to wait.
    pub fn is_given_up(&self, node: NodeId) -> bool {
        let gone = |since| self.now.since_ms(since) >= self.rules.patience_ms;
        self.nodes[&node].down_since.is_some_and(gone)
    }

    /// Nodes that are to have replicas, whether they are up or not.
    pub fn wanted(&self) -> BTreeSet<NodeId> {
        let all = self.nodes.values().filter(|node| !node.leaving && !self.is_given_up(node.id));
        all.map(|node| node.id).collect()
    }

    pub fn zone(&self, node: NodeId) -> &str {
        &self.nodes[&node].zone
    }

    pub fn has_majority(&self, voters: &BTreeSet<NodeId>) -> bool {
        2 * voters.iter().filter(|voter| self.is_up(**voter)).count() > voters.len()
    }

    pub fn plan(&self) -> Vec<Step> {
        let nodes: Vec<Node> = self.nodes.values().cloned().collect();
        plan(&nodes, &self.shards, &self.rules, self.now)
    }

    /// Voters at each node that is wanted, the first shard aside.
    pub fn load(&self) -> BTreeMap<NodeId, usize> {
        let ordinary = || self.shards.iter().filter(|shard| shard.shard != FIRST_SHARD);
        let count = |node| ordinary().filter(|shard| shard.voters.contains(&node)).count();
        self.wanted().into_iter().map(|node| (node, count(node))).collect()
    }

    /// Leaders at each node that is wanted.
    pub fn leads(&self) -> BTreeMap<NodeId, usize> {
        let count = |node| self.shards.iter().filter(|shard| shard.leader == Some(node)).count();
        self.wanted().into_iter().map(|node| (node, count(node))).collect()
    }

    /// Shards whose leader is gone elect another if they can; without a majority none leads.
    fn elect(&mut self) {
        for at in 0..self.shards.len() {
            let shard = &self.shards[at];
            let leads = |leader: &NodeId| self.is_up(*leader) && shard.voters.contains(leader);
            let up: Vec<NodeId> =
                shard.voters.iter().copied().filter(|voter| self.is_up(*voter)).collect();
            let leader = || shard.leader.filter(leads).unwrap_or_else(|| up[at % up.len()]);
            let leader = self.has_majority(&shard.voters).then(leader);
            self.shards[at].leader = leader;
            leader.map(|leader| self.shards[at].behind.remove(&leader));
        }
    }

    /// Follows the plan until it is empty. How many rounds that took.
    pub fn follow(&mut self) -> usize {
        let bound = 60 * (self.shards.len() + 2);
        for round in 0..bound {
            let steps = self.plan();
            if steps.is_empty() {
                return round;
            }
            self.check(&steps);
            steps.into_iter().for_each(|step| self.take(step));
        }
        panic!("no end after {bound} rounds: next would be {:?} of {self:#?}", self.plan());
    }

    /// Nothing in a plan does harm.
    pub fn check(&self, steps: &[Step]) {
        let shards: BTreeSet<u16> = steps.iter().map(|step| shard_of(*step)).collect();
        assert_eq!(shards.len(), steps.len(), "one step for each shard: {steps:?}");
        let leads = steps.iter().filter(|step| matches!(step, Step::Lead { .. })).count();
        assert!(leads <= self.rules.transfers_max, "{steps:?}");
        let copies = |of: &dyn Fn(&Replicas, NodeId) -> bool| {
            let placed = steps.iter().filter(|step| match **step {
                Step::Place { shard, node, .. } => of(&self.shards[usize::from(shard)], node),
                _ => false,
            });
            placed.count()
        };
        let new = |shard: &Replicas, node: NodeId| {
            !shard.voters.contains(&node) && !shard.learners.contains(&node)
        };
        let any = |shard: &Replicas, node: NodeId| new(shard, node) || shard.shard != FIRST_SHARD;
        assert!(copies(&new) == 0 || copies(&any) <= self.rules.copies_max, "{steps:?}");
    }

    /// Takes a step. A replica that is to vote follows first, and votes when it is placed again.
    pub fn take(&mut self, step: Step) {
        self.object(step);
        let shard = &mut self.shards[usize::from(shard_of(step))];
        match step {
            Step::Place { node, role: Role::Voter, .. } => {
                if shard.learners.remove(&node) {
                    shard.voters.insert(node);
                } else {
                    shard.learners.insert(node);
                }
            }
            Step::Place { node, role: Role::Learner, .. } => {
                shard.voters.remove(&node);
                shard.learners.insert(node);
            }
            Step::Remove { node, .. } => {
                shard.voters.remove(&node);
                shard.learners.remove(&node);
                shard.behind.remove(&node);
            }
            Step::Lead { node, .. } => shard.leader = Some(node),
        }
    }

    fn object(&self, step: Step) {
        let shard = &self.shards[usize::from(shard_of(step))];
        assert!(shard.leader.is_some(), "nothing can be done without a leader: {step:?}");
        assert!(self.has_majority(&shard.voters), "nor without a majority: {step:?}");
        let takes = |node| self.is_up(node) && !self.nodes[&node].leaving;
        match step {
            Step::Place { node, role: Role::Learner, .. } if shard.voters.contains(&node) => {
                self.object_to_loss(shard, node);
            }
            Step::Place { node, .. } => {
                assert!(takes(node) && !shard.voters.contains(&node), "{step:?} of {shard:?}");
            }
            Step::Remove { node, .. } if shard.voters.contains(&node) => {
                self.object_to_loss(shard, node);
            }
            Step::Remove { node, .. } => {
                assert!(shard.learners.contains(&node), "{step:?} of {shard:?}");
            }
            Step::Lead { node, .. } => {
                assert!(takes(node) && shard.voters.contains(&node), "{step:?} of {shard:?}");
                assert_ne!(shard.leader, Some(node), "{step:?} of {shard:?}");
                assert!(!shard.behind.contains(&node), "{step:?} of {shard:?}");
            }
        }
    }

    fn object_to_loss(&self, shard: &Replicas, node: NodeId) {
        assert_ne!(shard.leader, Some(node), "the leader of {shard:?} is not removed");
        let mut left = shard.voters.clone();
        left.remove(&node);
        assert!(self.has_majority(&left), "{node} is needed in {shard:?}");
        let gone = self.nodes[&node].leaving || self.is_given_up(node);
        assert!(gone || self.is_up(node), "{node} of {shard:?} may come back");
        let wanted = self.wanted();
        let enough = (self.rules.replicas.max(1) | 1).min(3).min(wanted.len());
        let others = left.intersection(&wanted).count();
        assert!(others >= enough, "{shard:?} has nobody to take the place of {node}");
    }
}

fn shard_of(step: Step) -> u16 {
    match step {
        Step::Place { shard, .. } | Step::Remove { shard, .. } | Step::Lead { shard, .. } => shard,
    }
}
