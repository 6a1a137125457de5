//! The nodes of the cluster, as this one knows them: what is stored about them, and what they last
//! said of themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bellwether_core::record::{NodeRow, NodeState};
use bellwether_core::waist::Shard;
use parking_lot::Mutex;

use super::clocks;
use super::wire::attend::{Said, SaidOfReplica};

/// A node that is silent for longer counts as down.
pub const SILENT_MAX: Duration = Duration::from_secs(3);
/// What its clock said counts for as long.
const CLOCK_KNOWN_FOR: Duration = Duration::from_secs(10);

/// What is known of a node.
#[derive(Clone, Debug)]
pub struct Known {
    /// What is stored about it.
    pub row: NodeRow,
    /// When it was last heard, and what it said.
    pub heard: Option<(Instant, Said)>,
    /// When this node asked it that it last answered, by the clock of leases.
    pub asked_ms: Option<u64>,
    /// By how many milliseconds its clock was ahead of this node's for certain, when that was last known.
    clock: Option<(Instant, i64)>,
    /// Whether it has been told that its clock is off.
    clock_off: bool,
    /// Where others hear it, if this node does not.
    elsewhere: Option<String>,
    /// Since when it is down; since it was first known, if it was never heard.
    since: Instant,
}

impl Known {
    /// Whether it has been heard lately.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.heard.as_ref().is_some_and(|(at, _)| at.elapsed() <= SILENT_MAX)
    }

    /// Whether it has been heard lately, and is not about to stop.
    #[must_use]
    pub fn stays(&self) -> bool {
        self.is_up() && self.heard.as_ref().is_some_and(|(_, said)| !said.stopping)
    }

    /// Whether a worker is connected to it, as it last said.
    fn has(&self, worker: &str) -> bool {
        let said = self.heard.as_ref().map(|(_, said)| said);
        said.is_some_and(|said| said.workers.iter().any(|(name, _, _)| &**name == worker))
    }

    /// What is stored about it, but where it is reached really.
    fn moved(&self, stored: NodeRow) -> NodeRow {
        match (&self.heard, &self.elsewhere) {
            (Some((_, said)), _) if self.is_up() => NodeRow {
                peer_address: said.row.peer_address.clone(),
                api_address: said.row.api_address.clone(),
                zone: said.row.zone.clone(),
                ..stored
            },
            (_, Some(address)) => NodeRow { peer_address: address.clone(), ..stored },
            _ => stored,
        }
    }

    /// By how many milliseconds its clock is ahead of this node's for certain, as far as is known.
    #[must_use]
    pub fn clock_ahead_ms(&self) -> i64 {
        let lately = self.clock.filter(|(at, _)| at.elapsed() <= CLOCK_KNOWN_FOR);
        lately.map_or(0, |(_, ahead_ms)| ahead_ms)
    }

    /// How long it has been silent.
    #[must_use]
    pub fn silent(&self) -> Duration {
        self.heard.as_ref().map_or(self.since, |(at, _)| *at).elapsed()
    }
}

/// All nodes but this one.
#[derive(Default)]
pub struct Book {
    nodes: Mutex<BTreeMap<u64, Known>>,
    /// Those that were removed. They are not heard any more, whatever they say.
    removed: Mutex<BTreeSet<u64>>,
}

impl Book {
    /// Notes what is stored about nodes. Those that have left are forgotten.
    pub fn set_rows(&self, own: u64, rows: Vec<NodeRow>) {
        let mut nodes = self.nodes.lock();
        for row in rows.into_iter().filter(|row| row.node != own) {
            if row.state() == NodeState::Gone {
                nodes.remove(&row.node);
                self.removed.lock().insert(row.node);
            } else {
                let row = match nodes.get(&row.node) {
                    Some(known) => known.moved(row),
                    None => row,
                };
                note(&mut nodes, row);
            }
        }
    }

