//! Five nodes with three replicas of each shard: no node has everything, and any of them answers
//! everything.

use std::collections::BTreeSet;

use bellwether_api::{BackupSpec, BackupState, JobStatus, NewBatch, PauseRequest, RunStatus};
use bellwether_backup::{Place, Progress, find, verify};
use bellwether_client::{BatchRunFilter, Client, JobFilter, OutputFilter, PageFilter, RunFilter};
use futures::TryStreamExt;
use serde_json::json;

use crate::nodes::{Trio, spec_of};

const SHARDS: u16 = 5;

async fn five() -> Trio {
    let five = Trio::start_many(5, |config| config.shards = Some(SHARDS)).await;
    five.until("replicas are where they belong", async || {
        let cluster = five.nodes[0].client.cluster().await.unwrap();
        let replicas = cluster.nodes.iter().map(|node| node.replicas).sum::<u64>();
        // Three of each, and shard 0 everywhere.
        replicas == u64::from(SHARDS - 1) * 3 + 5
    })
    .await;
    five
}

/// All pages of the list of jobs: each job as often as it is listed.
async fn all_jobs(client: &Client, between: impl AsyncFn()) -> Vec<String> {
    let mut filter = JobFilter { limit: Some(7), ..JobFilter::default() };
    let mut names = Vec::new();
    loop {
        let page = client.jobs(&filter).await.unwrap();
        names.extend(page.items.into_iter().map(|job| job.info.id));
        match page.next_cursor {
            Some(cursor) => filter.cursor = Some(cursor),
            None => return names,
        }
        between().await;
    }
}

