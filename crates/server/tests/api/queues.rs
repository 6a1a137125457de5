//! What queues may have under way, and whose turn it is.

use std::collections::HashMap;
use std::time::Duration;

use bellwether_api::RunStatus;
use bellwether_protocol::v1 as wire;
use serde_json::json;

use crate::puppet::{Puppet, add, hello, patient};
use crate::world::{World, config};

#[tokio::test]
async fn r47_r56_a_worker_gets_runs_of_its_queues_and_their_ends_are_stored() {
    let world = patient().await;
    let mut worker =
        Puppet::dial(&world, wire::Hello { queues: vec!["a".into()], ..hello("w", 10) })
            .await
            .unwrap();
    let other = add(&world, json!({"queue": "b"})).await;
    let mine = add(&world, json!({"queue": "a", "env": {"X": "y"}, "timeout": "1m"})).await;
    let given = worker.given().await;
    assert_eq!(given.len(), 1);
    assert_eq!(given[0].job, mine.info.id);
    assert_eq!(given[0].timeout_ms, 60_000);
    let Some(wire::assignment::Target::Command(command)) = &given[0].target else { panic!() };
    assert_eq!(command.line, "true");
    assert_eq!(command.env, HashMap::from([("X".to_owned(), "y".to_owned())]));
    worker.report(&given[0], wire::report::What::Started(wire::Started { at_ms: 5 })).await;
    let running = world.run_when(&mine, 1, |run| run.status == RunStatus::Running).await;
    assert_eq!(running.attempts[0].worker, "w");
    worker.finish(&given[0]).await;
    let run = world.first_run(&mine).await;
    assert_eq!(run.status, RunStatus::Succeeded);
    let (_, output) = world.send("GET", &format!("/v1/runs/{}/output", run.id), "").await;
    assert_eq!(output, "done\n");
    assert_eq!(world.runs(&other).await[0].status, RunStatus::Queued);
}

#[tokio::test]
async fn a_queue_has_as_much_under_way_as_it_may() {
    let world = patient().await;
    let bounds = json!({"concurrency": 2});
    let (status, queue) = world.send("PUT", "/v1/queues/narrow", bounds.to_string()).await;
    assert_eq!((status, &queue["concurrency"]), (200, &json!(2)), "{queue}");
    let mut one = Puppet::new(&world, "one", 10).await;
    for _ in 0..4 {
        add(&world, json!({"queue": "narrow"})).await;
    }
    let mut given = one.given().await;
    while given.len() < 2 {
        given.extend(one.given().await);
    }
    let other = add(&world, json!({"queue": "wide"})).await;
    assert_eq!(one.given().await[0].job, other.info.id, "others go on");
    let (_, queues) = world.send("GET", "/v1/queues", "").await;
    assert_eq!(
        (&queues["items"][0]["running"], &queues["items"][0]["waiting"]),
        (&json!(2), &json!(2))
    );
    one.finish(&given[0]).await;
    assert_eq!(one.given().await.len(), 1);
    // The bound outlives the server, and so does what it counts.
    let World { server, dir, .. } = world;
    server.shutdown().await.unwrap();
    let mut settings = config(&dir);
    settings.worker = false;
    let server = bellwether_server::start(settings).await.unwrap();
    let client = bellwether_client::Client::new(&server.local_addr().to_string()).unwrap();
    let world = World { server, client, dir };
    let mut two = Puppet::new(&world, "two", 10).await;
    let free = add(&world, json!({"queue": "wide"})).await;
    assert_eq!(two.given().await[0].job, free.info.id, "the narrow one is full");
    world.send("PUT", "/v1/queues/narrow", r#"{"concurrency": 0}"#).await;
    assert_eq!(two.given().await[0].queue, "narrow");
}

#[tokio::test]
async fn r32_a_paused_queue_launches_nothing_and_a_slow_one_a_little() {
    let world = patient().await;
    let mut worker = Puppet::new(&world, "w", 100).await;
    world.send("PUT", "/v1/queues/q", r#"{"paused": true, "note": "upgrade"}"#).await;
    let job = add(&world, json!({"queue": "q"})).await;
    let other = add(&world, json!({})).await;
    assert_eq!(worker.given().await[0].job, other.info.id);
    let (_, queues) = world.send("GET", "/v1/queues", "").await;
    assert_eq!(queues["items"][1]["paused"]["note"], "upgrade", "{queues}");
    world.send("PUT", "/v1/queues/q", r#"{"paused": false, "rate_per_second": 2}"#).await;
    assert_eq!(worker.given().await[0].job, job.info.id);
    let begun = std::time::Instant::now();
    for _ in 0..4 {
        add(&world, json!({"queue": "q"})).await;
    }
    let mut given = 0;
    while given < 4 {
        given += worker.given().await.len();
    }
    assert!(begun.elapsed() >= Duration::from_millis(1_000), "{:?}", begun.elapsed());
    let (_, log) = world.send("GET", "/v1/audit", "").await;
    assert_eq!(log["items"][4]["action"], "queue.change", "{log}");
    for body in [r#"{"rate_per_second": -1}"#, r#"{"concurrency": 2000000}"#] {
        assert_eq!(world.send("PUT", "/v1/queues/q", body).await.0, 422, "{body}");
    }
}

#[tokio::test]
async fn r57_a_saturated_namespace_leaves_others_their_share() {
    let world = patient().await;
    let mut worker = Puppet::new(&world, "w", 4).await;
    for _ in 0..12 {
        add(&world, json!({"namespace": "loud"})).await;
    }
    let mut given = Vec::new();
    while given.len() < 4 {
        given.extend(worker.given().await);
    }
    assert!(given.iter().all(|run| run.namespace == "loud"), "alone, it gets all");
    for _ in 0..4 {
        add(&world, json!({"namespace": "quiet"})).await;
    }
    let mut quiet = 0;
    for _ in 0..2 {
        let done = given.remove(0);
        worker.finish(&done).await;
        let next = worker.given().await.remove(0);
        quiet += usize::from(next.namespace == "quiet");
        given.push(next);
    }
    assert_eq!(quiet, 2, "half of the slots go to the other, as they become free");
}

#[tokio::test]
async fn a_bound_of_one_lets_many_short_runs_go_one_after_the_other_without_a_pause() {
    let world = patient().await;
    world.send("PUT", "/v1/queues/single", r#"{"concurrency": 1}"#).await;
    let mut worker = Puppet::new(&world, "w", 10).await;
    for _ in 0..60 {
        add(&world, json!({"queue": "single"})).await;
    }
    let begun = std::time::Instant::now();
    for _ in 0..60 {
        let given = worker.given().await;
        assert_eq!(given.len(), 1, "one at a time");
        worker.finish(&given[0]).await;
    }
    // Shards take turns. If each had to wait for a timer, it would be many seconds.
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_run_that_no_worker_takes_does_not_keep_others_of_its_queue_waiting() {
    let world = patient().await;
    world.send("PUT", "/v1/queues/single", r#"{"concurrency": 1}"#).await;
    for _ in 0..6 {
        add(&world, json!({"queue": "single", "requires": {"gpu": "yes"}})).await;
    }
    let mut worker = Puppet::new(&world, "w", 10).await;
    let mut mine = Vec::new();
    for _ in 0..6 {
        mine.push(add(&world, json!({"queue": "single"})).await.info.id);
    }
    for _ in 0..6 {
        let given = worker.given().await;
        assert!(mine.contains(&given[0].job));
        worker.finish(&given[0]).await;
    }
}
