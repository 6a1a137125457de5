//! Stopping and starting on the same data.

use bellwether_api::{JobStatus, RunStatus, TickFate};
use bellwether_client::PageFilter;
use serde_json::json;

use crate::world::{World, config, now};

#[tokio::test]
async fn r70_everything_is_there_after_a_restart() {
    let world = World::new().await;
    let waiting =
        world.add(json!({"key": "w", "schedule": {"delay": "1h"}, "command": "true"})).await;
    let recurring = world.add(json!({"key": "r", "schedule": "@daily", "command": "true"})).await;
    let done = world.add(now("echo done")).await;
    world.first_run(&done).await;
    let world = world.restart().await;
    for job in [&waiting, &recurring, &done] {
        let read = world.client.job(&job.info.id).await.unwrap();
        assert_eq!(read.info.execution_time, job.info.execution_time);
    }
    let run = world.first_run(&done).await;
    assert_eq!(run.status, RunStatus::Succeeded);
    let (_, output) = world.send("GET", &format!("/v1/runs/{}/output", run.id), "").await;
    assert_eq!(output, "done\n");
}

#[tokio::test]
async fn r118_what_was_missed_while_down_is_made_up_for_by_policy() {
    let world = World::with(|config| config.rules.misfire_after_ms = 500).await;
    let late = world.add(json!({"schedule": {"delay": "2s"}, "command": "true"})).await;
    for policy in ["once", "skip", "all"] {
        world.add(json!({"key": policy, "schedule": "every 1s", "command": "true", "misfire": policy})).await;
    }
    let dir = world.dir;
    world.server.shutdown().await.unwrap();
    // Down until the one-off is three seconds late.
    let due = late.info.execution_time.unwrap().0;
    let clock =
        || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    while clock() < (due.0 + 3_000) as u128 {
        crate::world::pause().await;
    }
    let mut settings = config(&dir);
    settings.rules.misfire_after_ms = 500;
    let server = bellwether_server::start(settings).await.unwrap();
    let client = bellwether_client::Client::new(&server.local_addr().to_string()).unwrap();
    let world = World { server, client, dir };
    assert_eq!(world.first_run(&late).await.cause, "misfire", "a one-off is never dropped");
    for policy in ["once", "skip", "all"] {
        world
            .until("it ticks again", async || {
                let ticks = world.client.ticks(policy, &PageFilter::default()).await.unwrap().items;
                ticks.first().is_some_and(|tick| tick.fate == TickFate::Fired)
            })
            .await;
        let ticks = world.client.ticks(policy, &PageFilter::default()).await.unwrap().items;
        let count = |fate| ticks.iter().filter(|t| t.fate == fate).map(|t| t.count).sum::<u32>();
        match policy {
            "once" => assert!(count(TickFate::Merged) >= 2, "{ticks:#?}"),
            "skip" => assert!(count(TickFate::Skipped) >= 3, "{ticks:#?}"),
            _ => assert!(
                count(TickFate::Late) >= 3 && count(TickFate::Skipped) == 0,
                "R35: {ticks:#?}"
            ),
        }
    }
}

#[tokio::test]
async fn a_stop_hands_back_or_finishes_what_runs() {
    let world =
        World::with(|config| config.shutdown_grace = std::time::Duration::from_millis(100)).await;
    let mut again = now("echo $BELLWETHER_ATTEMPT; [ $BELLWETHER_ATTEMPT -gt 1 ] || sleep 600");
    again["delivery"] = json!("at_least_once");
    again["grace"] = json!("100ms");
    let again = world.add(again).await;
    let mut once = now("sleep 600");
    once["grace"] = json!("100ms");
    let once = world.add(once).await;
    world.run_when(&again, 1, |run| run.status == RunStatus::Running).await;
    world.run_when(&once, 1, |run| run.status == RunStatus::Running).await;
    let world = world.restart().await;
    assert_eq!(world.first_run(&again).await.status, RunStatus::Succeeded, "R66: repeated");
    assert_eq!(world.first_run(&once).await.status, RunStatus::Lost, "R65: not repeated");
    assert_eq!(world.client.job(&once.info.id).await.unwrap().info.status, JobStatus::Failed);
}

#[tokio::test]
async fn the_number_of_shards_cannot_be_changed() {
    let world = World::new().await;
    let dir = world.dir;
    world.server.shutdown().await.unwrap();
    let mut settings = config(&dir);
    settings.shards = Some(8);
    let error = bellwether_server::start(settings).await.err().unwrap().to_string();
    assert!(error.contains("has 4 shards") && error.contains("--shards 4"), "{error}");
}

#[tokio::test]
async fn two_servers_cannot_share_a_directory() {
    let world = World::new().await;
    let error = bellwether_server::start(config(&world.dir)).await.err().unwrap().to_string();
    assert!(error.contains("another"), "{error}");
}
