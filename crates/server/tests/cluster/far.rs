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

#[tokio::test(flavor = "multi_thread")]
async fn r64_r114_any_of_five_nodes_answers_everything() {
    let five = five().await;
    check_what_is_done_is_seen_at_once(&five).await;
    check_runs_output_and_batches(&five).await;
    check_backups(&five).await;
    check_lists(five).await;
}

async fn five() -> Trio {
    let five = Trio::start_many(5, |config| config.shards = Some(SHARDS)).await;
    five.until("replicas are where they belong", async || {
        let cluster = five.nodes[0].client.cluster().await.unwrap();
        let replicas = cluster.nodes.iter().map(|node| node.replicas).sum::<u64>();
        // Three of each, and shard 0 everywhere.
        cluster.shards[1..].iter().all(|shard| shard.voters.len() == 3)
            && replicas == u64::from(SHARDS - 1) * 3 + 5
    })
    .await;
    five
}

/// All pages of the list of jobs that wait, of a group or of all: each as often as it is listed.
async fn all_jobs(client: &Client, group: Option<&str>, between: impl AsyncFn()) -> Vec<String> {
    let (group, status) = (group.map(str::to_owned), Some(JobStatus::Scheduled));
    let mut filter = JobFilter { limit: Some(7), group, status, ..JobFilter::default() };
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

/// What is done at one node is seen at once at every other.
async fn check_what_is_done_is_seen_at_once(five: &Trio) {
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
}

/// Lists of every node have everything once, also while a node stops.
async fn check_lists(mut five: Trio) {
    let group = Some("listed");
    let mut made = BTreeSet::new();
    for n in 0..60 {
        let schedule = if n % 2 == 0 { json!({"delay": "1h"}) } else { json!("every 1h") };
        let spec = json!({
            "key": format!("{n:02}"), "schedule": schedule, "command": "true", "group": group,
        });
        made.insert(five.nodes[n % 5].client.create_job(spec_of(spec)).await.unwrap().job.info.id);
    }
    let once = |listed: Vec<String>| {
        let names: BTreeSet<String> = listed.iter().cloned().collect();
        assert_eq!(names.len(), listed.len(), "each once: {listed:?}");
        names
    };
    for node in &five.nodes {
        five.until("every node lists all jobs", async || {
            all_jobs(&node.client, group, async || {}).await.len() == 60
        })
        .await;
        assert_eq!(once(all_jobs(&node.client, group, async || {}).await), made);
        assert!(once(all_jobs(&node.client, None, async || {}).await).is_superset(&made));
        let filter = JobFilter { key_prefix: Some("1".to_owned()), ..JobFilter::default() };
        let found = node.client.jobs(&filter).await.unwrap().items;
        let keys: Vec<_> = found.into_iter().map(|job| job.spec.key.unwrap()).collect();
        assert_eq!(keys, (10..20).map(|n| n.to_string()).collect::<Vec<_>>());
    }
    let stopping = tokio::sync::Mutex::new(Some(five.nodes.pop().unwrap()));
    let stop = async || {
        if let Some(node) = stopping.lock().await.take() {
            node.server.shutdown().await.unwrap();
        }
    };
    assert!(once(all_jobs(&five.nodes[0].client, None, stop).await).is_superset(&made));
    five.stop().await;
}

/// Runs, output and batches can be read at every node.
async fn check_runs_output_and_batches(five: &Trio) {
    for n in 0..10 {
        let spec = json!({"key": format!("say-{n}"), "schedule": {"delay": "1s"}, "command": format!("echo {n}")});
        five.nodes[n % 5].client.create_job(spec_of(spec)).await.unwrap();
    }
    let batch: NewBatch = serde_json::from_value(json!({
        "key": "many", "template": {"job_type": "bellwether.noop"}, "items": (0..30).collect::<Vec<_>>(),
    }))
    .unwrap();
    let batch = five.nodes[3].client.create_batch(batch).await.unwrap().batch;
    let mut ledgers = BTreeSet::new();
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
            let filter = JobFilter {
                key_prefix: Some("say-".to_owned()),
                status: Some(JobStatus::Completed),
                ..JobFilter::default()
            };
            node.client.jobs(&filter).await.unwrap().items.len() == 10
        })
        .await;
        five.until("all runs are listed", async || {
            let filter = RunFilter { status: Some(RunStatus::Succeeded), ..RunFilter::default() };
            // Those that were triggered but for one, of the batch, and that said something.
            node.client.runs(&filter).await.unwrap().items.len() == 19 + 30 + 10
        })
        .await;
        for n in 0..10 {
            let key = format!("say-{n}");
            let runs = node.client.job_runs(&key, &PageFilter::default()).await.unwrap().items;
            assert_eq!(runs.len(), 1);
            assert_eq!(printed(&node.client, &runs[0].id).await, format!("{n}\n"));
        }
        let ticks = node.client.ticks("job-0", &PageFilter::default()).await.unwrap().items;
        ledgers.insert(format!("{ticks:?}"));
    }
    assert_eq!(ledgers.len(), 1, "all nodes show the same ledger: {ledgers:?}");
}

/// A backup has all shards, whichever node takes it.
async fn check_backups(five: &Trio) {
    for n in 0..30 {
        let spec = json!({"key": format!("kept-{n}"), "schedule": "every 1h", "command": "true"});
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
        let manifest = find(&place, &begun.name).await.unwrap();
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
}
