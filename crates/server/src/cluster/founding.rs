//! Who begins a cluster, when all of its nodes are given the same list of nodes to join.
//!
//! A node without data cannot tell a cluster that has yet to begin from one in which it lost its disk. So only
//! the first of the list begins one, and only if every other of the list says, at the same time, that it
//! has no data either and waits with the very same list. Whoever has data, or does not answer, may belong to
//! a cluster: then nobody begins another.
//!
//! ```text
//!   first                second, third
//!     │── Join ────────────►│   no data, the same list
//!     │◄──────── Waiting ───│
//!     ├ begins the cluster  │
//!     │◄─────────── Join ───│
//!     │── Welcome ─────────►│
//! ```

use bellwether_protocol::node::v1;

use crate::peering::PeerAddress;

/// A node without data that wants to join.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// Where it says that it is reached.
    pub address: PeerAddress,
    /// Whom it asks, in the order in which it was told.
    pub nodes: Vec<PeerAddress>,
}

/// Addresses, as they are given.
pub fn listed(addresses: &[PeerAddress]) -> String {
    addresses.iter().map(PeerAddress::to_string).collect::<Vec<_>>().join(",")
}

impl Waiting {
    /// Whether it is itself in its list.
    pub fn is_listed(&self) -> bool {
        self.nodes.contains(&self.address)
    }

    /// The others of its list.
    pub fn others(&self) -> Vec<&PeerAddress> {
        let mut others: Vec<&PeerAddress> = Vec::new();
        for node in &self.nodes {
            if *node != self.address && !others.contains(&node) {
                others.push(node);
            }
        }
        others
    }

    /// Whether it begins the cluster, by what the others have just said.
    pub fn begins(&self, said: &[(&PeerAddress, &Waiting)]) -> bool {
        let others = self.others();
        let waits = |other: &&PeerAddress| {
            said.iter().any(|(asked, said)| asked == other && self.objection(asked, said).is_none())
        };
        self.nodes.first() == Some(&self.address) && !others.is_empty() && others.iter().all(waits)
    }

    /// Why no cluster can begin with a node that waits at an address, if so.
    pub fn objection(&self, asked: &PeerAddress, said: &Waiting) -> Option<String> {
        if said.nodes != self.nodes {
            let (theirs, ours) = (listed(&said.nodes), listed(&self.nodes));
            return Some(format!(
                "it has --join {theirs} and this node --join {ours}, and a cluster begins only \
                 where all have the same, in the same order"
            ));
        }
        (said.address != *asked).then(|| {
            format!("it is reached at {}, as it says, and --join must name it so", said.address)
        })
    }

    /// For others.
    pub fn encode(&self) -> v1::Waiting {
        v1::Waiting {
            address: Some(self.address.to_string()),
            nodes: self.nodes.iter().map(PeerAddress::to_string).collect(),
        }
    }

    /// What another says; `None` if it makes no sense.
    pub fn decode(said: v1::Waiting) -> Option<Waiting> {
        let nodes = said.nodes.iter().map(|node| node.parse());
        Some(Waiting {
            address: said.address?.parse().ok()?,
            nodes: nodes.collect::<Result<_, _>>().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn waiting(address: &str, nodes: &str) -> Waiting {
        let nodes = nodes.split(',').filter(|node| !node.is_empty());
        let nodes = nodes.map(|node| node.parse().unwrap()).collect();
        Waiting { address: address.parse().unwrap(), nodes }
    }

    /// Whether `a` begins a cluster of a, b and c, by what is said at some addresses.
    fn begins(said: &[(&str, Waiting)]) -> bool {
        let asked: Vec<PeerAddress> = said.iter().map(|(at, _)| at.parse().unwrap()).collect();
        let said: Vec<_> = asked.iter().zip(said.iter().map(|(_, said)| said)).collect();
        waiting("a", "a,b,c").begins(&said)
    }

    #[test]
    fn r126_the_first_begins_when_all_others_wait_with_the_same_list() {
        let waits = |node: &str| waiting(node, "a,b,c");
        assert!(begins(&[("b", waits("b")), ("c", waits("c"))]));
        assert!(!begins(&[]), "nobody answers");
        assert!(!begins(&[("b", waits("b"))]), "c may have a cluster");
        assert!(!begins(&[("b", waits("b")), ("b", waits("b"))]));
        // Whoever has another list may think that another is the first.
        for list in ["b,a,c", "a,b", "a,b,c,d", "a,c,b", ""] {
            assert!(!begins(&[("b", waiting("b", list)), ("c", waits("c"))]), "{list}");
        }
        // Two names of one node are one node.
        assert!(!begins(&[("b", waits("b")), ("c", waits("b"))]));
        assert!(!begins(&[("b", waits("a")), ("c", waits("a"))]));
    }

    #[test]
    fn r126_nobody_but_the_first_begins() {
        let (a, b, c) = (waiting("a", "a,b,c"), waiting("b", "a,b,c"), waiting("c", "a,b,c"));
        assert!(!b.begins(&[(&a.address, &a), (&c.address, &c)]));
        assert!(b.is_listed() && a.is_listed());
        let d = waiting("d", "a,b,c");
        assert!(!d.is_listed());
        assert!(!d.begins(&[(&a.address, &a), (&b.address, &b), (&c.address, &c)]));
        assert!(!waiting("a", "a").begins(&[]), "one alone is not asked by anybody");
    }

    #[test]
    fn what_is_said_is_understood() {
        let said = waiting("a", "a,[::1]:9,b:7");
        assert_eq!(Waiting::decode(said.encode()), Some(said.clone()));
        assert_eq!(said.others(), [&said.nodes[1], &said.nodes[2]]);
        assert_eq!(waiting("a", "b,a,b").others().len(), 1);
        assert_eq!(Waiting::decode(v1::Waiting::default()), None);
    }
}
