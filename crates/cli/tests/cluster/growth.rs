//! A cluster that grows and shrinks under load, and a node whose disk is lost.

use std::path::Path;

use crate::checks;
use crate::load;
use crate::random::Random;
use crate::removal::cli;
use crate::server::{Server, Trio};
use crate::work::Promises;

/// Creates jobs through all nodes while something is done to the cluster, and waits until it has
/// settled.
async fn under_load(
    trio: &mut Trio,
    promises: &mut Promises,
    random: &mut Random,
    change: impl AsyncFnOnce(&mut Trio),
) {
    let loads = load::through_all(trio, promises, random);
    change(trio).await;
    for (kept, loading) in loads {
        loading.await.unwrap();
        promises.keep(kept);
    }
    trio.settled().await;
}

async fn join(trio: &mut Trio, dir: &Path, names: [&str; 2]) {
    let first = trio.nodes[0].peer().to_owned();
    let (one, other) = tokio::join!(
        Server::start(dir, names[0], Some(&first)),
        Server::start(dir, names[1], Some(&first))
    );
    trio.nodes.extend([one, other]);
}

fn remove(asked: &Server, name: &str) {
    let (code, said) = cli(asked, &["cluster", "remove", name, "--yes", "--wait"]);
    assert_eq!(code, 0, "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r115_r126_one_node_becomes_three_and_five_and_three_and_nothing_is_lost_or_reordered() {
    let mut random = Random::seeded("CLUSTER_SEED");
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join("ran");
    let mut trio = Trio { nodes: vec![Server::start(dir.path(), "a", None).await] };
    let mut promises = Promises::new(&record);
    promises.add_recurring(&trio.nodes[0]).await;
    for names in [["b", "c"], ["d", "e"]] {
        let growing = async |trio: &mut Trio| join(trio, dir.path(), names).await;
        under_load(&mut trio, &mut promises, &mut random, growing).await;
    }
    // The first and the last are taken out, so that three are left of which only one was there
    // from early on.
    under_load(&mut trio, &mut promises, &mut random, async |trio| {
        for at in [4, 0] {
            let mut gone = trio.nodes.remove(at);
            let asked = &trio.nodes[1];
            tokio::task::block_in_place(|| remove(asked, gone.name()));
            assert!(gone.until_ended().await, "it ends in order: {}", gone.log());
        }
    })
    .await;
    // A disk is lost: the node joins with an empty one, and gets all that it has from the others.
    under_load(&mut trio, &mut promises, &mut random, async |trio| {
        let mut lost = trio.nodes.remove(2);
        lost.kill();
        tokio::task::block_in_place(|| remove(&trio.nodes[0], lost.name()));
        std::fs::remove_dir_all(dir.path().join(lost.name())).unwrap();
        let known = trio.nodes[0].peer().to_owned();
        trio.nodes.push(Server::start(dir.path(), lost.name(), Some(&known)).await);
    })
    .await;
    let fresh = &trio.nodes[2];
    promises.stop_recurring(fresh).await;
    promises.wait_until_all_ended(fresh).await;
    let acknowledged = checks::all(fresh, &promises, &record).await;
    println!("{acknowledged} acknowledged jobs");
    assert!(acknowledged > 100, "too little load to show anything: {acknowledged}");
}
