//! What is live on one node, asked at another: events, workers, output, figures.

use std::collections::BTreeSet;
use std::pin::pin;

use bellwether_api::{RunStatus, Worker};
use bellwether_client::{EventFilter, Heard};
use futures::{Stream, StreamExt};
use serde_json::{Value, json};

use crate::nodes::{Node, Trio, http_client, named, until};

async fn create(node: &Node, spec: Value) -> String {
    node.create(spec).await.info.id.replacen("job_", "run_", 1) + "-1"
}

/// The workers that a node lists, once all but those nodes that are to be missing have told it theirs in time.
async fn workers(node: &Node, missing: &[&str]) -> Vec<Worker> {
    let mut workers = None;
    until("the others tell their workers in time", async || {
        workers = node.workers(missing).await;
        workers.is_some()
    })
    .await;
    workers.unwrap()
}

/// Has a worker drained by way of a node: status and body, once nobody is silent who might have it.
async fn drain(node: &Node, worker: &str) -> (u16, Value) {
    let path = format!("/v1/workers/{worker}/drain");
    let mut answer = (0, Value::Null);
    until("the others answer in time", async || {
        answer = node.send("POST", &path, Value::Null).await;
        answer.0 != 503
    })
    .await;
    answer
}

/// Listens until all of these runs have succeeded. Whether something may have been missed; nothing may
/// come twice.
async fn hear(
    mut events: impl Stream<Item = Result<Heard, bellwether_client::ClientError>> + Unpin,
    heard: &mut BTreeSet<(String, String, u32)>,
    runs: &[String],
) -> bool {
    let mut missed = false;
    let mut left: BTreeSet<&String> = runs.iter().collect();
    while !left.is_empty() {
        let next = tokio::time::timeout(std::time::Duration::from_secs(60), events.next()).await;
        match next.unwrap().unwrap().unwrap() {
            Heard::Missed(_) => missed = true,
            Heard::Event(event) => {
                let run = event.run_id.unwrap();
                let what = (run.clone(), event.event, event.attempt.unwrap_or(0));
                assert!(heard.insert(what.clone()), "{what:?} came twice");
                if event.status == Some(RunStatus::Succeeded) {
                    left.remove(&run);
                }
            }
        }
    }
    missed
}

