//! Where the replicas of shards go: the next steps towards a cluster that bears losses well.
//!
//! [`plan`] is asked again and again, by whoever leads shard 0, with what is the case; it keeps
//! nothing in mind. It names a few steps that can be taken now, at most one for each shard, and none
//! if nothing is to be improved. Which of them succeed, and when, shows in what it is told next.
//!
//! ```text
//!   is a leader on a node that leaves?         lead elsewhere
//!   are there voters too many, or unwanted?    lead elsewhere if need be, then remove   (drop)
//!   is a copy under way?                       go on, or give it up                     (copies)
//!   are there too few voters?                  place one                                (seats)
//!   would another place be better?             place one there; one too many follows    (spread)
//!   are leaders uneven?                        lead elsewhere                           (leaders)
//! ```
//!
//! What holds:
//! - A replica is added before another is removed, and none is removed if fewer than a majority of
//!   the voters that are left would be up. Shards without a leader or a majority are left alone.
//! - Voters of a shard are spread over zones as evenly as there are nodes for it. With three zones or
//!   more the loss of one leaves a majority, if need be by having fewer voters than asked for.
//! - A node that is down is not touched until its patience is over, and then only where another
//!   node can take its place. A node that leaves is emptied.
//! - Nobody is to lead a shard before having caught up with it: until then nobody would lead it.
//! - Within these rules nodes have equally many replicas and equally many leaders, give or take one.
//!   Replicas are evened out by single moves, leaders also by chains of moves.
//!
//! That it comes to an end: a move is begun only if it makes the spread over zones more even, or
//! leaves that and makes the load of nodes more even; and of voters that are too many the one goes
//! whose loss is best by the same measure. So the measure never gets worse, and of the moves under way
//! at least one makes it better.
//!
//! Not decided here: how a replica gets its data, and whether a node is up.

mod drop;
mod leaders;
mod seats;
mod spread;
mod standing;

use std::collections::{BTreeMap, BTreeSet};

use crate::time::{MINUTE_MS, Time};
use crate::waist::Shard;

use seats::Seats;
use standing::Standing;

/// A node's number.
pub type NodeId = u64;

/// The shard of which every node has a replica: it holds what all must know.
pub const FIRST_SHARD: Shard = 0;

/// A node of the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its number.
    pub id: NodeId,
    /// What it shares the risk of failing with. Nodes that name none share one.
    pub zone: String,
    /// Since when it has been down; `None` while it is up.
    pub down_since: Option<Time>,
    /// Whether it is to be emptied.
    pub leaving: bool,
}

/// Who has replicas of a shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replicas {
    /// The shard.
    pub shard: Shard,
    /// Nodes that vote.
    pub voters: BTreeSet<NodeId>,
    /// Nodes that only follow: on their way to voting, except for those of the first shard.
    pub learners: BTreeSet<NodeId>,
    /// The voter that leads, if there is one.
    pub leader: Option<NodeId>,
    /// Voters that have yet to catch up, and until then do not lead.
    pub behind: BTreeSet<NodeId>,
}

/// What is wanted, and how much of it at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// How many voters a shard is to have. An even number counts as the next odd one, which bears
    /// more losses.
    pub replicas: usize,
    /// How many voters the first shard is to have, if not more of them are wanted of all; the other
    /// nodes follow it.
    pub first_shard_voters: usize,
    /// How long a node may be down before it is replaced.
    pub patience_ms: u64,
    /// How many shards may be copied at the same time.
    pub copies_max: usize,
    /// How many leaders may be moved in one plan.
    pub transfers_max: usize,
    /// Whether nodes are to have equally much: not while it is not known how all shards stand.
    pub even_out: bool,
}

/// Replicas of a shard, unless nodes want more or fewer.
pub const REPLICAS: usize = 3;

impl Rules {
    /// What is wanted, where nodes want so many replicas: the highest that any of them does, so that
    /// all agree on it, and while they are given another number one after the other no shard has
    /// fewer than both.
    #[must_use]
    pub fn wanted_by(nodes: impl IntoIterator<Item = u32>) -> Rules {
        let wanted = nodes.into_iter().filter(|replicas| *replicas > 0).max();
        Rules { replicas: wanted.map_or(REPLICAS, |wanted| wanted as usize), ..Rules::default() }
    }
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            replicas: REPLICAS,
            first_shard_voters: 5,
            patience_ms: 10 * MINUTE_MS,
            copies_max: 2,
            transfers_max: 8,
            even_out: true,
        }
    }
}

/// What a replica does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Role {
    /// It counts for the majority, and may lead.
    Voter,
    /// It only follows.
    Learner,
}