async fn printed(client: &Client, run: &str) -> String {
    let output = client.output(run, OutputFilter::default()).await.unwrap();
    let bytes: Vec<_> = output.try_collect().await.unwrap();
    String::from_utf8(bytes.concat()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn r64_what_is_done_at_one_node_is_seen_at_once_at_every_other() {
    let five = five().await;
    let client = |n: usize| &five.nodes[n % 5].client;
    for n in 0..20 {
        let key = format!("job-{n}");
        let spec = json!({
            "key": key, "schedule": "every 1h", "job_type": "bellwether.noop", "group": "all",
        });
        let made = client(n).create_job(spec_of(spec.clone())).await.unwrap().job;
        let read = client(n + 1).job(&key).await.unwrap();
        assert_eq!(read.info.id, made.info.id);
        client(n + 2).pause_job(&made.info.id, &PauseRequest::default()).await.unwrap();
        let paused = client(n + 3).job(&made.info.id).await.unwrap();
        assert_eq!(paused.info.status, JobStatus::Paused);
        let again = client(n + 4).create_job(spec_of(spec)).await.unwrap();
        assert_eq!((again.job.info.id, again.new), (made.info.id.clone(), false));
        client(n).resume_job(&key).await.unwrap();
        let run = client(n + 1).trigger_job(&key).await.unwrap();
        client(n + 2).run(&run).await.unwrap();
        let why = client(n + 3).why(&key, None).await.unwrap();
        assert!(!why.answer.is_empty());
        assert_eq!(client(n + 4).next_times(&key, 2).await.unwrap().times.len(), 2);
    }
    for node in &five.nodes {
        five.until("every node counts all jobs of the group", async || {
            let groups = node.client.groups(&PageFilter::default()).await.unwrap().items;
            groups.len() == 1 && groups[0].jobs == 20
        })
        .await;
        let audit = node.client.audit(&PageFilter::default()).await.unwrap().items;
        assert!(audit.iter().any(|entry| entry.action == "job.create"), "{audit:?}");
    }
    client(0).delete_job("job-7").await.unwrap();
    for n in 0..5 {
        assert!(client(n).job("job-7").await.is_err(), "it is gone");
    }
    five.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r64_lists_of_every_node_have_everything_once_also_while_a_node_stops() {
    let mut five = five().await;
    let mut made = BTreeSet::new();
    for n in 0..60 {
        let schedule = if n % 2 == 0 { json!({"delay": "1h"}) } else { json!("every 1h") };
        let spec = json!({"key": format!("{n:02}"), "schedule": schedule, "command": "true"});
        made.insert(five.nodes[n % 5].client.create_job(spec_of(spec)).await.unwrap().job.info.id);
    }
    for node in &five.nodes {
        five.until("every node lists all jobs", async || {
            all_jobs(&node.client, async || {}).await.len() == 60
        })
        .await;
        let listed = all_jobs(&node.client, async || {}).await;
        assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), made);
        let filter = JobFilter { key_prefix: Some("1".to_owned()), ..JobFilter::default() };
        let found = node.client.jobs(&filter).await.unwrap().items;
        let keys: Vec<_> = found.into_iter().map(|job| job.spec.key.unwrap()).collect();
        assert_eq!(keys, (10..20).map(|n| n.to_string()).collect::<Vec<_>>());
    }
    let stopping = tokio::sync::Mutex::new(Some(five.nodes.pop().unwrap()));
    let listed = all_jobs(&five.nodes[0].client, async || {
        if let Some(node) = stopping.lock().await.take() {
            node.server.shutdown().await.unwrap();
        }
    })
    .await;
    assert_eq!((listed.len(), listed.into_iter().collect::<BTreeSet<_>>()), (60, made));
    five.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r64_runs_output_and_batches_can_be_read_at_every_node() {
    let five = five().await;
    for n in 0..10 {
        let spec = json!({"key": format!("{n}"), "schedule": {"delay": "1s"}, "command": format!("echo {n}")});
        five.nodes[n % 5].client.create_job(spec_of(spec)).await.unwrap();
    }
    let batch: NewBatch = serde_json::from_value(json!({
        "key": "many", "template": {"job_type": "bellwether.noop"}, "items": (0..30).collect::<Vec<_>>(),
    }))
    .unwrap();
    let batch = five.nodes[3].client.create_batch(batch).await.unwrap().batch;
    for node in &five.nodes {
        five.until("the batch is over", async || {
            let seen = node.client.batch("many").await.unwrap();
            assert_eq!(seen.id, batch.id);
            seen.succeeded == 30
        })
        .await;
        let runs = node.client.batch_runs("many", &BatchRunFilter::default()).await.unwrap();
        assert_eq!(runs.items.len(), 30);
        assert_eq!(node.client.batches(&PageFilter::default()).await.unwrap().items.len(), 1);
        five.until("all jobs have run", async || {
            let filter = RunFilter { status: Some(RunStatus::Succeeded), ..RunFilter::default() };
            node.client.runs(&filter).await.unwrap().items.len() == 40
        })
        .await;
        for n in 0..10 {
            let key = n.to_string();
            let runs = node.client.job_runs(&key, &PageFilter::default()).await.unwrap().items;
            assert_eq!(runs.len(), 1);
            assert_eq!(printed(&node.client, &runs[0].id).await, format!("{n}\n"));
            let ticks = node.client.ticks(&key, &PageFilter::default()).await.unwrap().items;
            assert_eq!(ticks.len(), 1);
        }
    }
    five.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r114_a_backup_has_all_shards_whichever_node_takes_it() {
    let five = five().await;
    for n in 0..30 {
        let spec = json!({"key": n.to_string(), "schedule": "every 1h", "command": "true"});
        five.nodes[n % 5].client.create_job(spec_of(spec)).await.unwrap();
    }
    let mut rows = BTreeSet::new();
    for node in &five.nodes {
        let to = node.dir.path().join("backups").to_str().unwrap().to_owned();
        let spec = BackupSpec { to: Some(to.clone()) };
        let begun = node.client.create_backup(&spec).await.unwrap();
        five.until("the backup has been taken", async || {
            let all = node.client.backups().await.unwrap().items;
            let taken = all.into_iter().find(|backup| backup.name == begun.name).unwrap();
            assert_ne!(taken.state, BackupState::Failed, "{taken:?}");
            taken.state == BackupState::Complete
        })
        .await;
        let place = Place::open(&to).unwrap();
        let manifest = find(&place, Some(&begun.name)).await.unwrap();
        assert_eq!(manifest.shards.len(), usize::from(SHARDS));
        let kept: u64 =
            manifest.shards.iter().flat_map(|shard| &shard.rows.parts).map(|p| p.rows).sum();
        rows.insert(kept);
        let verdict = verify(&place, manifest, &Progress::default().into()).await.unwrap();
        assert_eq!(verdict.problems, Vec::<String>::new());
    }
    // Nothing happens meanwhile, so all of them have the same.
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert!(rows.first().is_some_and(|rows| *rows > 60), "each job has two rows: {rows:?}");
    five.stop().await;
}
