//! How far behind lists may be: every one says so, and none is shown that may be too far.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::nodes::{Node, Trio, http_client, spec_of};

/// What a node answers: status, how many milliseconds it says to be behind, body.
async fn list(node: &Node, path: &str) -> (u16, Option<u64>, Value) {
    let url = format!("http://{}{path}", node.server.local_addr());
    let answer = http_client().get(url).send().await.unwrap();
    let stated = answer.headers().get("bellwether-staleness-ms");
    let stated = stated.map(|value| value.to_str().unwrap().parse().unwrap());
    let status = answer.status().as_u16();
    (status, stated, serde_json::from_str(&answer.text().await.unwrap()).unwrap())
}

/// The most that lists may be behind.
const BEHIND_MAX: Duration = Duration::from_secs(30);
/// What is stated is rounded down to that.
const MILLISECOND: Duration = Duration::from_millis(1);

const FROM_REPLICAS: [&str; 7] =
    ["/v1/jobs", "/v1/runs", "/v1/batches", "/v1/groups", "/v1/audit", "/v1/tokens", "/v1/queues"];
const FROM_LEADERS: [&str; 3] = ["/v1/jobs/a/runs", "/v1/jobs/a/ticks", "/v1/workers"];

#[tokio::test(flavor = "multi_thread")]
async fn r69_a_node_that_is_alone_is_never_behind() {
    let one = Trio::start_many(1, |_| {}).await;
    let spec = json!({"key": "a", "schedule": "every 1h", "job_type": "bellwether.noop"});
    one.nodes[0].client.create_job(spec_of(spec)).await.unwrap();
    for path in FROM_REPLICAS.into_iter().chain(FROM_LEADERS) {
        let (status, stated, body) = list(&one.nodes[0], path).await;
        assert_eq!((status, stated), (200, Some(0)), "{path}: {body}");
    }
    one.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r69_lists_say_how_far_behind_they_may_be_and_are_refused_when_that_is_too_far() {
    let mut trio = Trio::start().await;
    let spec = json!({"key": "a", "schedule": "every 1h", "job_type": "bellwether.noop"});
    trio.nodes[0].client.create_job(spec_of(spec)).await.unwrap();
    for node in &trio.nodes {
        for path in FROM_REPLICAS {
            trio.until("a healthy node is hardly behind", async || {
                let (status, stated, body) = list(node, path).await;
                assert_eq!(status, 200, "{path}: {body}");
                stated.unwrap() < 2_000
            })
            .await;
        }
        for path in FROM_LEADERS {
            let (status, stated, body) = list(node, path).await;
            assert_eq!((status, stated), (200, Some(0)), "{path}: {body}");
        }
    }

    // Whatever the last node shows from now on, there is nobody who could tell it more.
    let third = trio.take_down(2).await;
    let _second = trio.take_down(1).await;
    let (cut, last) = (Instant::now(), &trio.nodes[0]);
    // How far behind it was already then, at most.
    let mut before: Option<Duration> = None;
    trio.until("it does not show what may be too old", async || {
        let alone = cut.elapsed();
        let (status, stated, body) = list(last, "/v1/jobs").await;
        // However long the machine stands still, what is stated is as of between then and now.
        let answered = cut.elapsed();
        if status == 503 {
            if let Some(before) = before {
                assert!(before + answered >= BEHIND_MAX, "{before:?} and {answered:?}: {body}");
            }
            assert_eq!(body["code"], "no_leader", "{body}");
            let detail = body["detail"].as_str().unwrap();
            assert!(detail.contains("ask another node"), "{detail}");
            return true;
        }
        let stated = Duration::from_millis(stated.unwrap());
        assert!(status == 200 && stated >= alone, "alone for {alone:?}, states {stated:?}: {body}");
        assert!(stated <= BEHIND_MAX + (answered - alone), "{stated:?} is too old to be shown");
        before = before.max(Some(stated - alone + MILLISECOND));
        false
    })
    .await;
    // Others may be made from shards that were heard of a little later.
    for path in FROM_REPLICAS {
        trio.until("nor in any other list", async || {
            let (status, _, body) = list(last, path).await;
            assert!(status == 200 || body["code"] == "no_leader", "{path}: {body}");
            status == 503
        })
        .await;
    }

    // With another one there is a majority.
    trio.start_again(third).await;
    for node in &trio.nodes {
        trio.until("it lists again", async || {
            let (status, stated, body) = list(node, "/v1/jobs").await;
            let listed = body["items"].as_array().is_some_and(|items| items.len() == 1);
            status == 200 && listed && stated.unwrap() < 2_000
        })
        .await;
    }
    trio.stop().await;
}
