//! Requests whose leader is lost while they are under way: nobody knows what became of them.

use std::collections::BTreeSet;

use bellwether_api::JobSpec;
use bellwether_client::JobFilter;
use futures::future::join_all;
use serde_json::json;

use crate::server::{Trio, until};

/// Enough that some of them are for a shard of the node that stands still, and few enough for a page.
const JOBS: usize = 48;

fn job(n: usize) -> JobSpec {
    let key = format!("paid-{n}");
    let spec = json!({"key": key, "schedule": {"delay": "1h"}, "job_type": "bellwether.noop"});
    serde_json::from_value(spec).unwrap()
}

/// R66, R70: with a key it can be asked again, at any node, and there is one job in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r66_a_request_whose_leader_was_lost_says_so_and_is_safe_to_repeat_with_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let trio = Trio::start(dir.path()).await;
    let order = trio.most_leading_first().await;
    let (lost, asked, other) =
        (&trio.nodes[order[0]], &trio.nodes[order[1]], &trio.nodes[order[2]]);
    lost.pause();
    let answers = join_all((0..JOBS).map(|n| asked.client.create_job(job(n)))).await;
    let mut unknown = 0;
    for answer in answers.into_iter().filter_map(Result::err) {
        assert!(matches!(answer.code(), Some("outcome_unknown" | "no_leader")), "{answer}");
        unknown += usize::from(answer.code() == Some("outcome_unknown"));
    }
    assert!(unknown > 0, "some were with the node that stood still");
    println!("{unknown} of {JOBS} are unknown");
    lost.resume();
    for n in 0..JOBS {
        until("it is there, whatever became of the first request", async || {
            match other.client.create_job(job(n)).await {
                Ok(_) => true,
                Err(error) => {
                    assert_eq!(error.status(), Some(503), "{error}");
                    false
                }
            }
        })
        .await;
    }
    trio.settled().await;
    let filter = JobFilter { limit: Some(500), ..JobFilter::default() };
    for node in &trio.nodes {
        // Lists may be behind, above all at the node that stood still.
        let mut jobs = Vec::new();
        until("all jobs are listed", async || {
            jobs = node.client.jobs(&filter).await.unwrap().items;
            jobs.len() >= JOBS
        })
        .await;
        let keys: BTreeSet<_> = jobs.iter().map(|job| job.spec.key.clone()).collect();
        assert_eq!((jobs.len(), keys.len()), (JOBS, JOBS), "each once, as {} sees it", node.name());
    }
}
