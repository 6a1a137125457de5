//! A real server is killed with SIGKILL at random moments, under load, again and again; then what
//! it says is held against what really ran.
//!
//! What really ran is written down by the jobs themselves: every attempt appends a line to a file
//! that no server knows of. What was promised is what the server acknowledged before it died.
//!
//! Guards R64/R65 (nothing launches twice under at_most_once), R70 (an acknowledged job is never
//! lost), R71 (every due instant is accounted for), R66 (at_least_once completes).
//!
//! `KILL_ROUNDS` asks for more rounds, `KILL_SEED` for the same random choices.

#![allow(clippy::unwrap_used)]

mod address;
mod checks;
mod insist;
mod random;
mod server;
mod work;

use random::{Random, setting};
use server::Server;
use work::Promises;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r64_r65_r70_r71_killed_fifty_times_nothing_is_lost_or_doubled() {
    let rounds = setting("KILL_ROUNDS", 50);
    let mut random = Random::seeded("KILL_SEED");
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join("ran");
    let mut server = Server::start(dir.path()).await;
    let mut promises = Promises::new(&record);
    promises.add_recurring(&server).await;
    for round in 0..rounds {
        let (kept, loading) = promises.load(&server, &mut random, round);
        random.moment_within(400).await;
        server.kill();
        loading.abort();
        // What was being acknowledged when the server died may or may not be there; only what had
        // been acknowledged counts.
        let _ = loading.await;
        promises.keep(kept);
        server = Server::start(dir.path()).await;
    }
    promises.stop_recurring(&server).await;
    promises.wait_until_all_ended(&server).await;
    let acknowledged = checks::all(&server, &promises, &record).await;
    println!("{acknowledged} acknowledged jobs, {rounds} kills");
    assert!(acknowledged as u64 > rounds, "too little load to show anything");
}
