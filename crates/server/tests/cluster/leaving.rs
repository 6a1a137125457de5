//! Nodes that leave the cluster for good.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bellwether_api::RunStatus;
use bellwether_client::ClientError;
use bellwether_server::Config;
use serde_json::json;

use crate::insist::insist;
use crate::nodes::{Node, PATIENCE, Trio};

/// Has the worker of each node take from a queue of its own: `q0`, `q1`, `q2`.
fn own_queues() -> impl Fn(&mut Config) {
    let next = AtomicUsize::new(0);
    move |config| {
        let queue = format!("q{}", next.fetch_add(1, Ordering::Relaxed));
        config.worker_queues = vec![queue];
    }
}

fn code(error: ClientError) -> String {
    error.problem().map(|problem| problem.code.clone()).unwrap_or_else(|| error.to_string())
}

/// Has a node taken out of the cluster. Where nobody knew whether that was begun, it may be over by the next time.
async fn remove(asked: &Node, number: u64) {
    let number = number.to_string();
    insist(async || {
        let said = asked.client.remove_node(&number).await;
        let is_over = said.as_ref().is_err_and(|error| error.code() == Some("node_removed"));
        if is_over { Ok(()) } else { said.map(drop) }
    })
    .await;
}

/// Waits until a node is known to be down, or not to be known any more.
async fn until_down(trio: &Trio, number: u64) {
    trio.until("the others note that it is down", async || {
        let cluster = trio.nodes[0].client.cluster().await.unwrap();
        cluster.nodes.iter().any(|node| node.node == number && node.state == "down")
    })
    .await;
}

