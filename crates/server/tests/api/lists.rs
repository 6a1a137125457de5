//! Lists, filters and cursors.

use std::collections::BTreeSet;

use bellwether_api::RunStatus;
use bellwether_client::JobFilter;
use futures::TryStreamExt;
use serde_json::{Value, json};

use crate::world::{World, now};

#[tokio::test]
async fn r23_all_jobs_of_an_owner_and_exactly_theirs() {
    let world = World::new().await;
    let mut specs = Vec::new();
    for n in 0..120 {
        let owner = if n % 3 == 0 { "ana" } else { "bo" };
        specs.push(json!({"schedule": {"delay": "1h"}, "command": "true", "owner": owner, "group": format!("g{}", n % 2),
            "labels": {"n": format!("{}", n % 5)}}));
    }
    let (_, answer) =
        world.send("POST", "/v1/jobs:batch", json!({"jobs": specs}).to_string()).await;
    assert_eq!(answer["created"], 120);
    let mut filter = JobFilter { owner: Some("ana".into()), ..JobFilter::default() };
    filter.limit = Some(7);
    let jobs: Vec<_> = world.client.jobs_all(filter).try_collect().await.unwrap();
    assert_eq!(jobs.len(), 40);
    let ids: BTreeSet<&str> = jobs.iter().map(|job| job.info.id.as_str()).collect();
    assert_eq!(ids.len(), 40, "no job comes twice");
    assert!(jobs.iter().all(|job| job.spec.owner.as_deref() == Some("ana")));
    assert!(jobs.windows(2).all(|two| two[0].info.id > two[1].info.id), "newest first");
    for (query, count) in [
        ("group=g1", 60),
        ("label=n%3D2", 24),
        ("owner=ana&group=g0&label=n%3D0", 4),
        ("owner=nobody", 0),
    ] {
        let (status, page) = world.send("GET", &format!("/v1/jobs?limit=1000&{query}"), "").await;
        assert_eq!((status, page["items"].as_array().unwrap().len()), (200, count), "{query}");
    }
}

