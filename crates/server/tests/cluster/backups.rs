//! Backups on a schedule, in a place that all nodes share; and of what one node takes, asked at others.

use std::time::{Duration, Instant};

use bellwether_api::{Backup, BackupSpec, BackupState};
use bellwether_backup::{Manifest, Place, list};
use serde_json::{Value, json};

use crate::nodes::{Node, PATIENCE, Trio, named, until};

const EVERY: Duration = Duration::from_secs(1);

async fn tells_the_age(node: &Node) -> bool {
    node.client.metrics().await.unwrap().contains("bellwether_backup_age_seconds ")
}

/// R114: whoever leads shard 0 takes them, when they are due and not because it leads now; and every
/// node knows how old the newest is.
#[tokio::test(flavor = "multi_thread")]
async fn r114_one_node_of_all_takes_backups_and_no_more_of_them_when_nodes_stop() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().to_str().unwrap().to_owned();
    let place = Place::open(&to).unwrap();
    let mut trio = Trio::start_with(move |config| {
        config.backup.to = Some(to.clone());
        config.backup.every = Some(EVERY);
        config.backup.keep = 1_000;
    })
    .await;
    let complete = async || {
        let all = list(&place, 1_000).await.unwrap();
        let mut all: Vec<Manifest> = all.into_iter().filter_map(|listed| listed.manifest).collect();
        all.sort_by_key(|manifest| manifest.begun_ms);
        all
    };
    for turn in 0..3 {
        let gone = trio.take_down(turn).await;
        let before = complete().await.len();
        trio.until("the others go on", async || complete().await.len() > before + 1).await;
        trio.bring_back(turn, gone).await;
    }
    for node in &trio.nodes {
        trio.until("every node tells the age", async || tells_the_age(node).await).await;
    }
    trio.stop().await;
    for pair in complete().await.windows(2) {
        let (gap, since) =
            (pair[1].begun_ms - pair[0].begun_ms, pair[1].begun_ms - pair[0].ended_ms);
        // One that was not complete yet could not be known.
        let unknown = since < EVERY.as_millis() as i64 / 3;
        assert!(unknown || gap >= EVERY.as_millis() as i64, "{since} ms after another: {pair:?}");
    }
}

/// Jobs that a backup takes a while to copy.
async fn fill(trio: &Trio) {
    for n in 0..200 {
        let payload = "x".repeat(10_000);
        let spec = json!({"schedule": {"delay": "1h"}, "job_type": "t", "payload": payload});
        trio.nodes[n % 3].create(spec).await;
    }
}

/// A backup as a node tells it, by its name and in the list, which must not know less. On a machine
/// that is busy a node may answer too late for the one that was asked: then it is asked again.
async fn seen(at: &Node, name: &str) -> Backup {
    let mut told = None;
    until("all nodes answer in time", async || {
        let one = match at.client.backup(name).await {
            Ok(one) => one,
            Err(error) => {
                assert_eq!(error.code(), Some("node_silent"), "{error}");
                return false;
            }
        };
        let listed = at.client.backups().await.unwrap();
        let all = listed.missing_nodes.is_empty();
        told = Some((one, listed));
        all
    })
    .await;
    let (one, listed) = told.unwrap();
    let listed: Vec<Backup> = listed.items.into_iter().filter(|b| b.name == name).collect();
    let [listed] = &listed[..] else { panic!("{name} is not there once: {listed:?}") };
    // One that runs may end between the two answers.
    let ended = matches!(listed.state, BackupState::Complete | BackupState::Failed);
    let may_end = one.state == BackupState::Running;
    assert!(listed.state == one.state || may_end && ended, "{one:?} {listed:?}");
    assert!(listed.shards_done >= one.shards_done, "{one:?} {listed:?}");
    one
}

