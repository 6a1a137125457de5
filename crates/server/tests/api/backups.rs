//! Backups of a running server (R114): asked for and on a schedule, one at a time.

use std::time::Duration;

use bellwether_api::{Backup, BackupState, Role, TokenSpec};
use bellwether_backup::{Place, find, list, verify};
use serde_json::{Value, json};

use crate::world::{World, config};

/// Waits until no backup is being taken, and says what there is.
async fn settled(world: &World) -> Vec<Backup> {
    let mut found = Vec::new();
    world
        .until("the backup ends", async || {
            found = world.client.backups().await.unwrap().items;
            !found.is_empty() && found.iter().all(|backup| backup.state != BackupState::Running)
        })
        .await;
    found
}

fn to(world: &World) -> String {
    world.dir.path().join("backups").to_str().unwrap().to_owned()
}

#[tokio::test]
async fn r114_a_backup_can_be_asked_for_and_is_whole() {
    let world = World::new().await;
    world.add(json!({"schedule": {"delay": "1h"}, "command": "true"})).await;
    let body = json!({"to": to(&world)});
    let (status, begun) = world.send("POST", "/v1/backups", body.to_string()).await;
    assert_eq!((status, &begun["state"]), (202, &json!("running")), "{begun}");
    let [backup] = &settled(&world).await[..] else { panic!("one was taken") };
    assert_eq!((backup.state, backup.shards_done), (BackupState::Complete, 4), "{backup:?}");
    assert_eq!((json!(backup.name), backup.error.as_ref()), (begun["name"].clone(), None));
    let place = Place::open_existing(&to(&world)).unwrap();
    let manifest = find(&place, &backup.name).await.unwrap();
    assert_eq!(manifest.rows(), backup.rows);
    assert_eq!(verify(&place, manifest, &Default::default()).await.unwrap().problems, [""; 0]);
    let metrics = world.client.metrics().await.unwrap();
    assert!(metrics.contains("bellwether_backup_age_seconds "), "{metrics}");
}

#[tokio::test]
async fn only_one_backup_is_taken_at_a_time() {
    let world = World::new().await;
    let job = json!({"schedule": {"delay": "1h"}, "command": "true"});
    let jobs = json!({"jobs": vec![job; 10_000]});
    let (status, _) = world.send("POST", "/v1/jobs:batch", jobs.to_string()).await;
    assert_eq!(status, 200);
    let body = json!({"to": to(&world)}).to_string();
    let (first, _) = world.send("POST", "/v1/backups", body.clone()).await;
    let (second, problem) = world.send("POST", "/v1/backups", body).await;
    assert_eq!((first, second), (202, 409), "{problem}");
    assert_eq!(problem["code"], "backup_running");
    assert_eq!(settled(&world).await.len(), 1);
}

#[tokio::test]
async fn a_place_that_is_none_is_refused_and_one_that_fails_is_told() {
    let world = World::new().await;
    for (body, code) in [
        (Value::Null, "invalid_type"),
        (json!({}), "no_backup_place"),
        (json!({"to": ""}), "invalid_backup_place"),
        (json!({"to": "a".repeat(1_025)}), "invalid_backup_place"),
        (json!({"to": "relative"}), "invalid_backup_place"),
        (json!({"to": "ftp://host"}), "invalid_backup_place"),
        (json!({"to": 7}), "invalid_type"),
        (json!({"where": "/x"}), "unknown_field"),
    ] {
        let (status, problem) = world.send("POST", "/v1/backups", body.to_string()).await;
        assert!((400..=422).contains(&status), "{status} {body}");
        assert_eq!(problem["code"], code, "{body}");
    }
    let (status, problem) = world.send("POST", "/v1/backups", "").await;
    assert_eq!((status, &problem["code"]), (422, &json!("no_backup_place")));

    let file = world.dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let body = json!({"to": file.join("below")}).to_string();
    assert_eq!(world.send("POST", "/v1/backups", body).await.0, 202);
    let [backup] = &settled(&world).await[..] else { panic!("it is remembered") };
    assert_eq!(backup.state, BackupState::Failed);
    assert!(backup.error.as_ref().unwrap().contains("no place for backups"), "{backup:?}");
    let metrics = world.client.metrics().await.unwrap();
    assert!(metrics.contains("bellwether_backups_failed_total 1"), "{metrics}");
    assert!(!metrics.contains("backup_age"), "there is none whose age could be told");
}

