//! A node that is cut off from the others, and what its lists say.

use std::time::{Duration, Instant};

use bellwether_client::{Client, JobFilter};
use serde_json::json;

use crate::server::{Shape, until};
use crate::trial::Trial;

/// The keys that a node lists, and how far it says to be behind.
async fn listed(client: &Client) -> Option<(Vec<String>, Duration)> {
    // One of its own, since it remembers the most that was ever said.
    let client = Client::new(client.server()).unwrap();
    let jobs = match client.jobs(&JobFilter::default()).await {
        Ok(jobs) => jobs.items,
        Err(error) => {
            // Shown when the test fails.
            println!("{}: {error}", client.server());
            return None;
        }
    };
    Some((jobs.into_iter().filter_map(|job| job.spec.key).collect(), client.staleness()))
}

/// R69: it cannot know what it lacks, but it knows since when.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r69_a_node_that_is_cut_off_says_how_old_its_lists_may_be() {
    let test = "r69_a_node_that_is_cut_off_says_how_old_its_lists_may_be";
    let shape = Shape::of(&["", "", ""]);
    let Some(trial) = Trial::begin(test, shape).await else { return };
    let cluster = &trial.cluster;
    for client in &cluster.clients {
        until("a healthy node is hardly behind", async || {
            listed(client).await.is_some_and(|(_, behind)| behind < Duration::from_secs(2))
        })
        .await;
    }
    let victim = cluster.most_leading_first().await[2];
    let other = &cluster.clients[(victim + 1) % 3];
    // As long as it knows nothing yet of a replica of its own, it lists what others have of the shard. If it is
    // cut off then, that replica never becomes level, and nothing can be shown: so it is cut off again later.
    let mut cut = Instant::now();
    until("it lists what it has itself when it is cut off", async || {
        cluster.history.note(format!("{} is cut off", cluster.name(victim)));
        for at in (0..3).filter(|at| *at != victim) {
            cluster.net.cut(at, victim);
            cluster.net.cut(victim, at);
        }
        cut = Instant::now();
        if listed(&cluster.clients[victim]).await.is_some() {
            return true;
        }
        cluster.history.note("it was too early: all can be reached again".to_owned());
        cluster.net.heal();
        cluster.settled().await;
        false
    })
    .await;
    // The others go on, and it cannot hear of it.
    let spec = json!({"key": "unheard", "schedule": "every 1h", "job_type": "bellwether.noop"});
    let spec: bellwether_api::JobSpec = serde_json::from_value(spec).unwrap();
    until("the others take a job", async || other.create_job(spec.clone()).await.is_ok()).await;
    until("it has been cut off for a while", async || {
        let alone = cut.elapsed();
        let Some((keys, behind)) = listed(&cluster.clients[victim]).await else { return false };
        assert!(keys.is_empty(), "{keys:?}");
        assert!(behind >= alone, "cut off for {alone:?}, states {behind:?}");
        println!("cut off for {alone:?}, states {behind:?}");
        behind > Duration::from_secs(8)
    })
    .await;
    until("the others list it, and are hardly behind", async || {
        let Some((keys, behind)) = listed(other).await else { return false };
        keys == ["unheard"] && behind < Duration::from_secs(5)
    })
    .await;

    cluster.history.note("all can be reached again".to_owned());
    cluster.net.heal();
    until("it lists what it missed, and is hardly behind", async || {
        let Some((keys, behind)) = listed(&cluster.clients[victim]).await else { return false };
        keys == ["unheard"] && behind < Duration::from_secs(2)
    })
    .await;
}