/// Follows a backup at another node than the one that takes it. Whether it was seen on its way.
async fn follow(at: &Node, backup: &Backup, to: &str) -> bool {
    let (mut on_its_way, mut done, begun) = (false, 0, Instant::now());
    loop {
        assert!(begun.elapsed() < PATIENCE, "{} does not end", backup.name);
        let now = seen(at, &backup.name).await;
        assert_eq!((now.to.as_str(), now.shards), (to, 4), "{now:?}");
        assert!(now.shards_done >= done, "{now:?} after {done}");
        done = now.shards_done;
        match now.state {
            BackupState::Running => {
                assert_eq!(now.node.as_deref(), Some("a"), "{now:?}");
                on_its_way = true;
            }
            BackupState::Complete => {
                assert_eq!(now.shards_done, 4, "{now:?}");
                return on_its_way;
            }
            _ => panic!("{now:?}"),
        }
    }
}

/// R21: any node tells how far a backup is that another takes, and what became of it; wherever it goes.
#[tokio::test(flavor = "multi_thread")]
async fn r21_r114_a_backup_that_one_node_takes_is_followed_at_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let shared = dir.path().join("shared").to_str().unwrap().to_owned();
    let configured = shared.clone();
    let mut trio =
        Trio::start_with(named(move |config| config.backup.to = Some(configured.clone()))).await;
    fill(&trio).await;
    let own = dir.path().join("own").to_str().unwrap().to_owned();
    for to in [own, shared] {
        // It may be over before it is asked for, but not every time.
        trio.until("one is seen on its way", async || {
            let mut on_its_way = false;
            let spec = BackupSpec { to: Some(to.clone()) };
            let backup = trio.nodes[0].client.create_backup(&spec).await.unwrap();
            assert_eq!(backup.node.as_deref(), Some("a"));
            for node in &trio.nodes[1..] {
                on_its_way |= follow(node, &backup, &to).await;
            }
            on_its_way
        })
        .await;
    }
    // One that fails is told anywhere as well, until its node is gone. Then nobody knows.
    std::fs::write(dir.path().join("file"), "").unwrap();
    let spec = BackupSpec { to: Some(dir.path().join("file/x").to_str().unwrap().to_owned()) };
    let backup = trio.nodes[0].client.create_backup(&spec).await.unwrap();
    for node in &trio.nodes[1..] {
        trio.until("it has failed", async || {
            let now = seen(node, &backup.name).await;
            now.state == BackupState::Failed && now.error.is_some()
        })
        .await;
    }
    let path = format!("/v1/backups/{}", backup.name);
    let gone = trio.take_down(0).await;
    let (status, answer) = trio.nodes[0].send("GET", &path, Value::Null).await;
    assert_eq!((status, &answer["code"]), (503, &json!("node_silent")), "{answer}");
    trio.until("all others are heard", async || {
        let (_, listed) = trio.nodes[0].send("GET", "/v1/backups", Value::Null).await;
        let missing = listed["missing_nodes"].as_array().unwrap();
        assert!(missing.contains(&json!("a")), "{listed}");
        missing.len() == 1
    })
    .await;
    trio.bring_back(0, gone).await;
    trio.until("all nodes are heard again, and none knows of it", async || {
        let (status, answer) = trio.nodes[1].send("GET", &path, Value::Null).await;
        status == 404 && answer["code"] == "backup_not_found"
    })
    .await;
    trio.stop().await;
}

/// R21: whoever takes the backups of the schedule, others never call one incomplete that is under way.
#[tokio::test(flavor = "multi_thread")]
async fn r21_r114_a_scheduled_backup_is_seen_on_its_way_at_every_node() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().to_str().unwrap().to_owned();
    let trio = Trio::start_with(named(move |config| {
        config.backup.to = Some(to.clone());
        config.backup.every = Some(EVERY);
        config.backup.keep = 1_000;
    }))
    .await;
    fill(&trio).await;
    for node in &trio.nodes {
        trio.until("one is seen on its way", async || {
            let listed = node.client.backups().await.unwrap();
            let of = |state| listed.items.iter().filter(move |backup| backup.state == state);
            let told = listed.missing_nodes.is_empty();
            assert!(!told || of(BackupState::Incomplete).count() == 0, "{listed:?}");
            of(BackupState::Running).any(|backup| backup.node.is_some())
        })
        .await;
    }
    trio.stop().await;
}
