//! The nodes of the cluster, as this one knows them: what is stored about them, and what they last
//! said of themselves.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bellwether_core::record::{NodeRow, NodeState};
use bellwether_core::waist::Shard;
use parking_lot::Mutex;

use super::wire::attend::{Said, SaidOfReplica};

/// A node that is silent for longer counts as down.
pub const SILENT_MAX: Duration = Duration::from_secs(3);

/// What is known of a node.
#[derive(Clone, Debug)]
pub struct Known {
    /// What is stored about it.
    pub row: NodeRow,
    /// When it was last heard, and what it said.
    pub heard: Option<(Instant, Said)>,
    /// When it last answered this node.
    pub answered: Option<Instant>,
    /// Since when it is down; since it was first known, if it was never heard.
    since: Instant,
}

impl Known {
    /// Whether it has been heard lately.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.heard.as_ref().is_some_and(|(at, _)| at.elapsed() <= SILENT_MAX)
    }

    /// How long it has been silent.
    #[must_use]
    pub fn silent(&self) -> Duration {
        self.heard.as_ref().map_or(self.since, |(at, _)| *at).elapsed()
    }
}

/// All nodes but this one.
#[derive(Default)]
pub struct Book(Mutex<BTreeMap<u64, Known>>);

impl Book {
    /// Notes what is stored about nodes. Those that have left are forgotten.
    pub fn set_rows(&self, own: u64, rows: Vec<NodeRow>) {
        let mut nodes = self.0.lock();
        for row in rows.into_iter().filter(|row| row.node != own) {
            if row.state() == NodeState::Gone {
                nodes.remove(&row.node);
            } else {
                note(&mut nodes, row);
            }
        }
    }

    /// A node has been heard.
    pub fn heard(&self, said: Said) {
        let mut nodes = self.0.lock();
        let known = note(&mut nodes, said.row.clone());
        known.heard = Some((Instant::now(), said));
    }

    /// A node has answered this one.
    pub fn answered(&self, node: u64) {
        if let Some(known) = self.nodes.lock().get_mut(&node) {
            known.answered = Some(Instant::now());
        }
    }

    /// What is known of a node.
    #[must_use]
    pub fn get(&self, node: u64) -> Option<Known> {
        self.0.lock().get(&node).cloned()
    }

    /// Whether there is nobody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Everybody.
    #[must_use]
    pub fn all(&self) -> Vec<Known> {
        self.0.lock().values().cloned().collect()
    }

    /// Where a node is reached.
    #[must_use]
    pub fn address(&self, node: u64) -> Option<String> {
        self.0.lock().get(&node).map(|known| known.row.peer_address.clone())
    }

    /// What the nodes that are up say of their replicas of a shard.
    #[must_use]
    pub fn replicas(&self, shard: Shard) -> Vec<(u64, SaidOfReplica)> {
        let nodes = self.0.lock();
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
        answered: None,
        since: Instant::now(),
    });
    known.row = row;
    known
}
