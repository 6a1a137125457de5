//! The cluster as JSON.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_api::{Cluster as ApiCluster, Instant, Node as ApiNode, Restored, ShardState};
use bellwether_core::placement::FIRST_SHARD;
use bellwether_core::record::{NodeRow, NodeState};
use bellwether_core::time::Time;
use bellwether_core::waist::Shard;

use crate::clock;
use crate::cluster::wire::attend::{Said, SaidOfReplica};
use crate::cluster::{Cluster, Known};

/// The nodes and the shards, as this node knows them.
pub fn cluster(cluster: &Cluster, restored: Vec<Restored>) -> ApiCluster {
    let own = cluster.says();
    let others = cluster.book.all();
    let up = others.iter().filter(|known| known.is_up());
    let heard = up.filter_map(|known| known.heard.as_ref()).map(|(_, said)| said);
    let said: Vec<&Said> = std::iter::once(&own).chain(heard).collect();
    let rows = std::iter::once(&own.row).chain(others.iter().map(|known| &known.row));
    let names: BTreeMap<u64, String> = rows.map(|row| (row.node, row.name.clone())).collect();
    let (first, other_shards) = cluster.voters_wanted();
    let wanted = |number| if number == FIRST_SHARD { first } else { other_shards };
    let shards: Vec<ShardState> = (0..cluster.identity.shards)
        .map(|number| shard(number, wanted(number), &said, &names))
        .collect();
    let mut nodes: Vec<ApiNode> = others.iter().map(|known| other(known, &shards)).collect();
    nodes.push(this(&own, &shards));
    nodes.sort_by_key(|node| node.node);
    ApiCluster {
        id: cluster.identity.cluster.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        replicas: cluster.rules().replicas as u64,
        nodes,
        shards,
        restored,
    }
}

fn this(said: &Said, shards: &[ShardState]) -> ApiNode {
    let state = if said.stopping { "stopping" } else { "up" };
    node(&said.row, state, Some(said), shards)
}

fn other(known: &Known, shards: &[ShardState]) -> ApiNode {
    let said = known.heard.as_ref().map(|(_, said)| said);
    let state = match (known.is_up(), said) {
        (true, Some(said)) if said.stopping => "stopping",
        (true, _) => "up",
        (false, _) => "down",
    };
    let mut node = node(&known.row, state, said, shards);
    let silent_ms = i64::try_from(known.silent().as_millis()).unwrap_or(i64::MAX);
    node.clock_ahead_ms = known.clock_ahead_ms();
    node.heard_at = said.map(|_| Instant(Time(clock::now().0.saturating_sub(silent_ms))));
    node
}

fn node(row: &NodeRow, state: &str, said: Option<&Said>, shards: &[ShardState]) -> ApiNode {
    let leads = shards.iter().filter(|shard| shard.leader.as_ref() == Some(&row.name)).count();
    let leaving = row.state() == NodeState::Leaving && state == "up";
    ApiNode {
        node: row.node,
        name: row.name.clone(),
        state: if leaving { "leaving" } else { state }.to_owned(),
        listen: row.api_address.clone(),
        peer: row.peer_address.clone(),
        zone: row.zone.clone(),
        version: said.map(|said| said.version.clone()),
        started_at: said.map(|said| Instant(said.started)),
        heard_at: None,
        disk_bytes: said.map_or(0, |said| said.disk_bytes),
        log_bytes: said.map_or(0, |said| said.log_bytes),
        clock_ahead_ms: 0,
        leads: leads as u64,
        replicas: said.map_or(0, |said| said.replicas.len() as u64),
    }
}

/// A shard, as whoever leads it says, or the newest of its replicas.
fn shard(
    number: Shard,
    voters_wanted: usize,
    said: &[&Said],
    names: &BTreeMap<u64, String>,
) -> ShardState {
    let name = |node: &u64| names.get(node).cloned().unwrap_or_else(|| format!("node {node}"));
    let replicas: Vec<(u64, &SaidOfReplica)> = said
        .iter()
        .flat_map(|said| said.replicas.iter().map(|replica| (said.row.node, replica)))
        .filter(|(_, replica)| replica.shard == number)
        .collect();
    let newest = replicas
        .iter()
        .max_by_key(|(node, replica)| (replica.term, replica.leader == Some(*node), replica.last));
    let acting = replicas.iter().filter_map(|(_, replica)| replica.acting);
    let acting = acting.max_by_key(|acting| acting.term);
    let up: BTreeSet<u64> = said.iter().map(|said| said.row.node).collect();
    let members = newest.iter().flat_map(|(_, replica)| replica.voters.union(&replica.learners));
    // One that leads without a majority can do nothing, and may not know of it.
    let leads = |replica: &SaidOfReplica, leader: &u64| {
        up.contains(leader) && 2 * replica.voters.intersection(&up).count() > replica.voters.len()
    };
    let leader =
        newest.and_then(|(_, replica)| replica.leader.filter(|leader| leads(replica, leader)));
    let of_leader = replicas.iter().find(|(node, _)| Some(*node) == leader);
    let of_leader = of_leader.and_then(|(_, replica)| replica.bytes);
    let largest = replicas.iter().filter_map(|(_, replica)| replica.bytes).max();
    ShardState {
        shard: number,
        leader: leader.as_ref().map(name),
        term: acting.map_or(0, |acting| acting.term),
        voters: newest.iter().flat_map(|(_, replica)| &replica.voters).map(name).collect(),
        voters_wanted: voters_wanted as u64,
        learners: newest.iter().flat_map(|(_, replica)| &replica.learners).map(name).collect(),
        lag: replicas
            .iter()
            .map(|(node, replica)| {
                (name(node), newest.map_or(0, |(_, newest)| lag(replica, newest)))
            })
            .collect(),
        down: members.filter(|node| !up.contains(node)).map(name).collect(),
        bytes: of_leader.or(largest).unwrap_or(0),
        open_runs: acting.map_or(0, |acting| acting.open_runs),
        ready_runs: acting.map_or(0, |acting| acting.ready_runs),
        wheel_entries: acting.map_or(0, |acting| acting.wheel_entries),
    }
}

