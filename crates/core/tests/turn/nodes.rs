//! The nodes of the cluster come and go.

use crate::world::job::ANA;
use crate::world::{SHARD, World};
use bellwether_core::read;
use bellwether_core::record::NodeRow;
use bellwether_core::turn::{Input, NodeChange, RejectionKind, Reply};

fn node(change: NodeChange) -> Input {
    Input::Node { actor: ANA.into(), change }
}

fn join(w: &mut World, name: &str) -> u64 {
    ask(w, name, "", "").0
}

/// A cluster that the node with the number 1 has begun.
fn begun() -> World {
    let mut w = World::new();
    introduce(&mut w, 1, "first");
    w
}

fn introduce(w: &mut World, number: u64, name: &str) {
    let row = NodeRow { node: number, name: name.into(), ..NodeRow::default() };
    w.tell(node(NodeChange::Introduce(row)));
}

/// It happened: two nodes had the number 1, and the second of them never heard of anybody.
#[test]
fn r126_nobody_is_let_in_before_the_first_node_has_said_its_number() {
    let mut w = World::new();
    let early = NodeRow { name: "b".into(), ..NodeRow::default() };
    let refused = w.ask(node(NodeChange::Join(early))).unwrap_err();
    assert_eq!((refused.kind, &*refused.code), (RejectionKind::Busy, "cluster_begins"));
    introduce(&mut w, 1, "a");
    assert_eq!(join(&mut w, "b"), 2);
}

#[test]
fn r126_a_node_leaves_once_and_its_number_is_never_given_again() {
    let mut w = begun();
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

/// Asks to join; the number and the name that are given.
fn ask(w: &mut World, name: &str, address: &str, join_id: &str) -> (u64, String) {
    let row = NodeRow {
        name: name.into(),
        peer_address: address.into(),
        join_id: join_id.into(),
        ..NodeRow::default()
    };
    match w.ask(node(NodeChange::Join(row))) {
        Ok(Reply::Node(number, name)) => (number, name),
        other => panic!("{other:?}"),
    }
}

#[test]
fn r126_a_node_that_asks_again_to_join_stays_the_same() {
    let mut w = begun();
    join(&mut w, "a");
    let b = ask(&mut w, "b", "b:1", "x");
    assert_eq!(ask(&mut w, "b", "b:1", "x"), b, "the answer was lost");
    assert_eq!(ask(&mut w, "a", "b:1", "x"), (b.0, "a-2".into()), "it has another name by now");
    let rows = read::nodes(&w.store, SHARD).unwrap();
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert_eq!((&*rows[2].peer_address, &*rows[2].name), ("b:1", "a-2"));
    // Others are others, also such as say no id.
    let c = ask(&mut w, "c", "c:1", "y").0;
    let (d, e) = (ask(&mut w, "d", "d:1", "").0, ask(&mut w, "e", "e:1", "").0);
    assert!(b.0 < c && c < d && d < e, "{b:?} {c} {d} {e}");
    // One that was removed meanwhile is gone for good, and whoever asks is new.
    w.tell(node(NodeChange::Leave(b.0)));
    assert_eq!(ask(&mut w, "b", "b:1", "x"), b, "it stays for as long as it is there");
    w.tell(node(NodeChange::Forget(b.0)));
    let back = ask(&mut w, "b", "b:1", "x").0;
    assert!(back > e, "{back}");
    assert_eq!(ask(&mut w, "b", "b:1", "x").0, back);
    let joins = w.actions().iter().filter(|action| **action == "node.join").count();
    assert_eq!(joins, 6, "said once for each");
}

/// A number that two have, or one without what its bearer has stored, would make majorities worth nothing.
#[test]
fn r126_copies_of_a_disk_from_before_a_node_was_let_in_are_other_nodes() {
    let mut w = begun();
    let b = ask(&mut w, "b", "b:1", "x").0;
    let twin = ask(&mut w, "b", "c:1", "x");
    assert!(twin.0 > b && twin.1 == "b-2", "at another address at the same time: {twin:?}");
    let said =
        NodeRow { node: b, name: "b".into(), peer_address: "b:1".into(), ..NodeRow::default() };
    w.tell(node(NodeChange::Introduce(said)));
    let back = ask(&mut w, "b", "b:1", "x").0;
    assert!(back > twin.0, "at the same address, after the node knew its number: {back}");
}

#[test]
fn r126_the_last_node_that_is_to_stay_cannot_leave() {
    let mut w = begun();
    let b = join(&mut w, "b");
    w.tell(node(NodeChange::Leave(1)));
    assert_eq!(w.ask(node(NodeChange::Leave(b))).unwrap_err().code, "last_node");
}
