//! Workers that dial in: what they get, what they hold, and what becomes of it.

use std::collections::HashMap;

use bellwether_api::{Job, RunStatus};
use bellwether_protocol::v1 as wire;
use bellwether_protocol::v1::to_worker::Message as Told;
use serde_json::json;
use tonic::Code;

use crate::puppet::{Puppet, add, chunk, held, hello, patient, succeeded, world};
use crate::world::{World, config};

#[tokio::test]
async fn r61_labels_are_honoured_and_slots_never_exceeded() {
    let world = patient().await;
    let labels = HashMap::from([("gpu".to_owned(), "yes".to_owned())]);
    let mut gpu = Puppet::dial(&world, wire::Hello { labels, ..hello("gpu", 2) }).await.unwrap();
    let mut plain = Puppet::new(&world, "plain", 100).await;
    let mut jobs = Vec::new();
    for _ in 0..5 {
        jobs.push(add(&world, json!({"requires": {"gpu": "yes"}})).await);
    }
    let other = add(&world, json!({"requires": {"gpu": "no"}})).await;
    let mut given = gpu.given().await;
    while given.len() < 2 {
        given.extend(gpu.given().await);
    }
    assert_eq!(given.len(), 2, "no more than it has slots for");
    let (_, workers) = world.send("GET", "/v1/workers", "").await;
    assert_eq!(workers["items"][0]["running"], 2, "{workers}");
    assert_eq!(workers["items"][1]["running"], 0, "{workers}");
    gpu.finish(&given[0]).await;
    assert_eq!(gpu.given().await.len(), 1);
    let free = add(&world, json!({})).await;
    let to_plain = plain.given();
    assert_eq!(to_plain.await[0].job, free.info.id, "the other is full");
    assert_eq!(world.runs(&other).await[0].status, RunStatus::Queued);
}

#[tokio::test]
async fn r94_what_a_silent_worker_held_goes_to_another() {
    let world = world().await;
    let mut silent = Puppet::new(&world, "silent", 1).await;
    let job = add(&world, json!({"delivery": "at_least_once"})).await;
    let first = silent.given().await.remove(0);
    let once = add(&world, json!({"delivery": "at_most_once"})).await;
    let mut other = Puppet::new(&world, "other", 1).await.beating();
    let second = other.given().await.remove(0);
    assert_eq!(second.job, once.info.id);
    let run = world.run_when(&job, 1, |run| run.status == RunStatus::Queued).await;
    assert_eq!(run.attempts[0].reason.as_deref(), Some("lost"), "{run:#?}");
    other.finish(&second).await;
    let again = other.given().await.remove(0);
    assert_eq!((again.job.as_str(), again.attempt), (job.info.id.as_str(), 2));
    assert!(again.token > first.token, "tokens grow");
    // Too late: its lease has ended, and so has its stream.
    while let Ok(told) = silent.hear.message().await {
        assert!(told.is_some(), "it is told why");
    }
    other.finish(&again).await;
    assert_eq!(world.first_run(&job).await.status, RunStatus::Succeeded);
    assert_eq!(world.first_run(&once).await.status, RunStatus::Succeeded);
    // R68: what may have been executed a second time is counted.
    let (_, metrics) = world.send("GET", "/metrics", "").await;
    assert!(metrics.as_str().unwrap().contains("bellwether_attempts_repeated_total 1"));
}

#[tokio::test]
async fn at_most_once_is_lost_with_its_worker() {
    let world = world().await;
    let mut silent = Puppet::new(&world, "silent", 1).await;
    let job = add(&world, json!({"delivery": "at_most_once"})).await;
    let given = silent.given().await.remove(0);
    let run = world.first_run(&job).await;
    assert_eq!(run.status, RunStatus::Lost);
    let mut back =
        Puppet::dial(&world, wire::Hello { held: vec![held(&given)], ..hello("silent", 1) })
            .await
            .unwrap();
    assert_eq!(back.welcome.void, vec![held(&given)], "it is told to stop it");
    back.finish(&given).await;
    assert_eq!(world.first_run(&job).await.status, RunStatus::Lost, "an old token changes nothing");
    let (_, metrics) = world.send("GET", "/metrics", "").await;
    assert!(metrics.as_str().unwrap().contains("bellwether_reports_stale_total 1"));
}

