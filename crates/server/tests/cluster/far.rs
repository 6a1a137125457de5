//! Five nodes with three replicas of each shard: no node has everything, and any of them answers
//! everything.

use std::collections::BTreeSet;

use bellwether_api::{
    BackupSpec, BackupState, BatchStatus, JobStatus, NewBatch, PauseRequest, RunStatus, ShardState,
};
use bellwether_backup::{Manifest, Place, Progress, Restore, find, restore, verify};
use bellwether_client::{BatchRunFilter, Client, JobFilter, OutputFilter, PageFilter, RunFilter};
use bellwether_core::time::Time;
use futures::TryStreamExt;
use serde_json::json;

use crate::address::own_address;
use crate::insist::insist;
use crate::nodes::{Node, Trio, config, spec_of, start_with};

const SHARDS: u16 = 5;

#[tokio::test(flavor = "multi_thread")]
async fn r64_r114_any_of_five_nodes_answers_everything() {
    let five = five().await;
    check_what_is_done_is_seen_at_once(&five).await;
    check_runs_output_and_batches(&five).await;
    check_backups(&five).await;
    check_backups_meanwhile(&five).await;
    check_partly_ready(check_lists(five).await).await;
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
/// Every page is asked of the next of some nodes, as behind a load balancer.
async fn all_jobs(
    clients: &[&Client],
    group: Option<&str>,
    between: impl AsyncFn(),
) -> Vec<String> {
    let (group, status) = (group.map(str::to_owned), Some(JobStatus::Scheduled));
    let mut filter = JobFilter { limit: Some(7), group, status, ..JobFilter::default() };
    let mut names = Vec::new();
    let mut clients = clients.iter().cycle();
    loop {
        let page = clients.next().unwrap().jobs(&filter).await.unwrap();
        names.extend(page.items.into_iter().map(|job| job.info.id));
        match page.next_cursor {
            Some(cursor) => filter.cursor = Some(cursor),
            None => return names,
        }
        between().await;
    }
}

/// All pages of the list of runs that have succeeded, each asked of the next of some nodes: their numbers, as
/// they are listed.
async fn all_runs(clients: &[&Client]) -> Vec<String> {
    let status = Some(RunStatus::Succeeded);
    let mut filter = RunFilter { limit: Some(7), status, ..RunFilter::default() };
    let mut names = Vec::new();
    for client in clients.iter().cycle() {
        let page = client.runs(&filter).await.unwrap();
        names.extend(page.items.into_iter().map(|run| run.id));
        filter.cursor = page.next_cursor;
        if filter.cursor.is_none() {
            break;
        }
    }
    names
}

async fn printed(client: &Client, run: &str) -> String {
    let output = client.output(run, OutputFilter::default()).await.unwrap();
    let bytes: Vec<_> = output.try_collect().await.unwrap();
    String::from_utf8(bytes.concat()).unwrap()
}

/// What is done at one node is seen at once at every other.
async fn check_what_is_done_is_seen_at_once(five: &Trio) {
    let node = |n: usize| &five.nodes[n % 5];
    let client = |n: usize| &node(n).client;
    for n in 0..20 {
        let key = format!("job-{n}");
        let spec = json!({
            "key": key, "schedule": "every 1h", "job_type": "bellwether.noop", "group": "all",
        });
        let made = node(n).create(spec.clone()).await;
        let read = client(n + 1).job(&key).await.unwrap();
        assert_eq!(read.info.id, made.info.id);
        let pause = PauseRequest::default();
        insist(async || client(n + 2).pause_job(&made.info.id, &pause).await).await;
        let paused = client(n + 3).job(&made.info.id).await.unwrap();
        assert_eq!(paused.info.status, JobStatus::Paused);
        let spec = spec_of(spec);
        let again = insist(async || client(n + 4).create_job(spec.clone()).await).await;
        assert_eq!((again.job.info.id, again.new), (made.info.id.clone(), false));
        insist(async || client(n).resume_job(&key).await).await;
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

/// Lists of every node have everything once, also while a node stops. That one stays down.
async fn check_lists(mut five: Trio) -> Trio {
    let group = Some("listed");
    let mut made = BTreeSet::new();
    for n in 0..60 {
        let schedule = if n % 2 == 0 { json!({"delay": "1h"}) } else { json!("every 1h") };
        let spec = json!({
            "key": format!("{n:02}"), "schedule": schedule, "command": "true", "group": group,
        });
        made.insert(five.nodes[n % 5].create(spec).await.info.id);
    }
    let once = |listed: Vec<String>| {
        let names: BTreeSet<String> = listed.iter().cloned().collect();
        assert_eq!(names.len(), listed.len(), "each once: {listed:?}");
        names
    };
    for node in &five.nodes {
        let client = &[&node.client];
        five.until("every node lists all jobs", async || {
            all_jobs(client, group, async || {}).await.len() == 60
        })
        .await;
        assert_eq!(once(all_jobs(client, group, async || {}).await), made);
        assert!(once(all_jobs(client, None, async || {}).await).is_superset(&made));
        let filter = JobFilter { key_prefix: Some("1".to_owned()), ..JobFilter::default() };
        let found = node.client.jobs(&filter).await.unwrap().items;
        let keys: Vec<_> = found.into_iter().map(|job| job.spec.key.unwrap()).collect();
        assert_eq!(keys, (10..20).map(|n| n.to_string()).collect::<Vec<_>>());
    }
    let every: Vec<&Client> = five.nodes.iter().map(|node| &node.client).collect();
    assert_eq!(once(all_jobs(&every, group, async || {}).await), made);
    let runs = once(all_runs(&every[..1]).await);
    assert!(runs.len() > 19 + 30 + 10, "those of before");
    assert_eq!(once(all_runs(&every).await), runs);
    let stopping = tokio::sync::Mutex::new(Some(five.nodes.pop().unwrap()));
    let stop = async || {
        if let Some(node) = stopping.lock().await.take() {
            node.server.shutdown().await.unwrap();
        }
    };
    let others: Vec<&Client> = five.nodes.iter().map(|node| &node.client).collect();
    assert!(once(all_jobs(&others, None, stop).await).is_superset(&made));
    five
}

/// Where two of five nodes are down, some shards have lost two of their three replicas. The others go
/// on, and whoever asks whether to send requests here must not be told to ask nobody.
async fn check_partly_ready(mut four: Trio) {
    let cluster = four.nodes[0].client.cluster().await.unwrap();
    let up: Vec<u64> = four.nodes.iter().map(|node| node.server.node_number()).collect();
    let name = |number| cluster.nodes.iter().find(|node| node.node == number).unwrap().name.clone();
    let up: Vec<String> = up.into_iter().map(name).collect();
    // Of the shards that have lost a replica as few as can be lose another.
    let hurt = |shard: &&ShardState| shard.voters.iter().any(|voter| !up.contains(voter));
    let hurt: Vec<&ShardState> = cluster.shards[1..].iter().filter(hurt).collect();
    let shared: Vec<Vec<u16>> = up
        .iter()
        .map(|name| {
            let has = hurt.iter().filter(|shard| shard.voters.contains(name));
            has.map(|shard| shard.shard).collect()
        })
        .collect();
    let victims = (0..up.len()).filter(|at| !shared[*at].is_empty());
    let at = victims.min_by_key(|at| shared[*at].len()).unwrap();
    let split = shared[at][0].to_string();
    four.take_down(at).await;
    for node in &four.nodes {
        four.until("it is ready, and says what is not", async || {
            let health = node.client.health().await.unwrap();
            let named = health.detail.split([' ', ',']).any(|word| word == split);
            health.ready && named && health.detail.starts_with("ready, but shard")
        })
        .await;
    }
    four.stop().await;
}

/// Runs, output and batches can be read at every node.
async fn check_runs_output_and_batches(five: &Trio) {
    for n in 0..10 {
        let spec = json!({"key": format!("say-{n}"), "schedule": {"delay": "1s"}, "command": format!("echo {n}")});
        five.nodes[n % 5].create(spec).await;
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
            (seen.succeeded, seen.status) == (30, BatchStatus::Completed)
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

/// Takes a backup at a node: where it is, and what it has.
async fn take_backup(five: &Trio, node: &Node) -> (Place, Manifest) {
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
    (place, manifest)
}

/// R114: what a backup has of a shard is of one moment, although others have the shard and it changes all the
/// time: how often a job has run is how many runs of it there are.
async fn check_backups_meanwhile(five: &Trio) {
    let keys: Vec<String> = (0..10).map(|n| format!("again-{n}")).collect();
    for (n, key) in keys.iter().enumerate() {
        let payload = "x".repeat(100_000);
        let spec = json!({"key": key, "schedule": "every 9h", "job_type": "bellwether.noop",
            "overlap": "allow", "payload": payload, "retention": {"runs": 100_000}});
        five.nodes[n % 5].create(spec).await;
    }
    let triggering = futures::future::join_all(keys.iter().enumerate().map(async |(n, key)| {
        loop {
            // With so much to do somebody may stand still. What matters is what there is in the end.
            if let Err(error) = five.nodes[n % 5].client.trigger_job(key).await {
                assert_eq!(error.status(), Some(503), "{error}");
            }
        }
    }));
    let taking = async {
        let client = &five.nodes[0].client;
        five.until("there is much to copy", async || {
            client.job(&keys[0]).await.is_ok_and(|job| job.info.runs > 50)
        })
        .await;
        let mut taken = Vec::new();
        for node in &five.nodes[3..] {
            taken.push(take_backup(five, node).await);
        }
        taken
    };
    let taken = tokio::select! {
        _ = triggering => unreachable!("it goes on for ever"),
        taken = taking => taken,
    };
    for (place, manifest) in taken {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(&dir, &own_address(), Vec::new());
        config.shards = Some(SHARDS);
        let now = Time(manifest.ended_ms);
        let id = "restored".to_owned();
        let what = Restore { manifest, data_dir: config.data_dir.clone(), id, now };
        restore(&place, &what, &Progress::default().into()).await.unwrap();
        let restored = start_with(dir, config).await;
        for key in &keys {
            let runs = restored.client.job(key).await.unwrap().info.runs;
            let listed = restored.client.job_runs_all(key, PageFilter::default());
            let listed: BTreeSet<String> = listed.map_ok(|run| run.id).try_collect().await.unwrap();
            assert!(runs > 0, "{key} had run by then");
            assert_eq!(listed.len(), runs as usize, "of {key}: {listed:?}");
        }
        restored.server.shutdown().await.unwrap();
    }
}

/// A backup has all shards, whichever node takes it.
async fn check_backups(five: &Trio) {
    for n in 0..30 {
        let spec = json!({"key": format!("kept-{n}"), "schedule": "every 1h", "command": "true"});
        five.nodes[n % 5].create(spec).await;
    }
    // Nothing happens any more, so all of them have the same, once what has ended is tidied up.
    let mut rows = rows_of_backups(five).await;
    for _ in 0..3 {
        if rows.len() > 1 {
            rows = rows_of_backups(five).await;
        }
    }
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert!(rows.first().is_some_and(|rows| *rows > 60), "each job has two rows: {rows:?}");
}

/// Takes a backup at every node. How many rows they have.
async fn rows_of_backups(five: &Trio) -> BTreeSet<u64> {
    let mut rows = BTreeSet::new();
    for node in &five.nodes {
        let (place, manifest) = take_backup(five, node).await;
        let kept: u64 =
            manifest.shards.iter().flat_map(|shard| &shard.rows.parts).map(|p| p.rows).sum();
        rows.insert(kept);
        let verdict = verify(&place, manifest, &Progress::default().into()).await.unwrap();
        assert_eq!(verdict.problems, Vec::<String>::new());
    }
    rows
}
