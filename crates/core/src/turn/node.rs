//! The nodes of the cluster. They are kept in shard 0, like everything that belongs to no shard.
//!
//! What is kept here is who belongs to the cluster and how they are reached. Which node has replicas
//! of which shards is for each shard's group to know, and where they should be for `placement` to say.

use super::{Halt, NodeChange, Rejection, RejectionKind, Reply, Turn};
use crate::key;
use crate::record::{self, Audit, NodeRow, NodeState};
use crate::waist::Family;

impl Turn<'_> {
    pub(super) fn change_node(&mut self, actor: &str, change: NodeChange) -> Result<Reply, Halt> {
        match change {
            NodeChange::Join(row) => self.join(actor, row),
            NodeChange::Introduce(row) => self.introduce(row),
            NodeChange::Leave(node) => self.set_node_state(actor, node, NodeState::Leaving),
            NodeChange::Forget(node) => self.set_node_state(actor, node, NodeState::Gone),
        }
    }

    fn nodes(&mut self) -> Result<Vec<NodeRow>, Halt> {
        let rows = self.store.scan(Family::Meta, &key::nodes(self.memory.shard), usize::MAX)?;
        let rows = rows.into_iter().map(|(_, value)| Ok(record::decode("node", value)?));
        rows.collect()
    }

    fn join(&mut self, actor: &str, mut row: NodeRow) -> Result<Reply, Halt> {
        let nodes = self.nodes()?;
        if nodes.is_empty() {
            return Err(begins().into());
        }
        if let Some(known) = nodes.iter().find(|known| asks_again(&row, known)) {
            return self.join_again(row, known, &nodes);
        }
        row.node = nodes.iter().map(|node| node.node).max().unwrap_or(0) + 1;
        row.name = free_name(&row, &nodes);
        row.joined_ms = self.now.0;
        row.set_state(NodeState::Member);
        self.note_node(actor, "node.join", &row);
        let (node, name) = (row.node, row.name.clone());
        self.put_node(&row);
        Ok(Reply::Node(node, name))
    }

    /// A node that has not heard that it was let in is told so again.
    fn join_again(
        &mut self,
        mut row: NodeRow,
        known: &NodeRow,
        nodes: &[NodeRow],
    ) -> Result<Reply, Halt> {
        row.node = known.node;
        row.name = free_name(&row, nodes);
        row.joined_ms = known.joined_ms;
        row.state = known.state;
        if row != *known {
            self.put_node(&row);
        }
        Ok(Reply::Node(row.node, row.name))
    }

    fn introduce(&mut self, mut row: NodeRow) -> Result<Reply, Halt> {
        let nodes = self.nodes()?;
        row.name = free_name(&row, &nodes);
        match nodes.iter().find(|node| node.node == row.node) {
            Some(known) if known.state() == NodeState::Gone => return Err(gone(known).into()),
            Some(known) => {
                row.joined_ms = known.joined_ms;
                row.state = known.state;
                // It knows its number. Whoever comes with that id from here on is a copy of what its
                // disk was before, and must not become the same node without what that has by now.
                row.join_id.clear();
                if row == *known {
                    return Ok(Reply::Node(row.node, row.name));
                }
            }
            None => {
                row.joined_ms = self.now.0;
                row.set_state(NodeState::Member);
            }
        }
        let (node, name) = (row.node, row.name.clone());
        self.put_node(&row);
        Ok(Reply::Node(node, name))
    }

    fn set_node_state(&mut self, actor: &str, node: u64, state: NodeState) -> Result<Reply, Halt> {
        let key = key::node(self.memory.shard, node);
        let Some(mut row) = self.read::<NodeRow>(Family::Meta, &key)? else {
            return Err(Rejection {
                kind: RejectionKind::NotFound,
                code: "node_not_found".into(),
                message: format!("the cluster has no node {node}"),
            }
            .into());
        };
        if row.state() == NodeState::Gone {
            return Err(gone(&row).into());
        }
        if state == NodeState::Leaving {
            self.need_another_member(&row)?;
        }
        if row.state() != state {
            row.set_state(state);
            let action = if state == NodeState::Gone { "node.forget" } else { "node.leave" };
            self.note_node(actor, action, &row);
            self.put_node(&row);
        }
        Ok(Reply::Node(row.node, row.name))
    }

    /// Refuses to let the last node go that is to stay: nobody could take what it has.
    fn need_another_member(&mut self, leaving: &NodeRow) -> Result<(), Halt> {
        let stays = |node: &NodeRow| node.node != leaving.node && node.state() == NodeState::Member;
        if self.nodes()?.iter().any(stays) {
            return Ok(());
        }
        let message = format!(
            "'{}' is the last node of the cluster, and nobody could take what it has",
            leaving.name
        );
        let (kind, code) = (RejectionKind::Conflict, "last_node".into());
        Err(Rejection { kind, code, message }.into())
    }

    fn put_node(&mut self, row: &NodeRow) {
        let key = key::node(self.memory.shard, row.node);
        self.store.put(Family::Meta, key, record::encode(row));
    }

    fn note_node(&mut self, actor: &str, action: &str, row: &NodeRow) {
        self.note(Audit {
            actor: actor.to_owned(),
            action: action.to_owned(),
            subject: row.name.clone(),
            detail: format!("node {} at {}", row.node, row.peer_address),
            ..Audit::default()
        });
    }
}

/// Whether the node that asks to join is one that was let in before, and is still there. One with the
/// same id at another address may be another machine, made from the same image of a disk.
fn asks_again(asking: &NodeRow, known: &NodeRow) -> bool {
    !asking.join_id.is_empty()
        && asking.join_id == known.join_id
        && asking.peer_address == known.peer_address
        && known.state() != NodeState::Gone
}

/// The node that began the cluster, or was restored, has a number and has yet to say so. Whoever was let in
/// before that would get the same one.
fn begins() -> Rejection {
    Rejection {
        kind: RejectionKind::Busy,
        code: "cluster_begins".into(),
        message: "the first node of the cluster has yet to introduce itself".to_owned(),
    }
}

fn gone(row: &NodeRow) -> Rejection {
    Rejection {
        kind: RejectionKind::Conflict,
        code: "node_removed".into(),
        message: format!(
            "node {} ('{}') was removed from the cluster; to join again, start it with an empty \
             data directory",
            row.node, row.name
        ),
    }
}

/// The name that a node asks for, or the first of its kind that no other node has.
fn free_name(row: &NodeRow, nodes: &[NodeRow]) -> String {
    let others = || nodes.iter().filter(|node| node.node != row.node);
    let is_free =
        |name: &String| others().all(|node| node.name != *name || node.state() == NodeState::Gone);
    let numbered = (2..).map(|n| format!("{}-{n}", row.name));
    std::iter::once(row.name.clone()).chain(numbered).find(is_free).unwrap_or_default()
}
