//! What holds of a cluster for which nothing is left to do.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_core::placement::{FIRST_SHARD, NodeId, Replicas};

use super::model::Cluster;

/// Checks all rules. Nodes must be up, or have been down for long.
pub fn check(cluster: &Cluster) {
    let wanted = cluster.wanted();
    assert!(wanted.iter().all(|node| cluster.is_up(*node)), "that would have to be waited for");
    if wanted.is_empty() {
        return;
    }
    let led = || cluster.shards.iter().filter(|shard| shard.leader.is_some());
    for shard in led() {
        check_members(cluster, shard, &wanted);
        check_zones(cluster, shard, &wanted);
        check_load(cluster, shard);
        check_leader(cluster, shard);
    }
    let everywhere = |shard: &Replicas| wanted.iter().all(|node| shard.voters.contains(node));
    if led().count() == cluster.shards.len() && led().all(everywhere) {
        let leads = cluster.leads();
        let (most, least) = (leads.values().max().unwrap(), leads.values().min().unwrap());
        assert!(most - least <= 1, "{leads:?}");
    }
}

fn check_members(cluster: &Cluster, shard: &Replicas, wanted: &BTreeSet<NodeId>) {
    let is_first = shard.shard == FIRST_SHARD;
    let factor = cluster.rules.replicas | 1;
    let asked = if is_first { factor.max(cluster.rules.first_shard_voters | 1) } else { factor };
    let taken = shard.voters.intersection(wanted).count();
    let most = asked.min(wanted.len());
    assert!(taken <= most && taken >= most.min(3), "{shard:?}");
    if zones(cluster, wanted).len() < 3 {
        let odd = if is_first && most > 2 { (most - 1) | 1 } else { most };
        assert_eq!(taken, odd, "{shard:?}");
    }
    if wanted.len() > asked {
        assert_eq!(shard.voters.len() % 2, 1, "{shard:?}");
    }
    for voter in shard.voters.difference(wanted) {
        let waits = !cluster.nodes[voter].leaving && wanted.len() < asked;
        assert!(waits, "{voter} has no place in {shard:?}");
    }
    if is_first {
        let all: BTreeSet<NodeId> = shard.voters.union(&shard.learners).copied().collect();
        assert!(all.is_superset(wanted), "{shard:?}");
        assert!(all.iter().all(|node| !cluster.nodes[node].leaving), "{shard:?}");
    } else {
        assert!(shard.learners.is_empty(), "{shard:?}");
    }
}

fn zones<'a>(cluster: &'a Cluster, nodes: &BTreeSet<NodeId>) -> BTreeMap<&'a str, usize> {
    let mut zones = BTreeMap::new();
    for node in nodes {
        *zones.entry(cluster.zone(*node)).or_default() += 1;
    }
    zones
}

fn check_zones(cluster: &Cluster, shard: &Replicas, wanted: &BTreeSet<NodeId>) {
    if !shard.voters.is_subset(wanted) {
        return;
    }
    let there = zones(cluster, wanted);
    let here = zones(cluster, &shard.voters);
    if there.len() >= 3 && cluster.rules.replicas >= 2 {
        for (zone, lost) in &here {
            let left = shard.voters.len() - lost;
            assert!(2 * left > shard.voters.len(), "without {zone} {shard:?} is lost");
        }
    }
    for (zone, nodes) in &there {
        let fewest = here.get(zone).copied().unwrap_or(0);
        let more = here.values().any(|count| *count >= fewest + 2);
        assert!(!more || *nodes == fewest, "{zone} could have more of {shard:?}: {here:?}");
    }
}

/// No single move that leaves the spread over zones as it is makes the load more even.
fn check_load(cluster: &Cluster, shard: &Replicas) {
    let load = cluster.load();
    if shard.shard == FIRST_SHARD || !shard.voters.iter().all(|voter| load.contains_key(voter)) {
        return;
    }
    let here = zones(cluster, &shard.voters);
    let count = |node: NodeId| here.get(cluster.zone(node)).copied().unwrap_or(0);
    for from in &shard.voters {
        for to in load.keys().filter(|to| !shard.voters.contains(to)) {
            let same = cluster.zone(*from) == cluster.zone(*to);
            if same || count(*from) == count(*to) + 1 {
                assert!(load[from] <= load[to] + 1, "{from} to {to} for {shard:?}: {load:?}");
            }
        }
    }
}

fn check_leader(cluster: &Cluster, shard: &Replicas) {
    let leads = cluster.leads();
    let leader = shard.leader.unwrap();
    assert!(leads.contains_key(&leader), "{leader} is not to lead {shard:?}");
    for other in shard.voters.iter().filter(|voter| leads.contains_key(voter)) {
        assert!(leads[&leader] <= leads[other] + 1, "{other} could lead {shard:?}: {leads:?}");
    }
}