/// Something to do next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Step {
    /// Let a node have a replica in a role. One that is to vote follows first, until it has caught
    /// up; while it does, the step is named again, and taking it again goes on with it. A voter that
    /// is to follow keeps its data.
    Place {
        /// The shard.
        shard: Shard,
        /// Where.
        node: NodeId,
        /// As what.
        role: Role,
    },
    /// Take a replica away from a node, which does not lead it.
    Remove {
        /// The shard.
        shard: Shard,
        /// Where.
        node: NodeId,
    },
    /// Hand the leadership to a voter that is up and not behind.
    Lead {
        /// The shard.
        shard: Shard,
        /// To whom.
        node: NodeId,
    },
}

/// The steps to take next, at most one for each shard. The same arguments give the same steps.
#[must_use]
pub fn plan(nodes: &[Node], shards: &[Replicas], rules: &Rules, now: Time) -> Vec<Step> {
    let standing = Standing::of(nodes, rules, now);
    if standing.takers().next().is_none() {
        return Vec::new();
    }
    let mut planner = Planner::new(standing, shards, rules);
    planner.leave_leaderships();
    planner.drop_surplus();
    planner.go_on_copying();
    planner.fill_seats();
    planner.follow_first_shard();
    if rules.even_out {
        planner.spread();
        planner.balance_leaders();
    }
    planner.steps.into_values().collect()
}

/// How many voters a shard is to have, as nodes are now: the first one, and any other. Fewer than the
/// rules ask for where there are too few nodes, or zones too uneven.
#[must_use]
pub fn voters_wanted(nodes: &[Node], rules: &Rules, now: Time) -> (usize, usize) {
    let standing = Standing::of(nodes, rules, now);
    (Seats::first(&standing, rules).wanted, Seats::ordinary(&standing, rules).wanted)
}

/// A plan in the making, and how things will be once it has been followed.
struct Planner<'a> {
    standing: Standing<'a>,
    rules: &'a Rules,
    /// Shards in which something can be changed, by number: those with a majority and a leader.
    shards: BTreeMap<Shard, &'a Replicas>,
    steps: BTreeMap<Shard, Step>,
    /// Voters at each node, those of the first shard aside, of which every node has one.
    load: BTreeMap<NodeId, usize>,
    /// Leaders at each node.
    leads: BTreeMap<NodeId, usize>,
    /// Copies under way.
    copies: usize,
    /// Leaders that are moved.
    transfers: usize,
    ordinary_seats: Seats,
    first_seats: Seats,
}

impl<'a> Planner<'a> {
    fn new(standing: Standing<'a>, all: &'a [Replicas], rules: &'a Rules) -> Planner<'a> {
        let (mut load, mut leads) = (BTreeMap::new(), BTreeMap::new());
        for replicas in all {
            for voter in replicas.voters.iter().filter(|_| replicas.shard != FIRST_SHARD) {
                *load.entry(*voter).or_default() += 1;
            }
            if let Some(leader) = replicas.leader {
                *leads.entry(leader).or_default() += 1;
            }
        }
        let movable = |replicas: &&Replicas| {
            let led = |leader| standing.is_up(leader) && replicas.voters.contains(&leader);
            replicas.leader.is_some_and(led) && standing.has_majority(&replicas.voters, None)
        };
        let shards = all.iter().filter(movable).map(|replicas| (replicas.shard, replicas));
        let shards = shards.collect();
        let ordinary_seats = Seats::ordinary(&standing, rules);
        let first_seats = Seats::first(&standing, rules);
        Planner {
            standing,
            rules,
            shards,
            steps: BTreeMap::new(),
            load,
            leads,
            copies: 0,
            transfers: 0,
            ordinary_seats,
            first_seats,
        }
    }

    /// The shards for which there is no step yet.
    fn free(&self) -> Vec<&'a Replicas> {
        let free = self.shards.values().filter(|shard| !self.steps.contains_key(&shard.shard));
        free.copied().collect()
    }

    fn step(&mut self, shard: Shard, step: Step) {
        self.steps.insert(shard, step);
    }

    fn seats(&self, shard: Shard) -> Seats {
        if shard == FIRST_SHARD { self.first_seats } else { self.ordinary_seats }
    }

    fn load(&self, node: NodeId) -> usize {
        self.load.get(&node).copied().unwrap_or(0)
    }

    /// Counts with one voter more at a node.
    fn gains(&mut self, shard: Shard, node: NodeId) {
        if shard != FIRST_SHARD {
            *self.load.entry(node).or_default() += 1;
        }
    }

    /// Counts with one voter less at a node.
    fn loses(&mut self, shard: Shard, node: NodeId) {
        if shard != FIRST_SHARD
            && let Some(load) = self.load.get_mut(&node)
        {
            *load = load.saturating_sub(1);
        }
    }
}