#[tokio::test]
async fn only_those_who_may_do_everything_everywhere_take_backups() {
    let world = World::new().await;
    for (name, role, namespace) in
        [("editor", Role::Editor, None), ("team", Role::Admin, Some("team".to_owned()))]
    {
        let name = name.to_owned();
        let spec = TokenSpec { name, role, namespace, expires_after: None };
        let token = world.client.create_token(&spec).await.unwrap().secret;
        for method in ["GET", "POST"] {
            let (status, _) = world.send_as(Some(&token), method, "/v1/backups", "").await;
            assert_eq!(status, 403, "{method} {spec:?}");
        }
    }
}

#[tokio::test]
async fn r114_backups_are_taken_on_a_schedule_and_the_oldest_go() {
    let world = World::with(|config| {
        let dir = config.data_dir.parent().unwrap().join("backups");
        config.backup.to = Some(dir.to_str().unwrap().to_owned());
        config.backup.every = Some(Duration::from_millis(50));
        config.backup.keep = 2;
    })
    .await;
    let place = Place::open(&to(&world)).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    world
        .until("five backups were taken", async || {
            seen.extend(list(&place, 10).await.unwrap().into_iter().map(|listed| listed.name));
            seen.len() >= 5
        })
        .await;
    world.server.shutdown().await.unwrap();
    let left = list(&place, 10).await.unwrap();
    let complete = left.iter().filter(|listed| listed.manifest.is_some()).count();
    assert!((2..=3).contains(&complete), "two are kept: {left:?}");
}

#[tokio::test]
async fn a_server_that_is_started_again_counts_from_the_newest_backup() {
    let world = World::with(|config| {
        let dir = config.data_dir.parent().unwrap().join("backups");
        config.backup.to = Some(dir.to_str().unwrap().to_owned());
        config.backup.every = Some(Duration::from_secs(3_600));
    })
    .await;
    let first = settled(&world).await;
    let World { server, dir, .. } = world;
    server.shutdown().await.unwrap();
    let mut config = config(&dir);
    config.backup.to = Some(dir.path().join("backups").to_str().unwrap().to_owned());
    config.backup.every = Some(Duration::from_secs(3_600));
    let server = bellwether_server::start(config).await.unwrap();
    let client = bellwether_client::Client::new(&server.local_addr().to_string()).unwrap();
    let world = World { server, client, dir };
    world
        .until("the age of the backup is known", async || {
            world.client.metrics().await.unwrap().contains("bellwether_backup_age_seconds ")
        })
        .await;
    assert_eq!(world.client.backups().await.unwrap().items, first, "none was taken");
}

#[tokio::test]
async fn settings_that_do_not_go_together_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut no_place = config(&dir);
    no_place.backup.every = Some(Duration::from_secs(60));
    let error = bellwether_server::start(no_place).await.err().unwrap().to_string();
    assert!(error.contains("--backup-to"), "{error}");
    let mut relative = config(&dir);
    relative.backup.to = Some("backups".to_owned());
    assert!(bellwether_server::start(relative).await.is_err());
    let half = config(&dir);
    std::fs::create_dir_all(&half.data_dir).unwrap();
    std::fs::write(half.data_dir.join(bellwether_backup::MARKER), "").unwrap();
    let error = bellwether_server::start(half).await.err().unwrap().to_string();
    assert!(error.contains("interrupted restore"), "{error}");
}
