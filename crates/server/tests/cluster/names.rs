//! Built-in workers of one name, which is what runs are known by that they have.

use std::time::Duration;

use bellwether_api::{Run, RunStatus};
use bellwether_client::{Client, PageFilter};
use serde_json::json;

use crate::nodes::{Trio, spec_of};

/// A run once it is over.
async fn ended(trio: &Trio, client: &Client, run: &str) -> Run {
    let mut last = None;
    trio.until("a run is over", async || {
        let run = client.run(run).await.unwrap();
        let open = matches!(
            run.status,
            RunStatus::Queued | RunStatus::Claimed | RunStatus::Running | RunStatus::Retrying
        );
        last = Some(run);
        !open
    })
    .await;
    last.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn r65_of_two_built_in_workers_of_one_name_one_works_and_keeps_what_it_has() {
    let mut trio = Trio::start_many(1, |config| {
        config.worker_name = Some("twin".to_owned());
        config.worker_heartbeat = Duration::from_secs(2);
        config.worker_lease = Duration::from_secs(8);
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let (gate, begun) = (dir.path().join("gate"), dir.path().join("begun"));
    let wait = format!(
        "echo >> {}; until test -e {}; do sleep 0.05; done",
        begun.display(),
        gate.display()
    );
    let mut runs = Vec::new();
    for n in 0..8 {
        let spec = json!({"key": n.to_string(), "schedule": {"delay": "1h"}, "command": wait});
        trio.nodes[0].client.create_job(spec_of(spec)).await.unwrap();
        runs.push(trio.nodes[0].client.trigger_job(&n.to_string()).await.unwrap());
    }
    let client = trio.nodes[0].client.clone();
    trio.until("it runs one", async || {
        client.run(&runs[0]).await.unwrap().status == RunStatus::Running
    })
    .await;
    // Others come, take over some shards, and look at what is with workers of the name.
    trio.grow().await;
    trio.grow().await;
    trio.settled().await;
    let workers = client.workers().await.unwrap();
    let twins = workers.items.iter().filter(|worker| worker.name == "twin@server");
    assert_eq!(twins.count(), 1, "{:?}", workers.items);
    std::fs::write(&gate, "").unwrap();
    for run in &runs {
        let ended = ended(&trio, &client, run).await;
        assert_eq!((ended.status, ended.attempts.len()), (RunStatus::Succeeded, 1), "{ended:?}");
    }
    let begun = std::fs::read_to_string(&begun).unwrap();
    assert_eq!(begun.lines().count(), runs.len(), "each was begun once");

    // Once its node has gone, another goes on under that name.
    drop(trio.take_down(0).await);
    let client = trio.nodes[0].client.clone();
    let spec = json!({"key": "after", "schedule": {"delay": "0s"}, "command": "true"});
    trio.until("somebody leads", async || client.create_job(spec_of(spec.clone())).await.is_ok())
        .await;
    trio.until("another worker runs it", async || {
        let runs = client.job_runs("after", &PageFilter::default()).await;
        runs.is_ok_and(|runs| runs.items.iter().any(|run| run.status == RunStatus::Succeeded))
    })
    .await;
    trio.stop().await;
}
