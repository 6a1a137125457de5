//! A cluster that grows and shrinks under load, and a node whose disk is lost.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;

use crate::checks;
use crate::line::Line;
use crate::load;
use crate::random::Random;
use crate::removal::cli;
use crate::server::{Server, Trio};
use crate::work::Promises;

/// What is asked for while something is done to a cluster.
struct Load {
    promises: Promises,
    line: Line,
    random: Random,
}

impl Load {
    /// Creates jobs through all nodes while something is done to the cluster, and waits until it has
    /// settled. Those of the line are asked for all that time.
    async fn during(self, trio: &mut Trio, change: impl AsyncFnOnce(&mut Trio)) -> Load {
        let Load { mut promises, line, mut random } = self;
        let loads = load::through_all(trio, &promises, &mut random);
        let clients = trio.nodes.iter().map(|node| node.client.clone()).collect();
        let over = Arc::new(AtomicBool::new(false));
        let chance = Random::new(random.below(1 << 40));
        let line = tokio::spawn(line.go_on(clients, over.clone(), chance));
        change(trio).await;
        for (kept, loading) in loads {
            loading.await.unwrap();
            promises.keep(kept);
        }
        trio.settled().await;
        over.store(true, Ordering::Relaxed);
        Load { promises, line: line.await.unwrap(), random }
    }
}

async fn join(trio: &mut Trio, dir: &Path, names: &[&str]) {
    let first = trio.nodes[0].peer().to_owned();
    let joining = names.iter().map(|name| Server::start(dir, name, Some(&first)));
    trio.nodes.extend(join_all(joining).await);
}

fn remove(asked: &Server, name: &str) {
    let (code, said) = cli(asked, &["cluster", "remove", name, "--yes", "--wait"]);
    assert_eq!(code, 0, "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r115_r126_one_node_becomes_three_and_six_and_three_and_nothing_is_lost_or_reordered() {
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join("ran");
    let mut trio = Trio { nodes: vec![Server::start(dir.path(), "a", None).await] };
    let mut promises = Promises::new(&record);
    promises.add_recurring(&trio.nodes[0]).await;
    let line = Line::new(dir.path()).await;
    let mut load = Load { promises, line, random: Random::seeded("CLUSTER_SEED") };
    for names in [&["b", "c"][..], &["d", "e", "f"]] {
        let growing = async |trio: &mut Trio| join(trio, dir.path(), names).await;
        load = load.during(&mut trio, growing).await;
    }
    // The first and the last are among those that are taken out, so that of the three that are left only
    // one was there from early on.
    load = load
        .during(&mut trio, async |trio| {
            for at in [5, 2, 0] {
                let mut gone = trio.nodes.remove(at);
                let asked = &trio.nodes[1];
                tokio::task::block_in_place(|| remove(asked, gone.name()));
                assert!(gone.until_ended().await, "it ends in order: {}", gone.log());
            }
        })
        .await;
    // A disk is lost: the node joins with an empty one, and gets all that it has from the others.
    load = load
        .during(&mut trio, async |trio| {
            let mut lost = trio.nodes.remove(2);
            lost.kill();
            tokio::task::block_in_place(|| remove(&trio.nodes[0], lost.name()));
            std::fs::remove_dir_all(dir.path().join(lost.name())).unwrap();
            let known = trio.nodes[0].peer().to_owned();
            trio.nodes.push(Server::start(dir.path(), lost.name(), Some(&known)).await);
        })
        .await;
    let Load { mut promises, line, .. } = load;
    let fresh = &trio.nodes[2];
    promises.stop_recurring(fresh).await;
    promises.wait_until_all_ended(fresh).await;
    let acknowledged = checks::all(fresh, &promises, &record).await;
    let in_order = line.check(fresh).await;
    println!("{acknowledged} acknowledged jobs");
    assert!(acknowledged > 100, "too little load to show anything: {acknowledged}");
    assert!(in_order > 20, "too few in a line to show anything: {in_order}");
}