/// How many entries a replica has yet to apply. One that follows knows how far the others are, and said
/// both at the same time: what two nodes said at two times would count what came in between, which
/// under load is much. What the others say counts only for one that follows nobody, or somebody who
/// was replaced.
fn lag(replica: &SaidOfReplica, newest: &SaidOfReplica) -> u64 {
    let follows = |said: &SaidOfReplica| said.leader.map(|leader| (leader, said.term));
    match follows(replica) {
        Some(followed) if follows(newest) == Some(followed) => replica.behind,
        _ => newest.last.saturating_sub(replica.applied),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(node: u64, leader: u64, applied: u64, bytes: Option<u64>) -> Said {
        let replica = SaidOfReplica {
            shard: 3,
            leader: Some(leader),
            term: 7,
            last: 90,
            applied,
            behind: 90 - applied,
            voters: [1, 2, 4].into(),
            learners: [5].into(),
            membership: 50,
            changing: false,
            confirmed_ms: None,
            agreed: None,
            bytes,
            acting: None,
        };
        Said {
            row: NodeRow { node, ..NodeRow::default() },
            started: Time(0),
            version: String::new(),
            disk_bytes: 0,
            log_bytes: 0,
            replicas: vec![replica],
            stopping: false,
            workers: Vec::new(),
            removed: false,
            leaving: false,
            hears: Vec::new(),
            queues: Vec::new(),
            clock: None,
        }
    }

    #[test]
    fn r116_a_replica_whose_node_is_down_is_shown_as_such_and_not_as_level() {
        let names = [(1, "a"), (2, "b"), (4, "d"), (5, "e")];
        let names = names.map(|(node, name)| (node, name.to_owned())).into();
        let (one, two) = (said(1, 2, 80, Some(700)), said(2, 2, 90, Some(500)));
        let shown = shard(3, 3, &[&one, &two], &names);
        assert_eq!((shown.leader.as_deref(), shown.term), (Some("b"), 0));
        assert_eq!(shown.voters, ["a", "b", "d"]);
        assert_eq!(shown.down, ["d", "e"]);
        assert_eq!(shown.lag, [("a".to_owned(), 10), ("b".to_owned(), 0)].into());
        assert_eq!(shown.bytes, 500, "as its leader says");
        let led_elsewhere = said(1, 4, 80, Some(700));
        assert_eq!(shard(3, 3, &[&led_elsewhere], &names).bytes, 700);
    }

    #[test]
    fn r91_who_leads_without_a_majority_or_is_down_does_not_count_as_leader() {
        let names =
            [(1, "a"), (2, "b"), (4, "d")].map(|(node, name)| (node, name.to_owned())).into();
        let (one, two) = (said(1, 2, 80, None), said(2, 2, 90, None));
        let led = |said: &[&Said]| shard(3, 3, said, &names).leader;
        assert_eq!(led(&[&one, &two]).as_deref(), Some("b"));
        assert_eq!(led(&[&two]), None, "one of three");
        assert_eq!(led(&[&one, &said(4, 2, 80, None)]), None, "it is down");
    }

    #[test]
    fn r117_what_comes_between_the_words_of_two_nodes_does_not_count_as_lag() {
        let of = |said: Said| said.replicas.into_iter().next().unwrap();
        let leader = of(said(2, 2, 90, None));
        // It said so earlier, when there was less to apply.
        let follower = SaidOfReplica { last: 60, applied: 58, behind: 2, ..leader.clone() };
        assert_eq!(lag(&follower, &leader), 2);
        let of_old = SaidOfReplica { term: 6, ..follower.clone() };
        let of_none = SaidOfReplica { leader: None, ..follower };
        assert_eq!([lag(&of_old, &leader), lag(&of_none, &leader)], [32, 32]);
    }
}
