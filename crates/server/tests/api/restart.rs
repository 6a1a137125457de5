//! Stopping and starting on the same data.

use bellwether_api::{JobStatus, RunStatus, TickFate};
use bellwether_client::{EventFilter, Heard, PageFilter};
use bellwether_core::id::JobId;
use bellwether_core::key;
use bellwether_core::record::{self, Definition, JobRow};
use bellwether_core::waist::{Batch, Family, Op};
use bellwether_server::Config;
use bellwether_store::{DiskEngine, DiskOptions, Engine};
use futures::StreamExt;
use serde_json::json;
use tempfile::TempDir;

use crate::puppet::post;
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
    let late = world.add(json!({"schedule": {"delay": "10s"}, "command": "true"})).await;
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

/// Gives a job a zone that no database has, as a version whose database lacks one would find it.
fn lose_zone(dir: &TempDir, id: &str) {
    let id: JobId = id.parse().unwrap();
    let options = DiskOptions { sync: false, ..DiskOptions::new(config(dir).data_dir) };
    let engine = DiskEngine::open(options).unwrap();
    let term = engine.acquire(id.shard()).unwrap();
    let key = key::job(id);
    let bytes = engine.view().get(Family::Job, &key).unwrap().unwrap();
    let mut row: JobRow = record::decode("job", bytes).unwrap();
    let mut definition: Definition = record::decode("definition", row.definition).unwrap();
    definition.schedule.as_mut().unwrap().timezone = "Mars/Olympus".to_owned();
    row.definition = record::encode(&definition);
    let put = Op::Put { family: Family::Job, key, value: record::encode(&row) };
    engine.commit(Batch { shard: id.shard(), term, ops: vec![put] }).unwrap();
    engine.close().unwrap();
}

#[tokio::test]
async fn r24_a_schedule_that_no_longer_compiles_holds_its_own_job_and_can_be_read() {
    let world = World::with(|config| config.shards = Some(1)).await;
    let broken = world.add(json!({"key": "b", "schedule": "every 1s", "command": "true"})).await;
    let other = world.add(json!({"key": "o", "schedule": "every 1s", "command": "true"})).await;
    let dir = world.dir;
    world.server.shutdown().await.unwrap();
    lose_zone(&dir, &broken.info.id);
    let settings = Config { shards: Some(1), ..config(&dir) };
    let server = bellwether_server::start(settings).await.unwrap();
    let client = bellwether_client::Client::new(&server.local_addr().to_string()).unwrap();
    let world = World { server, client, dir };
    world
        .until("it is held", async || {
            world.client.job("b").await.unwrap().info.status == JobStatus::Paused
        })
        .await;
    let ran = world.runs(&other).await.len();
    world.until("the other goes on", async || world.runs(&other).await.len() > ran).await;
    let (_, job) = world.send("GET", "/v1/jobs/b", "").await;
    assert_eq!(job["paused"]["by"], "system");
    for text in [&job["paused"]["note"], &job["schedule_text"]] {
        let text = text.as_str().unwrap();
        assert!(text.contains("ts schedule no longer compiles: there is no time zone"), "{text}");
    }
    let (status, next) = world.send("GET", "/v1/jobs/b/next", "").await;
    assert_eq!((status, &next["times"]), (200, &json!([])), "{next}");
    assert!(next["description"].as_str().unwrap().contains("no longer compiles"), "{next}");
    let (status, why) = world.send("GET", "/v1/jobs/b/why", "").await;
    assert_eq!(status, 200);
    assert!(why["answer"].as_str().unwrap().contains("no longer compiles"), "{why}");
    let (_, list) = world.send("GET", "/v1/jobs?status=paused", "").await;
    assert_eq!(list["items"][0]["key"], "b");
    let (_, audit) = world.send("GET", "/v1/audit", "").await;
    let entries = audit["items"].as_array().unwrap();
    let held = entries.iter().filter(|e| e["action"] == "job.hold" && e["actor"] == "system");
    assert_eq!(held.count(), 1, "{audit}");
    let (status, problem) = world.send("POST", "/v1/jobs/b/resume", "").await;
    assert_eq!((status, &problem["code"]), (409, &json!("schedule_broken")), "{problem}");
    let patch = json!({"schedule": {"timezone": "UTC"}}).to_string();
    assert_eq!(world.send("PATCH", "/v1/jobs/b", patch).await.0, 200);
    let ran = world.runs(&broken).await.len();
    world.until("it goes on", async || world.runs(&broken).await.len() > ran).await;
}

#[tokio::test]
async fn r24_whoever_listens_hears_of_a_job_that_is_held() {
    let started = async |dir: TempDir| {
        let settings = Config { worker: false, ..config(&dir) };
        let server = bellwether_server::start(settings).await.unwrap();
        let client = bellwether_client::Client::new(&server.local_addr().to_string()).unwrap();
        World { server, client, dir }
    };
    let world = started(tempfile::tempdir().unwrap()).await;
    // It counts from the end of the run before, and only then finds out that it cannot be read.
    let spec = json!({"key": "b", "schedule": {"every": "1s", "after": "finish"}, "job_type": "x"});
    let job = world.add(spec).await;
    let ask = json!({"worker": "p", "job_types": ["x"], "wait": "30s"});
    let leased = post(&world, "/v1/queues/default/lease", ask).await;
    let run = &leased["runs"][0];
    let World { server, dir, .. } = world;
    server.shutdown().await.unwrap();
    lose_zone(&dir, &job.info.id);
    let world = started(dir).await;
    let events = world.client.events(&EventFilter::default()).await.unwrap();
    let ended = json!({"run_id": run["run_id"], "fencing_token": run["fencing_token"], "outcome": "succeeded"});
    let body = json!({"worker": "p", "results": [ended]});
    post(&world, "/v1/queues/default/complete", body).await;
    let mut events = std::pin::pin!(events);
    let held = loop {
        match events.next().await.unwrap().unwrap() {
            Heard::Event(event) if event.event == "held" => break event,
            _ => {}
        }
    };
    assert_eq!((held.job_id.as_str(), held.key.as_deref()), (job.info.id.as_str(), Some("b")));
    assert_eq!((held.run_id, held.status), (None, None));
    assert_eq!(held.reason.as_deref(), Some("schedule_broken"));
    assert!(held.detail.unwrap().contains("no longer compiles"));
    assert_eq!(world.client.job("b").await.unwrap().info.status, JobStatus::Paused);
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
