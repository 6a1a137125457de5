//! Several servers in this process that are one cluster, asked over HTTP.

#![allow(clippy::unwrap_used)]

#[path = "../../../cli/tests/kill/address.rs"]
mod address;
mod addressed;
mod backups;
mod bounds;
mod far;
mod figures;
mod founding;
mod guarded;
#[path = "../../../cli/tests/kill/insist.rs"]
mod insist;
mod leaving;
mod live;
mod moving;
mod names;
mod nodes;
mod planning;
mod polling;
mod sole;
mod staleness;
mod stalls;
mod tokens;

use bellwether_api::{JobStatus, RunStatus, Tick, TickFate};
use bellwether_client::{ClientError, JobFilter, RunFilter};
use futures::future::join_all;
use nodes::{Trio, spec_of};
use serde_json::json;
use stalls::{STALL, Stalls};
use tokio_util::sync::CancellationToken;

#[tokio::test(flavor = "multi_thread")]
async fn r64_any_node_takes_jobs_and_all_of_them_run() {
    let trio = Trio::start().await;
    for (n, node) in trio.nodes.iter().enumerate() {
        for job in 0..8 {
            let key = format!("{n}-{job}");
            let spec =
                json!({"key": key, "schedule": {"delay": "1s"}, "job_type": "bellwether.noop"});
            node.create(spec).await;
        }
    }
    for node in &trio.nodes {
        trio.until("all jobs have run, as every node sees it", async || {
            let filter = JobFilter { status: Some(JobStatus::Completed), ..JobFilter::default() };
            node.client.jobs(&filter).await.unwrap().items.len() == 24
        })
        .await;
        for n in 0..3 {
            let job = node.client.job(&format!("{n}-0")).await.unwrap();
            assert_eq!(job.info.status, JobStatus::Completed);
        }
    }
    trio.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r65_a_node_that_stops_misses_nothing_and_comes_back() {
    let mut trio = Trio::start().await;
    // So that a machine that stands still for a moment is no reason to miss one.
    let tick = json!({"key": "tick", "schedule": "every 1s", "job_type": "bellwether.noop",
        "overlap": "allow", "misfire": {"policy": "all"}});
    trio.nodes[0].create(tick).await;
    for turn in 0..3 {
        let gone = trio.take_down(turn).await;
        let client = trio.nodes[0].client.clone();
        let runs = async || {
            let filter = RunFilter { status: Some(RunStatus::Succeeded), ..RunFilter::default() };
            client.runs(&filter).await.map_or(0, |page| page.items.len())
        };
        let before = runs().await;
        trio.until("it ticks without the node", async || runs().await >= before + 2).await;
        trio.bring_back(turn, gone).await;
    }
    let ticks = trio.nodes[0].client.ticks("tick", &Default::default()).await.unwrap().items;
    let mut times: Vec<_> = ticks.iter().map(|tick| tick.at.0.0).collect();
    times.sort_unstable();
    let gaps: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| *gap == 1_000), "every second is in the ledger: {gaps:?}");
    let is_launched = |tick: &Tick| matches!(tick.fate, TickFate::Fired | TickFate::Late);
    let missed: Vec<_> = ticks.iter().filter(|tick| !is_launched(tick)).collect();
    assert!(missed.is_empty(), "every second led to a run: {missed:?}");
    trio.stop().await;
}

/// Creates jobs at two nodes while the third one stops and comes back, twice. How many were created.
async fn create_while_one_goes_and_comes(trio: &mut Trio) -> Result<usize, ClientError> {
    let asking = CancellationToken::new();
    let clients: Vec<_> = (0..8)
        .map(|n| {
            let client = trio.nodes[n % 2].client.clone();
            let asking = asking.clone();
            tokio::spawn(async move {
                let mut created = 0;
                while !asking.is_cancelled() {
                    // Without a key, so it cannot be asked again if nobody knows what became of it.
                    let spec = json!({"schedule": {"delay": "1h"}, "job_type": "bellwether.noop"});
                    client.create_job(spec_of(spec)).await?;
                    created += 1;
                }
                Ok::<usize, ClientError>(created)
            })
        })
        .collect();
    for _ in 0..2 {
        let gone = trio.take_down(2).await;
        trio.bring_back(2, gone).await;
    }
    asking.cancel();
    join_all(clients).await.into_iter().map(|client| client.expect("it asks to the end")).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn r65_nobody_notices_that_a_node_stops_in_order_and_comes_back() {
    // How often it is tried again because the machine stood still.
    const AGAIN_MAX: usize = 3;
    for again in 0.. {
        let mut trio = Trio::start().await;
        let stalls = Stalls::watch(trio.nodes[0].dir.path());
        let created = create_while_one_goes_and_comes(&mut trio).await;
        let longest = tokio::task::block_in_place(|| stalls.longest());
        trio.stop().await;
        let error = match created {
            Ok(created) => {
                assert!(created > 100, "{created}");
                return;
            }
            Err(error) => error,
        };
        // The others cannot tell a node that stands still from one that is gone.
        let excused = error.status() == Some(503) && longest >= STALL && again < AGAIN_MAX;
        assert!(excused, "not every job was created; the machine took {longest:?}: {error}");
        println!("tried again, since something took {longest:?}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r47_a_worker_at_one_node_gets_the_runs_of_all() {
    let trio = Trio::start_with(|config| config.worker = false).await;
    let worker = trio.nodes[1].dial("far").await;
    for (n, node) in trio.nodes.iter().enumerate() {
        for job in 0..16 {
            let key = format!("{n}-{job}");
            let spec = json!({"key": key, "schedule": {"delay": "1s"}, "job_type": "echo", "payload": job});
            node.create(spec).await;
        }
    }
    trio.until("all jobs have run at the one worker", async || {
        let filter = JobFilter { status: Some(JobStatus::Completed), ..JobFilter::default() };
        trio.nodes[2].client.jobs(&filter).await.unwrap().items.len() == 48
    })
    .await;
    assert_eq!(worker.ran(), 48, "each once");
    worker.stop().await;
    trio.stop().await;
}
