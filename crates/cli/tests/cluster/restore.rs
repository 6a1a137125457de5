//! All nodes of a cluster are lost, and what a backup has is restored into a new one.

use std::collections::BTreeMap;
use std::path::Path;

use bellwether_api::{Job, JobSpec, JobStatus};
use bellwether_client::JobFilter;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::insist::insist;
use crate::record::Record;
use crate::removal::cli;
use crate::server::{Server, Trio, until};

/// Jobs of each kind: enough that every shard has some.
const JOBS: usize = 12;
/// Nodes of a cluster.
const NODES: [&str; 3] = ["a", "b", "c"];

/// How often jobs have begun, by their keys.
fn begun(record: &Record) -> BTreeMap<String, usize> {
    let mut begun = BTreeMap::new();
    for effect in record.read().into_iter().filter(|effect| effect.begins()) {
        *begun.entry(effect.key).or_default() += 1;
    }
    begun
}

fn times(record: &Record, key: &str) -> usize {
    begun(record).get(key).copied().unwrap_or(0)
}

/// Creates jobs through all nodes at once. Their ids by their keys.
async fn create(trio: &Trio, prefix: &str, spec: Value) -> BTreeMap<String, String> {
    let creating = (0..JOBS).map(async |n| {
        let key = format!("{prefix}-{n}");
        let mut spec = spec.clone();
        spec["key"] = key.clone().into();
        let spec: JobSpec = serde_json::from_value(spec).unwrap();
        let client = &trio.nodes[n % trio.nodes.len()].client;
        let created = insist(async || client.create_job(spec.clone()).await).await;
        (key, created.job.info.id)
    });
    join_all(creating).await.into_iter().collect()
}

fn is_held(job: &Job) -> bool {
    let by_restore = |mark: &bellwether_api::Mark| mark.by == "restore";
    job.info.status == JobStatus::Paused && job.info.paused.as_ref().is_some_and(by_restore)
}

/// Takes a backup at one node.
fn back_up(node: &Server, to: &Path) {
    let to = to.to_str().unwrap();
    let (code, said) = cli(node, &["cluster", "backup", "--to", to, "--wait"]);
    assert_eq!(code, 0, "{said}");
}

/// Restores the newest backup for one node.
fn restore(dir: &Path, from: &Path) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bellwether"));
    command.args(["cluster", "restore", "--from"]).arg(from);
    let output = command.arg("--data-dir").arg(dir).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Every job is there as a node sees it: by its key, under the same id, and in its lists.
async fn all_there(node: &Server, jobs: &BTreeMap<String, String>) {
    for (key, id) in jobs {
        let found = node.client.job(key).await;
        let found = found.unwrap_or_else(|error| {
            panic!("R114: {key}, {id}, at {}: {error}: {}", node.name(), node.log())
        });
        assert_eq!(found.info.id, *id, "R114: {key} at {}", node.name());
    }
    until("all jobs are listed", async || {
        let filter = JobFilter { limit: Some(500), ..JobFilter::default() };
        let Ok(listed) = node.client.jobs(&filter).await else { return false };
        let listed: Vec<_> = listed.items.into_iter().map(|job| job.info.id).collect();
        jobs.values().all(|id| listed.contains(id))
    })
    .await;
}

/// R113, R114: what was acknowledged before the backup is there again, at every node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r113_r114_a_cluster_that_is_lost_is_restored_at_one_node_and_the_others_join() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("backups");
    let mut trio = Trio::start(dir.path()).await;
    let record = Record::begin(dir.path(), "127.0.0.1").await;
    let job = |schedule: Value, delivery: &str| json!({"schedule": schedule, "delivery": delivery, "command": record.command(0.0)});
    let (once, again) = ("at_most_once", "at_least_once");
    let mut jobs = create(&trio, "far", job(json!({"delay": "30d"}), once)).await;
    jobs.extend(create(&trio, "ticks-once", job(json!({"every": "2s"}), once)).await);
    jobs.extend(create(&trio, "ticks-again", job(json!({"every": "2s"}), again)).await);
    // These are due in the gap.
    jobs.extend(create(&trio, "once", job(json!({"delay": "30s"}), once)).await);
    jobs.extend(create(&trio, "again", job(json!({"delay": "30s"}), again)).await);
    tokio::task::block_in_place(|| back_up(&trio.nodes[1], &place));
    let early =
        begun(&record).keys().any(|key| key.starts_with("once") || key.starts_with("again"));
    assert!(!early, "the backup took too long to show anything: {:?}", begun(&record));
    let gap = ["once", "again", "ticks-once", "ticks-again"];
    let gap: Vec<_> =
        gap.iter().flat_map(|kind| (0..JOBS).map(move |n| format!("{kind}-{n}"))).collect();
    until("all have run in the gap", async || gap.iter().all(|key| times(&record, key) > 0)).await;

    trio.nodes.iter_mut().for_each(Server::kill);
    drop(trio);
    NODES.iter().for_each(|name| std::fs::remove_dir_all(dir.path().join(name)).unwrap());
    tokio::task::block_in_place(|| restore(&dir.path().join("a"), &place));
    // By now what was started last has said so as well.
    let before = begun(&record);
    // The first has what was restored, the others come with empty directories.
    let mut trio = Trio::start(dir.path()).await;
    for node in &trio.nodes {
        all_there(node, &jobs).await;
        for key in gap.iter().filter(|key| key.contains("once")) {
            let job = node.client.job(key).await.unwrap();
            assert!(is_held(&job), "R114: {key} at {}: {:?}", node.name(), job.info);
        }
    }
    until("what may run again does", async || {
        let mut again = gap.iter().filter(|key| key.contains("again"));
        again.all(|key| times(&record, key) > before[key])
    })
    .await;
    // The others have it all, too.
    trio.nodes.remove(0).kill();
    until("the others lead", async || {
        let Ok(now) = trio.nodes[0].client.cluster().await else { return false };
        now.shards.iter().all(|shard| shard.leader.as_deref().is_some_and(|leader| leader != "a"))
    })
    .await;
    for node in &trio.nodes {
        all_there(node, &jobs).await;
    }
    let later = begun(&record);
    for key in gap.iter().filter(|key| key.contains("once")) {
        assert_eq!(later[key], before[key], "R114: {key} was held");
    }
    // Somebody has looked, and lets it run.
    until("it is resumed", async || {
        let client = &trio.nodes[1].client;
        client.resume_job("once-0").await.is_ok()
            || client.job("once-0").await.is_ok_and(|job| !is_held(&job))
    })
    .await;
    until("it runs", async || times(&record, "once-0") > before["once-0"]).await;
}
