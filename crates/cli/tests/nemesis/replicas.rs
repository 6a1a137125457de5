//! Replicas are equal, row by row, on the disks of nodes that were killed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bellwether_core::waist::{Family, Shard, View};
use bellwether_store::{DiskEngine, DiskOptions, Engine};

use crate::server::{Cluster, until};

/// Waits until all replicas are at the same entry, kills all nodes and compares what they have. How many
/// rows were compared.
pub async fn compare(cluster: &Cluster) -> usize {
    let mut replicas: BTreeMap<Shard, Vec<String>> = BTreeMap::new();
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
    let mut tables = BTreeMap::new();
    (0..cluster.len()).for_each(|at| cluster.kill(at, true));
    for at in 0..cluster.len() {
        tables.insert(cluster.name(at), open(&cluster.node(at).data_dir()));
    }
    let mut rows = 0;
    for (shard, nodes) in replicas {
        let (first, others) = nodes.split_first().unwrap();
        for family in Family::ALL {
            let expected = rows_of(&*tables[&**first].view(), family, shard);
            rows += expected.len();
            for other in others {
                let found = rows_of(&*tables[&**other].view(), family, shard);
                for (one, two) in expected.iter().zip(&found) {
                    assert_eq!(one, two, "R67: shard {shard}, {family:?}: {first} and {other}");
                }
                let detail = format!("R67: rows of shard {shard}, {family:?}: {first} and {other}");
                assert_eq!(expected.len(), found.len(), "{detail}");
            }
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