#[tokio::test(flavor = "multi_thread")]
async fn r21_what_happens_anywhere_is_heard_at_any_node_once() {
    let mut trio = Trio::start().await;
    let client = trio.nodes[2].client.clone();
    let mut events = pin!(client.events(&EventFilter::default()).await.unwrap());
    // Somebody who listens elsewhere, and another who listens here, take nothing away.
    let _elsewhere = trio.nodes[0].client.events(&EventFilter::default()).await.unwrap();
    let _here = trio.nodes[2].client.events(&EventFilter::default()).await.unwrap();
    let mut heard = BTreeSet::new();
    let spec = json!({"schedule": {"delay": "0s"}, "job_type": "bellwether.noop"});
    let mut runs = Vec::new();
    // Enough that every node leads some of them.
    for node in trio.nodes.iter().cycle().take(24) {
        runs.push(create(node, spec.clone()).await);
    }
    let missed = hear(&mut events, &mut heard, &runs).await;
    assert!(!missed, "all nodes were there all the time");
    // A node that goes takes its stream along: whoever listens hears that.
    let gone = trio.take_down(0).await;
    let missed = async {
        loop {
            if let Heard::Missed(_) = events.next().await.unwrap().unwrap() {
                return;
            }
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), missed).await.unwrap();
    trio.bring_back(0, gone).await;
    // It leads again, and is heard again.
    let mut more = Vec::new();
    for _ in 0..24 {
        more.push(create(&trio.nodes[0], spec.clone()).await);
    }
    hear(&mut events, &mut heard, &more).await;
    trio.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r21_workers_of_all_nodes_are_listed_and_drained_at_any() {
    let mut trio = Trio::start_with(named(|_| {})).await;
    let far = trio.nodes[1].dial("far").await;
    let listed = workers(&trio.nodes[0], &[]).await;
    let mut places: Vec<(&str, &str)> = listed.iter().map(|w| (&*w.name, &*w.node)).collect();
    places.sort_unstable();
    assert_eq!(places, [("a@server", "a"), ("b@server", "b"), ("c@server", "c"), ("far", "b")]);
    let (status, answer) = drain(&trio.nodes[2], "far").await;
    assert_eq!(status, 202, "{answer}");
    let built_in = drain(&trio.nodes[2], "a@server").await;
    assert_eq!((built_in.0, &built_in.1["code"]), (409, &json!("worker_built_in")));
    let nobody = drain(&trio.nodes[2], "nobody").await;
    assert_eq!((nobody.0, &nobody.1["code"]), (404, &json!("worker_not_found")));
    for node in &trio.nodes {
        let listed = workers(node, &[]).await;
        let far = listed.iter().find(|worker| worker.name == "far").unwrap();
        assert_eq!(far.state, "draining");
    }
    far.stop().await;
    // A node that does not answer is named, and what it has is not in the list.
    let _gone = trio.take_down(2).await;
    let listed = workers(&trio.nodes[0], &["c"]).await;
    assert!(listed.iter().all(|worker| worker.node != "c"), "{listed:?}");
    trio.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r37_output_is_read_at_any_node_as_it_is_printed_and_after_its_node_is_gone() {
    let mut trio = Trio::start_with(named(|config| config.output_limit = 64)).await;
    let dir = tempfile::tempdir().unwrap();
    let go = dir.path().join("go");
    // What is beyond the first half of the limit is not stored before the end.
    let much = "x".repeat(100);
    let command = format!(
        "echo {much}; echo middle; until [ -e {} ]; do sleep 0.05; done; echo {much}; echo end",
        go.display()
    );
    let spec = json!({"schedule": {"delay": "0s"}, "command": command, "queue": "b"});
    let run = create(&trio.nodes[2], spec).await;
    let path = format!("/v1/runs/{run}/output");
    let follow = async |node: &Node| {
        let url = format!("http://{}{path}?follow=true", node.server.local_addr());
        http_client().get(url).send().await.unwrap()
    };
    let until = async |answer: &mut reqwest::Response, read: &mut String, word: &str| {
        while !read.contains(word) {
            let chunk = tokio::time::timeout(std::time::Duration::from_secs(60), answer.chunk());
            let chunk = chunk.await.unwrap().unwrap().expect(word);
            read.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    };
    let mut answers = Vec::new();
    for node in &trio.nodes {
        let (mut answer, mut read) = (follow(node).await, String::new());
        until(&mut answer, &mut read, "middle").await;
        answers.push((answer, read));
    }
    let (_, now) = trio.nodes[0].send("GET", &path, Value::Null).await;
    assert!(now.as_str().unwrap().contains("middle"), "{now}");
    std::fs::write(&go, "").unwrap();
    for (mut answer, mut read) in answers {
        until(&mut answer, &mut read, "end").await;
        assert_eq!(answer.chunk().await.unwrap(), None, "it ends with the run");
        assert_eq!(read, format!("{much}\nmiddle\n{much}\nend\n"), "all of it, once");
    }
    let (_, stored) = trio.nodes[0].send("GET", &path, Value::Null).await;
    assert!(stored.as_str().unwrap().ends_with("end\n"), "{stored}");
    let _gone = trio.take_down(1).await;
    for node in &trio.nodes {
        let (status, again) = node.send("GET", &path, Value::Null).await;
        assert_eq!((status, &again), (200, &stored), "it is in the store of all");
    }
    trio.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r21_figures_of_queues_are_those_of_the_whole_cluster() {
    let trio = Trio::start_with(|config| config.worker = false).await;
    for node in trio.nodes.iter().cycle().take(9) {
        create(node, json!({"schedule": {"delay": "0s"}, "job_type": "x"})).await;
    }
    let figures = async |node: &Node| {
        let (_, queues) = node.send("GET", "/v1/queues", Value::Null).await;
        let queue = queues["items"].as_array().unwrap().iter().find(|q| q["name"] == "default");
        queue.map_or((0, 0), |q| (q["waiting"].as_u64().unwrap(), q["running"].as_u64().unwrap()))
    };
    for node in &trio.nodes {
        trio.until("all nodes say that nine wait", async || figures(node).await == (9, 0)).await;
    }
    let ask = json!({"worker": "p", "job_types": ["x"], "max": 3, "wait": "20s"});
    let leased = trio.nodes[1].ask("lease", &ask).await["runs"].as_array().unwrap().len() as u64;
    assert!(leased > 0);
    for node in &trio.nodes {
        trio.until("each is counted once, also those that are under way", async || {
            let (waiting, running) = figures(node).await;
            waiting + running == 9 && running >= leased
        })
        .await;
    }
    trio.stop().await;
}