#[tokio::test]
async fn a_worker_that_dials_again_keeps_what_it_holds() {
    let world = patient().await;
    let mut worker = Puppet::new(&world, "w", 3).await;
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.push(add(&world, json!({"delivery": "at_most_once"})).await);
    }
    let mut given = worker.given().await;
    while given.len() < 3 {
        given.extend(worker.given().await);
    }
    drop(worker);
    // The same process: what it does not have never reached it.
    let two = given[..2].iter().map(held).collect();
    let mut worker =
        Puppet::dial(&world, wire::Hello { held: two, ..hello("w", 3) }).await.unwrap();
    assert!(worker.welcome.void.is_empty());
    let again = worker.given().await.remove(0);
    assert_eq!(again.run, given[2].run, "it was never started, so it may be");
    worker.finish(&given[0]).await;
    drop(worker);
    // Another process: nobody knows what became of what it does not have.
    let next = wire::Hello { instance: "w-2".into(), held: vec![held(&given[1])], ..hello("w", 3) };
    let mut worker = Puppet::dial(&world, next).await.unwrap();
    worker.finish(&given[1]).await;
    let status = async |run: &wire::Assignment| {
        let job = jobs.iter().find(|job| job.info.id == run.job).unwrap();
        world.first_run(job).await.status
    };
    assert_eq!(status(&given[0]).await, RunStatus::Succeeded);
    assert_eq!(status(&given[1]).await, RunStatus::Succeeded);
    assert_eq!(status(&given[2]).await, RunStatus::Lost);
}

#[tokio::test]
async fn a_server_that_restarts_leaves_work_with_its_workers() {
    let world = patient().await;
    let mut worker = Puppet::new(&world, "w", 2).await;
    let job = add(&world, json!({})).await;
    let stopped = add(&world, json!({})).await;
    let mut given = worker.given().await;
    while given.len() < 2 {
        given.extend(worker.given().await);
    }
    let World { server, dir, .. } = world;
    server.shutdown().await.unwrap();
    let ended = loop {
        match worker.hear.message().await {
            Ok(Some(_)) => {}
            other => break other,
        }
    };
    let status = ended.expect_err("it says why");
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "stopping"));
    let mut settings = config(&dir);
    settings.worker = false;
    let server = bellwether_server::start(settings).await.unwrap();
    let client = bellwether_client::Client::new(&server.local_addr().to_string()).unwrap();
    let world = World { server, client, dir };
    let of = |job: &Job| given.iter().find(|run| run.job == job.info.id).unwrap();
    let (_, workers) = world.send("GET", "/v1/workers", "").await;
    assert_eq!(workers["items"][0]["state"], "away", "{workers}");
    world.send("POST", &format!("/v1/runs/{}/cancel", of(&stopped).run), "").await;
    let both = given.iter().map(held).collect();
    let mut worker =
        Puppet::dial(&world, wire::Hello { held: both, ..hello("w", 2) }).await.unwrap();
    let Told::Stops(stops) = worker.told().await else { panic!("it is told to stop one") };
    assert_eq!(stops.stops[0].run, of(&stopped).run);
    worker.finish(of(&job)).await;
    assert_eq!(world.first_run(&job).await.status, RunStatus::Succeeded);
    let canceled = wire::Finished { ending: wire::Ending::Canceled.into(), ..succeeded("") };
    worker.report(of(&stopped), wire::report::What::Finished(canceled)).await;
    assert_eq!(world.first_run(&stopped).await.status, RunStatus::Canceled);
}

#[tokio::test]
async fn names_are_unique_and_draining_ends_the_flow() {
    let world = patient().await;
    let mut worker = Puppet::new(&world, "w", 10).await;
    let twin = wire::Hello { instance: "w-2".into(), ..hello("w", 10) };
    let refused = Puppet::dial(&world, twin).await.err().unwrap();
    assert_eq!(refused.code(), Code::AlreadyExists);
    assert!(refused.message().contains("--name"), "{}", refused.message());
    let bad = Puppet::dial(&world, hello("a b", 1)).await.err().unwrap();
    assert_eq!(bad.code(), Code::InvalidArgument);
    let (status, _) = world.send("POST", "/v1/workers/w/drain", "").await;
    assert_eq!(status, 202);
    assert!(matches!(worker.told().await, Told::Drain(_)));
    let job = add(&world, json!({})).await;
    let (_, workers) = world.send("GET", "/v1/workers", "").await;
    assert_eq!(workers["items"][0]["state"], "draining");
    let mut other = Puppet::new(&world, "other", 10).await;
    assert_eq!(other.given().await[0].job, job.info.id);
    assert_eq!(world.send("POST", "/v1/workers/nobody/drain", "").await.0, 404);
}