    /// A node has been heard. Whether it belongs to the cluster: one that was removed does not.
    pub fn heard(&self, said: Said) -> bool {
        let mut nodes = self.nodes.lock();
        if self.removed.lock().contains(&said.row.node) {
            return false;
        }
        let mut row = said.row.clone();
        // Whether it is to leave it may be the last to know.
        if let Some(known) = nodes.get(&row.node) {
            row.state = known.row.state;
        }
        for other in &said.hears {
            if let Some(known) = nodes.get_mut(&other.node)
                && !known.is_up()
            {
                known.elsewhere = Some(other.peer_address.clone());
                known.row.peer_address.clone_from(&other.peer_address);
            }
        }
        let known = note(&mut nodes, row);
        known.elsewhere = None;
        known.heard = Some((Instant::now(), said));
        true
    }

    /// A node has answered this one, and maybe let it know by how much its clock is ahead.
    pub fn answered(&self, node: u64, asked_ms: u64, clock_ahead_ms: Option<i64>) {
        if let Some(known) = self.nodes.lock().get_mut(&node) {
            known.asked_ms = known.asked_ms.max(Some(asked_ms));
            if let Some(ahead_ms) = clock_ahead_ms {
                let is_off = clocks::is_off(known.clock_off, ahead_ms);
                if is_off != known.clock_off {
                    clocks::tell(&known.row.name, is_off, ahead_ms);
                }
                known.clock_off = is_off;
                known.clock = Some((Instant::now(), ahead_ms));
            }
        }
    }

    /// What is known of a node.
    #[must_use]
    pub fn get(&self, node: u64) -> Option<Known> {
        self.nodes.lock().get(&node).cloned()
    }

    /// Whether there is nobody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.lock().is_empty()
    }

    /// Everybody.
    #[must_use]
    pub fn all(&self) -> Vec<Known> {
        self.nodes.lock().values().cloned().collect()
    }

    /// Where a node is reached.
    #[must_use]
    pub fn address(&self, node: u64) -> Option<String> {
        self.nodes.lock().get(&node).map(|known| known.row.peer_address.clone())
    }

    /// Whether a worker is connected to a node that is up.
    #[must_use]
    pub fn has_worker(&self, worker: &str) -> bool {
        let nodes = self.nodes.lock();
        nodes.values().any(|known| known.is_up() && known.has(worker))
    }

    /// The nodes that are up to which a worker is connected, by number.
    #[must_use]
    pub fn nodes_with(&self, worker: &str) -> Vec<u64> {
        let nodes = self.nodes.lock();
        let up = nodes.values().filter(|known| known.is_up());
        up.filter(|known| known.has(worker)).map(|known| known.row.node).collect()
    }

    /// The node of the lowest number that is up and stays, and to which a worker is connected.
    #[must_use]
    pub fn seat_of(&self, worker: &str) -> Option<u64> {
        let nodes = self.nodes.lock();
        let staying = nodes.values().filter(|known| known.stays());
        staying.filter(|known| known.has(worker)).map(|known| known.row.node).next()
    }

    /// The workers that are connected to nodes that are up and stay, each with the node of the lowest
    /// number.
    #[must_use]
    pub fn seats(&self) -> BTreeMap<Arc<str>, u64> {
        let nodes = self.nodes.lock();
        let mut seats = BTreeMap::new();
        for known in nodes.values().filter(|known| known.stays()) {
            for (name, _, _) in known.heard.iter().flat_map(|(_, said)| &said.workers) {
                seats.entry(name.clone()).or_insert(known.row.node);
            }
        }
        seats
    }

    /// What the nodes that are up say of their replicas of a shard.
    #[must_use]
    pub fn replicas(&self, shard: Shard) -> Vec<(u64, SaidOfReplica)> {
        let nodes = self.nodes.lock();
        let up = nodes.values().filter(|known| known.is_up());
        up.filter_map(|known| {
            let (_, said) = known.heard.as_ref()?;
            let replica = said.replicas.iter().find(|replica| replica.shard == shard)?;
            Some((known.row.node, replica.clone()))
        })
        .collect()
    }

    /// Who leads a shard, as the newest of its replicas elsewhere say.
    #[must_use]
    pub fn leader(&self, shard: Shard) -> Option<u64> {
        let said = self.replicas(shard).into_iter().map(|(_, replica)| replica);
        said.filter(|replica| replica.leader.is_some()).max_by_key(|r| r.term)?.leader
    }
}