async fn until_forgotten(trio: &Trio, number: u64) {
    for node in &trio.nodes {
        trio.until("the others forget it", async || {
            let Ok(cluster) = node.client.cluster().await else { return false };
            cluster.nodes.iter().all(|known| known.node != number)
                && cluster.shards.iter().all(|shard| shard.voters.len() == trio.nodes.len())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r126_a_node_that_is_removed_is_emptied_hears_of_it_and_ends() {
    let mut trio = Trio::start().await;
    for job in 0..12 {
        let spec = json!({"key": format!("{job}"), "schedule": {"delay": "1h"}, "job_type": "bellwether.noop"});
        trio.nodes[0].create(spec).await;
    }
    // The one that leads shard 0, which is the hardest: it has to let itself go.
    let cluster = trio.nodes[0].client.cluster().await.unwrap();
    let leader = cluster.shards[0].leader.clone().unwrap();
    let number = cluster.nodes.iter().find(|node| node.name == leader).unwrap().node;
    let at = trio.nodes.iter().position(|node| node.server.node_number() == number).unwrap();
    let leaving = trio.nodes.remove(at);
    assert_eq!(
        code(trio.nodes[0].client.remove_node("nobody").await.unwrap_err()),
        "node_not_found"
    );
    let said = insist(async || trio.nodes[0].client.remove_node(&leader).await).await;
    assert_eq!((said.node, said.state.as_str()), (number, "leaving"));
    let removal = leaving.server.removal();
    tokio::time::timeout(PATIENCE, removal).await.unwrap().unwrap();
    let health = leaving.client.health().await.unwrap();
    assert!(!health.ready && health.detail.contains("removed"), "{health:?}");
    until_forgotten(&trio, number).await;
    let again = trio.nodes[0].client.remove_node(&number.to_string()).await.unwrap_err();
    assert_eq!(code(again), "node_removed");
    let Node { server, dir, .. } = leaving;
    server.shutdown().await.unwrap();
    for node in &trio.nodes {
        for job in 0..12 {
            node.client.job(&job.to_string()).await.unwrap();
        }
    }
    let refused = Trio::try_start(&dir).await.map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("was removed from the cluster"), "{refused}");
    trio.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r126_a_node_that_is_down_is_removed_at_once_and_the_last_one_never() {
    let mut trio = Trio::start().await;
    let number = trio.nodes[2].server.node_number();
    let _gone = trio.take_down(2).await;
    until_down(&trio, number).await;
    let up = trio.nodes[1].server.node_number();
    let refused = trio.nodes[0].client.remove_node(&up.to_string()).await.unwrap_err();
    assert_eq!(code(refused), "too_few_nodes", "it could not be emptied");
    remove(&trio.nodes[0], number).await;
    until_forgotten(&trio, number).await;
    remove(&trio.nodes[0], up).await;
    let leaving = trio.nodes.remove(1);
    leaving.server.removal().await.unwrap();
    until_forgotten(&trio, up).await;
    leaving.server.shutdown().await.unwrap();
    let last = trio.nodes[0].server.node_number().to_string();
    assert_eq!(code(trio.nodes[0].client.remove_node(&last).await.unwrap_err()), "last_node");
    let spec = json!({"key": "alone", "schedule": {"delay": "1h"}, "job_type": "bellwether.noop"});
    trio.nodes[0].create(spec).await;
    trio.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r126_a_node_that_is_removed_finishes_what_its_worker_runs_and_gets_no_more() {
    let mut trio = Trio::start_with(own_queues()).await;
    let leaving = trio.nodes.remove(2);
    let (name, _) = leaving.server.names();
    let gate = leaving.dir.path().join("gate");
    let wait = format!("until test -e {}; do sleep 0.05; done", gate.display());
    let spec = json!({
        "key": "long", "schedule": {"delay": "1h"}, "command": wait, "queue": "q2",
    });
    leaving.create(spec).await;
    let spec = json!({
        "key": "next", "schedule": {"delay": "1h"}, "command": "true", "queue": "q2",
    });
    leaving.create(spec).await;
    let run = leaving.client.trigger_job("long").await.unwrap();
    let client = trio.nodes[0].client.clone();
    trio.until("it runs", async || client.run(&run).await.unwrap().status == RunStatus::Running)
        .await;
    client.remove_node(&leaving.server.node_number().to_string()).await.unwrap();
    trio.until("it has no replicas any more", async || {
        let shards = client.cluster().await.unwrap().shards;
        shards.iter().all(|shard| !shard.voters.contains(&name) && !shard.learners.contains(&name))
    })
    .await;
    let again = client.trigger_job("next").await.unwrap();
    assert_eq!(client.run(&run).await.unwrap().status, RunStatus::Running, "it goes on");
    let known = client.cluster().await.unwrap().nodes;
    assert!(known.iter().any(|node| node.name == name), "it is not forgotten meanwhile");
    std::fs::write(&gate, "").unwrap();
    leaving.server.removal().await.unwrap();
    assert_eq!(client.run(&run).await.unwrap().status, RunStatus::Succeeded);
    assert_eq!(client.run(&again).await.unwrap().status, RunStatus::Queued, "not given to it");
    leaving.server.shutdown().await.unwrap();
    trio.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r65_a_node_that_stops_finishes_what_its_worker_runs_first() {
    let own_queues = own_queues();
    let mut trio = Trio::start_with(move |config| {
        own_queues(config);
        config.shutdown_grace = Duration::from_secs(60);
    })
    .await;
    let stopping = trio.nodes.remove(1);
    let gate = stopping.dir.path().join("gate");
    let wait = format!("until test -e {}; do sleep 0.05; done", gate.display());
    let mut runs = Vec::new();
    for n in 0..4 {
        let spec = json!({
            "key": n.to_string(), "schedule": {"delay": "1h"}, "command": wait, "queue": "q1",
        });
        stopping.create(spec).await;
        runs.push(stopping.client.trigger_job(&n.to_string()).await.unwrap());
    }
    let client = trio.nodes[0].client.clone();
    for run in &runs {
        trio.until("it runs", async || client.run(run).await.unwrap().status == RunStatus::Running)
            .await;
    }
    let ended = tokio::spawn(stopping.server.shutdown());
    std::fs::write(&gate, "").unwrap();
    ended.await.unwrap().unwrap();
    for run in &runs {
        let ended = client.run(run).await.unwrap();
        assert_eq!((ended.status, ended.attempts.len()), (RunStatus::Succeeded, 1));
    }
    trio.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r91_r116_without_a_majority_nothing_is_launched_or_acknowledged() {
    let mut trio = Trio::start().await;
    assert!(trio.nodes[0].client.health().await.unwrap().ready);
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join("ran");
    for n in 0..12 {
        let command = format!("echo $BELLWETHER_KEY >> {}", record.display());
        let spec = json!({"key": format!("tick-{n}"), "schedule": "every 1s", "command": command});
        trio.nodes[n % 3].create(spec).await;
    }
    // How often each has run.
    let ran = || {
        let text = std::fs::read_to_string(&record).unwrap_or_default();
        let count = |n| text.lines().filter(|line| *line == format!("tick-{n}")).count();
        (0..12).map(count).collect::<Vec<_>>()
    };
    trio.until("all of them run", async || ran().iter().all(|times| *times > 0)).await;
    let first = trio.take_down(2).await;
    let _second = trio.take_down(1).await;
    trio.until("it is not ready", async || {
        let health = trio.nodes[0].client.health().await.unwrap();
        !health.ready && health.detail.contains("have no leader")
    })
    .await;
    let (mut before, mut since) = (ran(), Instant::now());
    trio.until("what was launched before has left its mark", async || {
        let now = ran();
        if now != before {
            (before, since) = (now, Instant::now());
        }
        since.elapsed() > Duration::from_secs(2)
    })
    .await;
    let alone = Instant::now();
    let mut asked = 0;
    trio.until("ticks of all of them have come due", async || {
        let spec = json!({"key": format!("new-{asked}"), "schedule": "every 1h", "job_type": "t"});
        let (status, answer) = trio.nodes[0].send("POST", "/v1/jobs", spec).await;
        assert_eq!(status, 503, "{answer}");
        asked += 1;
        alone.elapsed() > Duration::from_secs(3)
    })
    .await;
    assert_eq!(ran(), before, "nothing is launched");
    trio.start_again(first).await;
    trio.until("it is ready again", async || trio.nodes[0].client.health().await.unwrap().ready)
        .await;
    trio.until("all of them go on", async || {
        ran().iter().zip(&before).all(|(times, before)| times > before)
    })
    .await;
    trio.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r91_a_leader_without_a_majority_does_not_say_that_a_job_is_there() {
    let mut trio = Trio::start().await;
    let third = trio.take_down(2).await;
    let job =
        |n: usize| json!({"key": format!("k{n}"), "job_type": "echo", "schedule": {"delay": "9h"}});
    let mut shards = Vec::new();
    for n in 0..12 {
        let (status, created) = trio.nodes[0].send("POST", "/v1/jobs", job(n)).await;
        assert_eq!(status, 201, "{created}");
        shards.push(created["shard"].as_u64().unwrap());
    }
    let first = trio.nodes[0].server.node_number();
    let led = |cluster: &bellwether_api::Cluster| {
        let own = cluster.nodes.iter().find(|node| node.node == first).unwrap().name.clone();
        let led = cluster.shards.iter().filter(move |shard| shard.leader.as_ref() == Some(&own));
        led.filter(|shard| shard.term > 0).map(|shard| u64::from(shard.shard)).collect::<Vec<_>>()
    };
    let mut at = None;
    trio.until("the first node leads one of them", async || {
        let led = led(&trio.nodes[0].client.cluster().await.unwrap());
        at = shards.iter().position(|shard| led.contains(shard));
        at.is_some()
    })
    .await;
    let at = at.unwrap();
    let (status, again) = trio.nodes[0].send("POST", "/v1/jobs", job(at)).await;
    assert_eq!(status, 200, "{again}");
    let _second = trio.take_down(1).await;
    // For all it knows another leads by now, and has deleted the job.
    let (status, answer) = trio.nodes[0].send("POST", "/v1/jobs", job(at)).await;
    assert_eq!(status, 503, "{answer}");
    trio.start_again(third).await;
    trio.until("there is a majority again", async || {
        trio.nodes[0].send("POST", "/v1/jobs", job(at)).await.0 == 200
    })
    .await;
    trio.stop().await;
}
