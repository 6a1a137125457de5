//! Three real nodes; each is killed with SIGKILL under load and started again; then what the cluster
//! says is held against what really ran.
//!
//! As in the test that kills a single server, what ran is written down by the jobs themselves, and
//! what was promised is what any node has acknowledged.
//!
//! Guards R116/R123/R125 (one of three may fail), R93/R117 (others lead soon, and no tick is missed), R64/R65,
//! R66, R70 and R71 (nothing is lost or doubled by it), R126 (a node is removed and another joins).
//!
//! `CLUSTER_ROUNDS` asks for more rounds, `CLUSTER_SEED` for the same random choices.

#![allow(clippy::unwrap_used)]

#[path = "../kill/address.rs"]
mod address;
#[path = "../kill/checks.rs"]
mod checks;
mod growth;
#[path = "../kill/insist.rs"]
mod insist;
mod line;
mod load;
#[path = "../nemesis/order.rs"]
mod order;
#[path = "../kill/random.rs"]
mod random;
#[path = "../nemesis/record.rs"]
#[allow(dead_code)]
mod record;
mod removal;
mod restore;
mod script;
mod seat;
mod server;
mod status;
mod ticks;
mod unknown;
#[path = "../kill/work.rs"]
#[allow(dead_code)]
mod work;
mod worker;

use random::{Random, setting};
use server::Trio;
use work::Promises;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r93_r99_r116_r117_r125_each_node_is_killed_and_nothing_is_lost_doubled_or_missed() {
    let rounds = setting("CLUSTER_ROUNDS", 1);
    let mut random = Random::seeded("CLUSTER_SEED");
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join("ran");
    let mut trio = Trio::start(dir.path()).await;
    let mut promises = Promises::new(&record);
    promises.add_recurring(&trio.nodes[0]).await;
    let ticking = ticks::begin(&trio.nodes[1]).await;
    let mut kills = 0;
    for _ in 0..rounds {
        for victim in trio.most_leading_first().await {
            let loads = load::through_all(&trio, &promises, &mut random);
            random.moment_within(400).await;
            trio.nodes[victim].kill();
            kills += 1;
            load::until_it_ticks_on(&trio, victim, &promises.recurring).await;
            for (kept, loading) in loads {
                loading.await.unwrap();
                promises.keep(kept);
            }
            trio.nodes[victim].start_again().await;
            trio.settled().await;
        }
    }
    ticks::none_missed(&trio.nodes[1], &ticking).await;
    promises.stop_recurring(&trio.nodes[0]).await;
    promises.wait_until_all_ended(&trio.nodes[1]).await;
    let acknowledged = checks::all(&trio.nodes[2], &promises, &record).await;
    println!("{acknowledged} acknowledged jobs, {kills} kills");
    assert!(acknowledged > 100, "too little load to show anything: {acknowledged}");
}