fn note(nodes: &mut BTreeMap<u64, Known>, row: NodeRow) -> &mut Known {
    let known = nodes.entry(row.node).or_insert_with(|| Known {
        row: row.clone(),
        heard: None,
        asked_ms: None,
        clock: None,
        clock_off: false,
        elsewhere: None,
        since: Instant::now(),
    });
    known.row = row;
    known
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bellwether_core::time::Time;

    use super::*;

    fn row(state: NodeState) -> NodeRow {
        let mut row = NodeRow { node: 2, name: "b".to_owned(), ..NodeRow::default() };
        row.set_state(state);
        row
    }

    fn said() -> Said {
        Said {
            row: row(NodeState::Member),
            started: Time(0),
            version: String::new(),
            disk_bytes: 0,
            log_bytes: 0,
            replicas: Vec::new(),
            stopping: false,
            removed: false,
            leaving: false,
            hears: Vec::new(),
            workers: Vec::new(),
            queues: Vec::new(),
            clock: None,
        }
    }

    fn at(address: &str) -> NodeRow {
        NodeRow { peer_address: address.to_owned(), ..row(NodeState::Member) }
    }

    #[test]
    fn r126_a_node_is_where_it_says_then_where_others_hear_it_then_where_it_was() {
        let book = Book::default();
        let address = || book.get(2).unwrap().row.peer_address;
        book.set_rows(1, vec![at("old")]);
        assert_eq!(address(), "old");
        let third = NodeRow { node: 3, ..row(NodeState::Member) };
        book.heard(Said { row: third, hears: vec![at("heard")], ..said() });
        book.set_rows(1, vec![at("old")]);
        assert_eq!(address(), "heard");
        book.heard(Said { row: at("new"), ..said() });
        book.set_rows(1, vec![at("old")]);
        assert_eq!(address(), "new", "it has not been stored yet");
    }

    #[test]
    fn r126_a_node_that_does_not_know_that_it_leaves_leaves_all_the_same() {
        let book = Book::default();
        assert!(book.heard(said()));
        book.set_rows(1, vec![row(NodeState::Leaving)]);
        assert!(book.heard(said()));
        assert_eq!(book.get(2).unwrap().row.state(), NodeState::Leaving);
    }

    #[test]
    fn r126_a_node_that_was_removed_is_not_heard_any_more() {
        let book = Book::default();
        assert!(book.heard(said()));
        book.set_rows(1, vec![row(NodeState::Gone)]);
        assert!(!book.heard(said()));
        assert!(book.is_empty());
    }

    #[test]
    fn r21_a_worker_with_two_seats_has_the_one_of_the_lowest_node_that_stays() {
        let book = Book::default();
        let says = |node: u64, stopping: bool| {
            let worker = (Arc::from("p"), Default::default(), bellwether_core::turn::Demand::NONE);
            let row = NodeRow { node, ..row(NodeState::Member) };
            book.heard(Said { row, stopping, workers: vec![worker], ..said() });
        };
        assert_eq!(book.seat_of("p"), None);
        says(3, false);
        says(2, false);
        assert_eq!((book.seat_of("p"), book.nodes_with("p")), (Some(2), vec![2, 3]));
        says(2, true);
        assert_eq!((book.seat_of("p"), book.nodes_with("p")), (Some(3), vec![2, 3]));
        assert_eq!(book.seats(), BTreeMap::from([(Arc::from("p"), 3)]));
        assert_eq!(book.seat_of("q"), None);
    }
}
