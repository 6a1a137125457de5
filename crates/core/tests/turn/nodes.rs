//! The nodes of the cluster come and go.

use crate::world::World;
use crate::world::job::ANA;
use bellwether_core::record::NodeRow;
use bellwether_core::turn::{Input, NodeChange, Reply};

fn node(change: NodeChange) -> Input {
    Input::Node { actor: ANA.into(), change }
}

fn join(w: &mut World, name: &str) -> u64 {
    let row = NodeRow { name: name.into(), ..NodeRow::default() };
    match w.ask(node(NodeChange::Join(row))) {
        Ok(Reply::Node(number, _)) => number,
        other => panic!("{other:?}"),
    }
}

#[test]
fn r126_a_node_leaves_once_and_its_number_is_never_given_again() {
    let mut w = World::new();
    let (a, b) = (join(&mut w, "a"), join(&mut w, "b"));
    w.tell(node(NodeChange::Leave(b)));
    w.tell(node(NodeChange::Leave(b)));
    w.tell(node(NodeChange::Forget(b)));
    assert_eq!(w.ask(node(NodeChange::Leave(b))).unwrap_err().code, "node_removed");
    let back = NodeRow { node: b, name: "b".into(), ..NodeRow::default() };
    assert_eq!(w.ask(node(NodeChange::Introduce(back))).unwrap_err().code, "node_removed");
    assert_eq!(w.ask(node(NodeChange::Leave(99))).unwrap_err().code, "node_not_found");
    let c = join(&mut w, "b");
    assert!(c > b && b > a, "{a} {b} {c}");
    assert_eq!(w.actions(), ["node.join", "node.join", "node.leave", "node.forget", "node.join"]);
}

#[test]
fn r126_the_last_node_that_is_to_stay_cannot_leave() {
    let mut w = World::new();
    let (a, b) = (join(&mut w, "a"), join(&mut w, "b"));
    w.tell(node(NodeChange::Leave(a)));
    assert_eq!(w.ask(node(NodeChange::Leave(b))).unwrap_err().code, "last_node");
}
