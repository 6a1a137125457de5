//! Taking nodes out of the cluster.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use bellwether_api::{Node as ApiNode, Problem, Role};
use bellwether_core::read;
use bellwether_core::record::{NodeRow, NodeState};
use bellwether_core::turn::{Input, NodeChange};

use super::answer::Answer;
use super::present_cluster;
use crate::access::Caller;
use crate::cluster::Cluster;
use crate::node::Node;

/// Takes a node out of the cluster, for good. Others take over what it leads and what it has, then
/// it is forgotten. A node that is down is taken out as well, if enough others are up.
#[utoipa::path(post, path = "/v1/cluster/nodes/{node}/remove", tag = "operations", operation_id = "removeNode",
    params(("node" = String, Path, description = "Name or number of the node")),
    responses(
        (status = 202, description = "It is being emptied", body = ApiNode),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn remove(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Answer<(StatusCode, Json<ApiNode>)> {
    caller.need(Role::Admin)?;
    if caller.namespace.is_some() {
        let detail = "nodes serve all namespaces, and this token is good for one";
        return Err(Problem::new(403, "other_namespace", detail).into());
    }
    let rows = read::nodes(&*node.view_of(0).await?, 0)?;
    let row = find(&rows, &name)?;
    if row.state() == NodeState::Member {
        enough_are_left(&node.cluster, &rows, row)?;
    }
    let change = NodeChange::Leave(row.node);
    node.shards[0].ask(Input::Node { actor: caller.name.clone(), change }).await?;
    tracing::info!(node = row.node, name = row.name, by = caller.name, "a node is to leave");
    node.cluster.read_nodes()?;
    let shown = present_cluster::cluster(&node.cluster, Vec::new()).nodes;
    let shown = shown.into_iter().find(|shown| shown.node == row.node);
    let shown = shown.ok_or_else(|| not_found(&name))?;
    Ok((StatusCode::ACCEPTED, Json(shown)))
}

/// A node by its name or its number. Names go first to those that are there.
fn find<'a>(rows: &'a [NodeRow], name: &str) -> Result<&'a NodeRow, Problem> {
    let is_there = |row: &&NodeRow| row.state() != NodeState::Gone;
    let number = name.parse::<u64>().ok();
    let named = |row: &&NodeRow| row.name == name;
    let numbered = |row: &&NodeRow| Some(row.node) == number;
    let found = rows.iter().filter(is_there).find(named);
    let found = found.or_else(|| rows.iter().find(numbered));
    found.or_else(|| rows.iter().rfind(named)).ok_or_else(|| not_found(name))
}

fn not_found(name: &str) -> Problem {
    let name: String = name.chars().take(128).collect();
    Problem::new(404, "node_not_found", format!("the cluster has no node '{name}'"))
}

/// Refuses to take a node away that the others need to be a majority: it could not be emptied
/// before one of those is back.
fn enough_are_left(cluster: &Cluster, rows: &[NodeRow], leaving: &NodeRow) -> Result<(), Problem> {
    let is_up = |row: &&NodeRow| {
        row.node == cluster.identity.node
            || cluster.book.get(row.node).is_some_and(|known| known.is_up())
    };
    let stay: Vec<&NodeRow> = rows
        .iter()
        .filter(|row| row.node != leaving.node && row.state() == NodeState::Member)
        .collect();
    let down: Vec<&str> =
        stay.iter().filter(|row| !is_up(row)).map(|row| row.name.as_str()).collect();
    let up = stay.len() - down.len();
    if stay.is_empty() || !is_up(&leaving) || 2 * up > stay.len() {
        return Ok(());
    }
    let detail = format!(
        "without '{}' only {up} of {} nodes would be up, which is no majority; start or remove \
         these first: {}",
        leaving.name,
        stay.len(),
        down.join(", ")
    );
    Err(Problem::new(409, "too_few_nodes", detail))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn row(node: u64, name: &str, state: NodeState) -> NodeRow {
        let mut row = NodeRow { node, name: name.to_owned(), ..NodeRow::default() };
        row.set_state(state);
        row
    }

    #[test]
    fn a_node_is_found_by_name_or_number() {
        let rows = [
            row(1, "a", NodeState::Gone),
            row(2, "b", NodeState::Member),
            row(3, "a", NodeState::Member),
            row(4, "2", NodeState::Leaving),
            row(5, "e", NodeState::Gone),
        ];
        let number = |name: &str| find(&rows, name).map(|row| row.node).ok();
        assert_eq!(number("a"), Some(3), "the one that is there");
        assert_eq!(number("1"), Some(1));
        assert_eq!(number("2"), Some(4), "a name goes before a number");
        assert_eq!(number("e"), Some(5), "so that it can be said that it was removed");
        assert_eq!(find(&rows, "6").unwrap_err().code, "node_not_found");
    }
}
