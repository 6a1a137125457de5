//! How nodes stand: who is up, who is to stay, and what they share.

use std::collections::{BTreeMap, BTreeSet};

use super::{Node, NodeId, Rules};
use crate::time::Time;

/// Whether replicas are wanted at a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stay {
    /// They are.
    Wanted,
    /// It has been down for so long that others take its place, if there are any.
    GivenUp,
    /// It is to be emptied.
    Leaving,
}

struct Known<'a> {
    zone: &'a str,
    up: bool,
    stay: Stay,
}

/// How nodes stand. One that is not known is down and leaving.
pub(super) struct Standing<'a> {
    nodes: BTreeMap<NodeId, Known<'a>>,
}

impl<'a> Standing<'a> {
    pub(super) fn of(nodes: &'a [Node], rules: &Rules, now: Time) -> Standing<'a> {
        let known = |node: &'a Node| {
            let gone = |since: Time| now.since_ms(since) >= rules.patience_ms;
            let stay = match node.down_since {
                _ if node.leaving => Stay::Leaving,
                Some(since) if gone(since) => Stay::GivenUp,
                _ => Stay::Wanted,
            };
            (node.id, Known { zone: &node.zone, up: node.down_since.is_none(), stay })
        };
        Standing { nodes: nodes.iter().map(known).collect() }
    }

    pub(super) fn is_up(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|known| known.up)
    }

    /// Whether it is neither leaving nor given up. It may be down.
    pub(super) fn is_wanted(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|known| known.stay == Stay::Wanted)
    }

    pub(super) fn is_given_up(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|known| known.stay == Stay::GivenUp)
    }

    pub(super) fn is_leaving(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_none_or(|known| known.stay == Stay::Leaving)
    }

    /// Whether it can take a replica or a leadership.
    pub(super) fn can_take(&self, node: NodeId) -> bool {
        self.is_up(node) && self.is_wanted(node)
    }

    /// Those that can take a replica or a leadership, by number.
    pub(super) fn takers(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.keys().copied().filter(|node| self.can_take(*node))
    }

    /// What it shares the risk of failing with.
    pub(super) fn zone(&self, node: NodeId) -> &'a str {
        self.nodes.get(&node).map_or("", |known| known.zone)
    }

    /// How many nodes are wanted in each zone.
    pub(super) fn zone_sizes(&self) -> Vec<usize> {
        let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
        for known in self.nodes.values().filter(|known| known.stay == Stay::Wanted) {
            *sizes.entry(known.zone).or_default() += 1;
        }
        sizes.into_values().collect()
    }

    /// Whether a majority of these voters is up, if one of them is left out.
    pub(super) fn has_majority(&self, voters: &BTreeSet<NodeId>, without: Option<NodeId>) -> bool {
        let left = || voters.iter().filter(|voter| Some(**voter) != without);
        let up = left().filter(|voter| self.is_up(**voter)).count();
        2 * up > left().count()
    }
}