#[tokio::test]
async fn lists_of_all_jobs_have_correct_cursors() {
    let world = World::new().await;
    let mut made = BTreeSet::new();
    for n in 0..30 {
        // Both forms, with and without keys, over all shards.
        let spec = match n % 3 {
            0 => json!({"schedule": "every 1h", "command": "true"}),
            1 => {
                json!({"schedule": {"delay": "1h"}, "command": "true", "key": format!("list-{n:02}")})
            }
            _ => json!({"schedule": {"delay": "1h"}, "command": "true"}),
        };
        made.insert(world.add(spec).await.info.id);
    }
    let mut found = Vec::new();
    let mut cursor = String::new();
    loop {
        let (status, page) = world.send("GET", &format!("/v1/jobs?limit=4{cursor}"), "").await;
        assert_eq!(status, 200);
        found.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|job| job["id"].as_str().unwrap().to_owned()),
        );
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(found.len(), 30);
    assert_eq!(found.iter().cloned().collect::<BTreeSet<_>>(), made);
    let (_, page) = world.send("GET", "/v1/jobs?key_prefix=list-1&limit=2", "").await;
    let keys: Vec<&str> =
        page["items"].as_array().unwrap().iter().map(|job| job["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["list-10", "list-13"]);
    let next = page["next_cursor"].as_str().unwrap();
    let (_, page) =
        world.send("GET", &format!("/v1/jobs?key_prefix=list-1&limit=2&cursor={next}"), "").await;
    assert_eq!(page["items"][0]["key"], "list-16");
}

#[tokio::test]
async fn dead_letters_are_the_runs_that_failed() {
    let world = World::new().await;
    let mut failed = BTreeSet::new();
    for n in 0..9 {
        let job = world.add(now(if n % 3 == 0 { "exit 1" } else { "true" })).await;
        let run = world.first_run(&job).await;
        if run.status == RunStatus::Failed {
            failed.insert(run.id);
        }
    }
    assert_eq!(failed.len(), 3);
    let all = async |query: &str| -> Vec<Value> {
        let (mut items, mut cursor) = (Vec::new(), String::new());
        loop {
            let (status, page) =
                world.send("GET", &format!("/v1/runs?limit=2{query}{cursor}"), "").await;
            assert_eq!(status, 200, "{page}");
            items.extend(page["items"].as_array().unwrap().iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return items,
            }
        }
    };
    let dead: BTreeSet<String> = all("&status=failed")
        .await
        .iter()
        .map(|run| run["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(dead, failed);
    assert_eq!(all("&status=succeeded").await.len(), 6);
    assert_eq!(all("").await.len(), 9);
    assert_eq!(all("&status=running").await.len(), 0);
}

#[tokio::test]
async fn groups_are_listed_by_name_page_by_page() {
    let world = World::new().await;
    let mut specs = Vec::new();
    let names = ["b", "a", "a-long-one", "a/slash", "ab", "ünicode"];
    for (n, name) in names.iter().cycle().take(names.len() * 5).enumerate() {
        let namespace = if n < names.len() * 4 { "default" } else { "team" };
        specs.push(json!({"schedule": {"delay": "1h"}, "command": "true", "group": name, "namespace": namespace}));
    }
    let (_, answer) =
        world.send("POST", "/v1/jobs:batch", json!({"jobs": specs}).to_string()).await;
    assert_eq!(answer["created"], 30, "{answer}");
    world.send("POST", "/v1/groups/aa/pause", "").await;
    let list = async |query: &str| {
        let mut found: Vec<(String, String, u64)> = Vec::new();
        let mut cursor = String::new();
        loop {
            let path = format!("/v1/groups?limit=2{query}{cursor}");
            let (status, page) = world.send("GET", &path, "").await;
            assert_eq!(status, 200, "{page}");
            let items = page["items"].as_array().unwrap();
            let text = |item: &Value, name: &str| item[name].as_str().unwrap().to_owned();
            found.extend(items.iter().map(|item| {
                (text(item, "namespace"), text(item, "name"), item["jobs"].as_u64().unwrap())
            }));
            match page["next_cursor"].as_str() {
                Some(next) => {
                    assert_eq!(items.len(), 2);
                    cursor = format!("&cursor={}", next.replace('/', "%2F"));
                }
                None => return found,
            }
        }
    };
    let mut sorted = [names.to_vec(), vec!["aa"]].concat();
    sorted.sort_unstable();
    let jobs = |name: &str| if name == "aa" { 0 } else { 4 };
    let in_default = sorted.iter().map(|name| ("default".into(), (*name).into(), jobs(name)));
    let wanted: Vec<_> = in_default.collect();
    sorted.retain(|name| *name != "aa");
    assert_eq!(list("&namespace=default").await, wanted);
    let in_team = sorted.iter().map(|name| ("team".into(), (*name).into(), 1));
    let all: Vec<_> = wanted.into_iter().chain(in_team).collect();
    assert_eq!(list("").await, all);
}

#[tokio::test]
async fn cursors_with_extreme_numbers_are_harmless() {
    let world = World::new().await;
    let job = world.add(now("true")).await;
    world.first_run(&job).await;
    let id = &job.info.id;
    let (most, least) = (i64::MAX, i64::MIN);
    for path in [
        format!("/v1/audit?cursor={most}.0.4294967295"),
        format!("/v1/audit?cursor={least}.65535.0"),
        format!("/v1/runs?cursor=ended.{most}.run_{}-4294967295", &id[4..]),
        format!("/v1/runs?cursor=ended.{least}.run_{}-0", &id[4..]),
        format!("/v1/runs?cursor=open.run_{}-4294967295", &id[4..]),
        format!("/v1/jobs/{id}/runs?cursor=4294967295"),
        format!("/v1/jobs/{id}/runs?cursor=0"),
        format!("/v1/jobs/{id}/ticks?cursor={most}.4294967295"),
        format!("/v1/jobs/{id}/ticks?cursor={least}.0"),
    ] {
        let (status, answer) = world.send("GET", &path, "").await;
        assert!(status == 200 || status == 400, "{path}: {status} {answer}");
    }
}