#[tokio::test]
async fn r37_output_of_a_remote_run_can_be_followed() {
    let world = patient().await;
    let mut worker = Puppet::new(&world, "w", 1).await;
    let job = add(&world, json!({})).await;
    let given = worker.given().await.remove(0);
    let url =
        format!("http://{}/v1/runs/{}/output?follow=true", world.server.local_addr(), given.run);
    let mut following = crate::world::http_client().get(url).send().await.unwrap();
    worker.report(&given, wire::report::What::Output(chunk(0, "one\n"))).await;
    assert_eq!(following.chunk().await.unwrap().unwrap(), "one\n");
    worker.report(&given, wire::report::What::Output(chunk(1, "two\n"))).await;
    assert_eq!(following.chunk().await.unwrap().unwrap(), "two\n");
    let last = wire::Finished { output: Some(chunk(2, "three\n")), ..succeeded("") };
    worker.report(&given, wire::report::What::Finished(last)).await;
    assert_eq!(following.chunk().await.unwrap().unwrap(), "three\n");
    assert!(following.chunk().await.unwrap().is_none(), "it ends with the run");
    assert_eq!(world.first_run(&job).await.status, RunStatus::Succeeded);
}

#[tokio::test]
async fn r42_a_worker_needs_a_token_that_may_run_things() {
    let world = World::with(|config| config.require_token = true).await;
    let refused = Puppet::dial(&world, hello("w", 1)).await.err().unwrap();
    assert_eq!(refused.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn r59_a_retry_goes_to_a_worker_that_did_not_just_fail_it() {
    let world = patient().await;
    let mut first = Puppet::new(&world, "first", 10).await;
    let job = add(&world, json!({"retry": {"max": 2, "initial": "100ms"}})).await;
    let given = first.given().await.remove(0);
    let mut second = Puppet::new(&world, "second", 10).await;
    let failed = wire::Finished { ending: wire::Ending::Failed.into(), ..succeeded("") };
    first.report(&given, wire::report::What::Finished(failed.clone())).await;
    let again = second.given().await.remove(0);
    assert_eq!((again.run.as_str(), again.attempt), (given.run.as_str(), 2));
    drop(first);
    world
        .until("it is gone", async || {
            let (_, workers) = world.send("GET", "/v1/workers", "").await;
            workers["items"].as_array().unwrap().len() == 1
        })
        .await;
    // When there is nobody else, it is better than nobody.
    second.report(&again, wire::report::What::Finished(failed)).await;
    let last = second.given().await.remove(0);
    assert_eq!(last.attempt, 3);
    second.finish(&last).await;
    assert_eq!(world.first_run(&job).await.status, RunStatus::Succeeded);
}

#[tokio::test]
async fn a_worker_that_dials_again_is_told_again_what_it_is_to_stop() {
    let world = patient().await;
    let mut worker = Puppet::new(&world, "w", 1).await;
    let job = add(&world, json!({})).await;
    let run = worker.given().await.remove(0);
    let (status, _) = world.send("POST", &format!("/v1/runs/{}/cancel", run.run), "").await;
    assert_eq!(status, 202);
    // The order is on its way when the connection breaks, and the worker never sees it.
    while !matches!(worker.told().await, Told::Stops(_)) {}
    let back = wire::Hello { held: vec![held(&run)], ..hello("w", 1) };
    let mut worker = Puppet::dial(&world, back).await.unwrap();
    let Told::Stops(stops) = worker.told().await else { panic!("it is told to stop it") };
    assert_eq!((&stops.stops[0].run, stops.stops[0].token), (&run.run, run.token));
    let canceled = wire::Finished { ending: wire::Ending::Canceled.into(), ..succeeded("") };
    worker.report(&run, wire::report::What::Finished(canceled)).await;
    assert_eq!(world.first_run(&job).await.status, RunStatus::Canceled);
}
