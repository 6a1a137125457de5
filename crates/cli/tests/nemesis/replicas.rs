//! Replicas are equal, row by row, on the disks of nodes that were killed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bellwether_core::waist::{Family, Shard, View};
use bellwether_store::{DiskEngine, DiskOptions, Engine};

use crate::server::{Cluster, until};

/// The replicas of each shard, by the names of their nodes.
type Replicas = BTreeMap<Shard, Vec<String>>;
/// What nodes have on disk.
type Disks = BTreeMap<&'static str, Arc<DiskEngine>>;

/// How often nodes are killed to find all replicas at the same entry: somebody may always have just
/// begun to lead.
const TRIES: usize = 5;

/// Kills all nodes while nothing happens, and compares what they have. How many rows were compared.
pub async fn compare(cluster: &Cluster) -> usize {
    for _ in 0..TRIES {
        let replicas = until_quiet(cluster).await;
        (0..cluster.len()).for_each(|at| cluster.kill(at, true));
        let open = |at| (cluster.name(at), open(&cluster.node(at).data_dir()));
        let disks: Disks = (0..cluster.len()).map(open).collect();
        if replicas.iter().all(|(shard, nodes)| are_at_one(&disks, *shard, nodes)) {
            return replicas.iter().map(|(shard, nodes)| equal(&disks, *shard, nodes)).sum();
        }
        cluster.history.note("replicas were not at the same entry".to_owned());
        drop(disks);
        (0..cluster.len()).for_each(|at| cluster.start_node(at));
        cluster.settled().await;
    }
    panic!("R69: replicas were never at the same entry");
}

/// Waits until all replicas have applied everything, as all nodes see it. Who has them.
async fn until_quiet(cluster: &Cluster) -> Replicas {
    let mut replicas = Replicas::new();
    for client in &cluster.clients {
        until("replicas are at the same entry", async || {
            let Ok(found) = client.cluster().await else { return false };
            replicas =
                found.shards.iter().map(|shard| (shard.shard, shard.voters.clone())).collect();
            found.shards.iter().all(|shard| {
                shard.lag.len() == shard.voters.len() && shard.lag.values().all(|lag| *lag == 0)
            })
        })
        .await;
    }
    replicas
}

/// Whether the replicas of a shard have applied the same entries.
fn are_at_one(disks: &Disks, shard: Shard, nodes: &[String]) -> bool {
    let position = |node: &String| {
        disks[&**node].view().get(Family::Meta, &bellwether_store::position_key(shard)).unwrap()
    };
    nodes.windows(2).all(|two| position(&two[0]) == position(&two[1]))
}

/// The replicas of a shard have the same rows. How many.
fn equal(disks: &Disks, shard: Shard, nodes: &[String]) -> usize {
    let (first, others) = nodes.split_first().unwrap();
    let mut rows = 0;
    for family in Family::ALL {
        let expected = rows_of(&*disks[&**first].view(), family, shard);
        rows += expected.len();
        for other in others {
            let found = rows_of(&*disks[&**other].view(), family, shard);
            let which = format!("R69: shard {shard}, {family:?}: {first} and {other}");
            for (one, two) in expected.iter().zip(&found) {
                assert_eq!(one, two, "{which}");
            }
            assert_eq!(expected.len(), found.len(), "{which}");
        }
    }
    rows
}

fn open(dir: &Path) -> Arc<DiskEngine> {
    let options = DiskOptions { sync: false, ..DiskOptions::new(dir) };
    Arc::new(DiskEngine::open(options).unwrap())
}

fn rows_of(view: &dyn View, family: Family, shard: Shard) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (from, to) = (shard.to_be_bytes(), (shard + 1).to_be_bytes());
    let rows = view.scan(family, &from, &to);
    rows.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}
