//! Workers that ask for work request by request.

use std::time::Duration;

use bellwether_api::RunStatus;
use bellwether_protocol::v1 as wire;
use serde_json::json;

use crate::puppet::{Puppet, hello, patient, post, world};
use crate::world::{World, config};

#[tokio::test]
async fn r46_any_language_is_a_worker_with_three_requests() {
    let world = patient().await;
    let job = world
        .add(json!({"schedule": {"delay": "0s"}, "job_type": "mail", "payload": {"to": "ana"}, "queue": "q"}))
        .await;
    let ask = json!({"worker": "curl", "job_types": ["mail"], "wait": "30s", "max": 5});
    let leased = post(&world, "/v1/queues/q/lease", ask.clone()).await;
    let run = &leased["runs"][0];
    assert_eq!((&run["job_id"], &run["attempt"]), (&json!(job.info.id), &json!(1)), "{leased}");
    assert_eq!((&run["payload"], &run["job_type"]), (&json!({"to": "ana"}), &json!("mail")));
    assert_eq!(run["idempotency_key"], run["run_id"]);
    let held = json!({"run_id": run["run_id"], "fencing_token": run["fencing_token"]});
    let beat = json!({"worker": "curl", "runs": [held]});
    let kept = post(&world, "/v1/queues/q/heartbeat", beat.clone()).await;
    assert_eq!((&kept["lost"], &kept["stop"]), (&json!([]), &json!([])));
    let ended = |outcome: &str, token: u64| {
        json!({"worker": "curl", "results": [{"run_id": run["run_id"], "fencing_token": token,
            "outcome": outcome, "output": "sent\n", "result": {"id": 7}}]})
    };
    let token = run["fencing_token"].as_u64().unwrap();
    let stale = post(&world, "/v1/queues/q/complete", ended("succeeded", token - 1)).await;
    assert_eq!(stale["results"][0]["accepted"], false);
    let done = post(&world, "/v1/queues/q/complete", ended("succeeded", token)).await;
    assert_eq!(done["results"][0]["accepted"], true, "{done}");
    let again = post(&world, "/v1/queues/q/complete", ended("succeeded", token)).await;
    let again = &again["results"][0];
    assert_eq!((&again["accepted"], &again["repeated"]), (&json!(true), &json!(true)));
    assert_eq!(done["results"][0]["repeated"], json!(null));
    let run = world.first_run(&job).await;
    assert_eq!(run.status, RunStatus::Succeeded);
    assert_eq!(run.attempts[0].result.as_ref().unwrap().get(), r#"{"id":7}"#);
    assert_eq!(run.attempts[0].worker, "curl");
    let (_, output) = world.send("GET", &format!("/v1/runs/{}/output", run.id), "").await;
    assert_eq!(output, "sent\n");
    let none = json!({"worker": "curl", "job_types": ["mail"], "wait": "0s"});
    assert_eq!(post(&world, "/v1/queues/q/lease", none).await["runs"], json!([]));
    let lost = post(&world, "/v1/queues/q/heartbeat", beat).await;
    assert_eq!(lost["lost"], json!([run.id]), "it is over");
}

#[tokio::test]
async fn a_worker_that_polls_is_told_what_it_has_to_keep_itself() {
    let world = patient().await;
    let ask = json!({"worker": "curl", "commands": true, "wait": "30s"});
    for (spec, limit, grace) in [
        (json!({"memory_limit": "512M", "grace": "3s"}), json!("512M"), json!("3s")),
        (json!({}), json!(null), json!(null)),
    ] {
        let mut job = json!({"schedule": {"delay": "0s"}, "command": "make", "queue": "q"});
        job.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        world.add(job).await;
        let leased = post(&world, "/v1/queues/q/lease", ask.clone()).await;
        let command = &leased["runs"][0]["command"];
        assert_eq!(command["line"], "make", "{leased}");
        assert_eq!((&command["memory_limit"], &command["grace"]), (&limit, &grace), "{leased}");
    }
}

#[tokio::test]
async fn a_worker_that_polls_gets_what_it_asks_for_and_no_more() {
    let world = world().await;
    let mut jobs = Vec::new();
    for _ in 0..5 {
        jobs.push(
            world.add(json!({"schedule": {"delay": "0s"}, "job_type": "x", "delivery": "at_least_once"})).await,
        );
    }
    let ask = |max: u32| json!({"worker": "p", "job_types": ["x"], "wait": "10s", "max": max});
    let mut runs = Vec::new();
    while runs.len() < 2 {
        let max = 2 - runs.len() as u32;
        let more = post(&world, "/v1/queues/default/lease", ask(max)).await;
        runs.extend(more["runs"].as_array().unwrap().clone());
    }
    assert_eq!(runs.len(), 2);
    let (_, workers) = world.send("GET", "/v1/workers", "").await;
    assert_eq!(workers["items"][0]["running"], 2, "{workers}");
    let id = runs[0]["run_id"].as_str().unwrap();
    world.send("POST", &format!("/v1/runs/{id}/cancel"), "").await;
    let beat =
        json!({"worker": "p", "runs": [{"run_id": id, "fencing_token": runs[0]["fencing_token"]}]});
    world
        .until("told to stop", async || {
            post(&world, "/v1/queues/default/heartbeat", beat.clone()).await["stop"] == json!([id])
        })
        .await;
    // Nobody hears of it any more: what it has goes to another.
    let other = runs[1]["job_id"].as_str().unwrap();
    let other = jobs.iter().find(|job| job.info.id == other).unwrap();
    world.run_when(other, 1, |run| run.status == RunStatus::Queued).await;
    let taken = json!({"worker": "a b", "job_types": ["x"]});
    let (status, refused) = world.send("POST", "/v1/queues/q/lease", taken.to_string()).await;
    assert_eq!((status, &refused["code"]), (422, &json!("invalid_worker")));
    let nothing = json!({"worker": "p"});
    let (status, _) = world.send("POST", "/v1/queues/q/lease", nothing.to_string()).await;
    assert_eq!(status, 422);
}

#[tokio::test]
async fn a_polling_worker_keeps_its_runs_over_a_restart_and_gives_up_what_it_does_not_name() {
    let world = world().await;
    let job = world
        .add(json!({"schedule": {"delay": "0s"}, "job_type": "x", "delivery": "at_least_once"}))
        .await;
    let ask = json!({"worker": "p", "job_types": ["x"], "wait": "10s"});
    let leased = post(&world, "/v1/queues/default/lease", ask.clone()).await;
    let run = &leased["runs"][0];
    let World { server, dir, .. } = world;
    server.shutdown().await.unwrap();
    let mut settings = config(&dir);
    settings.worker = false;
    settings.worker_heartbeat = Duration::from_millis(200);
    settings.worker_lease = Duration::from_secs(20);
    let server = bellwether_server::start(settings).await.unwrap();
    let client = bellwether_client::Client::new(&server.local_addr().to_string()).unwrap();
    let world = World { server, client, dir };
    let beat = json!({"worker": "p", "runs": [{"run_id": run["run_id"], "fencing_token": run["fencing_token"]}]});
    let kept = post(&world, "/v1/queues/default/heartbeat", beat).await;
    assert_eq!(kept["lost"], json!([]), "a restart of the server loses nothing: {kept}");
    // It says that it has nothing: then nobody waits for its lease to end.
    let nothing = json!({"worker": "p", "runs": []});
    world
        .until("given up", async || {
            post(&world, "/v1/queues/default/heartbeat", nothing.clone()).await;
            world.runs(&job).await[0].status == RunStatus::Queued
        })
        .await;
    let again = post(&world, "/v1/queues/default/lease", ask).await;
    assert_eq!(
        (&again["runs"][0]["run_id"], &again["runs"][0]["attempt"]),
        (&run["run_id"], &json!(2))
    );
    assert_eq!(world.send("POST", "/v1/workers/p/drain", "").await.0, 202);
    let ended = json!({"worker": "p", "job_types": ["x"], "wait": "0s"});
    let told = post(&world, "/v1/queues/default/lease", ended).await;
    assert_eq!(told["draining"], true, "{told}");
}

#[tokio::test]
async fn an_end_that_is_said_again_is_told_from_a_lease_that_was_lost() {
    let world = world().await;
    let spec = json!({"schedule": {"delay": "0s"}, "job_type": "x",
        "delivery": "at_least_once", "retry": {"max": 1, "initial": "1ms"}});
    let job = world.add(spec).await;
    let ask = json!({"worker": "p", "job_types": ["x"], "wait": "30s"});
    let mut attempts = Vec::new();
    let complete = async |run: &serde_json::Value, outcome: &str| {
        let ended = json!({"run_id": run["run_id"], "fencing_token": run["fencing_token"], "outcome": outcome});
        let body = json!({"worker": "p", "results": [ended]});
        let answer = post(&world, "/v1/queues/default/complete", body).await;
        let result = answer["results"][0].clone();
        (result["accepted"] == true, result["repeated"] == true)
    };
    // Handed back, then failed, then lost, then a success; each is asked about once more.
    for outcome in ["handed_back", "failed", "", "succeeded"] {
        let leased = post(&world, "/v1/queues/default/lease", ask.clone()).await;
        let run = leased["runs"][0].clone();
        if outcome.is_empty() {
            let queued = |run: &bellwether_api::Run| run.status == RunStatus::Queued;
            world.run_when(&job, 1, queued).await;
            assert_eq!(complete(&run, "succeeded").await, (false, false), "it was lost");
        } else {
            assert_eq!(complete(&run, outcome).await, (true, false), "{outcome}");
            assert_eq!(complete(&run, outcome).await, (true, true), "{outcome}");
        }
        attempts.push((run, !outcome.is_empty()));
    }
    for (run, was_reported) in attempts {
        assert_eq!(complete(&run, "failed").await, (was_reported, was_reported), "{run}");
    }
    assert_eq!(world.first_run(&job).await.status, RunStatus::Succeeded);
}

/// A run with its output, as a heartbeat brings it.
fn printing(run: &serde_json::Value, sequence: u32, text: &str) -> serde_json::Value {
    json!({"worker": "p", "runs": [{"run_id": run["run_id"], "fencing_token": run["fencing_token"],
        "output": {"sequence": sequence, "text": text}}]})
}

#[tokio::test]
async fn r37_output_comes_with_heartbeats_once_and_can_be_followed() {
    let world = patient().await;
    let job = world.add(json!({"schedule": {"delay": "0s"}, "job_type": "x"})).await;
    let ask = json!({"worker": "p", "job_types": ["x"], "wait": "30s"});
    let leased = post(&world, "/v1/queues/default/lease", ask).await;
    let run = &leased["runs"][0];
    let path = format!("/v1/runs/{}/output", run["run_id"].as_str().unwrap());
    let beat = "/v1/queues/default/heartbeat";
    let kept = post(&world, beat, printing(run, 0, "one\n")).await;
    assert_eq!((&kept["lost"], &kept["full"]), (&json!([]), &json!(null)));
    assert_eq!(world.send("GET", &path, "").await.1, "one\n");
    let url = format!("http://{}{path}?follow=true", world.server.local_addr());
    let mut following = crate::world::http_client().get(url).send().await.unwrap();
    assert_eq!(following.chunk().await.unwrap().unwrap(), "one\n");
    post(&world, beat, printing(run, 1, "two\n")).await;
    post(&world, beat, printing(run, 1, "two\n")).await;
    assert_eq!(following.chunk().await.unwrap().unwrap(), "two\n");
    let early = printing(run, 3, "four\n").to_string();
    let (status, refused) = world.send("POST", beat, early).await;
    assert_eq!((status, &refused["code"]), (422, &json!("output_gap")), "{refused}");
    let large = printing(run, 2, &"x".repeat(128 * 1024 + 1)).to_string();
    assert_eq!(world.send("POST", beat, large).await.0, 422);
    // Nobody prints for others.
    let mut forged = printing(run, 2, "forged\n");
    forged["runs"][0]["fencing_token"] = json!(1);
    assert_eq!(post(&world, beat, forged).await["lost"], json!([run["run_id"]]));
    let ended = json!({"run_id": run["run_id"], "fencing_token": run["fencing_token"],
        "unanswered": {"sequence": 1, "text": "two\n"}, "output": "three\n", "output_sequence": 2,
        "outcome": "succeeded", "output_bytes": 14});
    let mut wrong = ended.clone();
    wrong["unanswered"]["sequence"] = json!(0);
    let body = json!({"worker": "p", "results": [wrong]}).to_string();
    assert_eq!(world.send("POST", "/v1/queues/default/complete", body).await.0, 422);
    let body = json!({"worker": "p", "results": [ended]});
    let done = post(&world, "/v1/queues/default/complete", body).await;
    assert_eq!(done["results"][0]["accepted"], true);
    assert_eq!(following.chunk().await.unwrap().unwrap(), "three\n");
    assert_eq!(following.chunk().await.unwrap(), None, "it ends with the run");
    assert_eq!(world.send("GET", &path, "").await.1, "one\ntwo\nthree\n");
    assert_eq!(world.first_run(&job).await.attempts[0].output_bytes, Some(14));
}

#[tokio::test]
async fn there_is_an_end_to_what_a_worker_that_polls_prints() {
    let world = patient().await;
    world.add(json!({"schedule": {"delay": "0s"}, "job_type": "x"})).await;
    let ask = json!({"worker": "p", "job_types": ["x"], "wait": "30s"});
    let leased = post(&world, "/v1/queues/default/lease", ask).await;
    let run = &leased["runs"][0];
    let piece = "x".repeat(128 * 1024);
    for sequence in 0..8 {
        let kept =
            post(&world, "/v1/queues/default/heartbeat", printing(run, sequence, &piece)).await;
        assert_eq!(kept["full"], json!(null), "{sequence}");
    }
    let kept = post(&world, "/v1/queues/default/heartbeat", printing(run, 8, "more")).await;
    assert_eq!((&kept["full"], &kept["lost"]), (&json!([run["run_id"]]), &json!([])));
    let path = format!("/v1/runs/{}/output", run["run_id"].as_str().unwrap());
    let (_, output) = world.send("GET", &path, "").await;
    assert_eq!(output.as_str().unwrap().len(), 1024 * 1024);
}

#[tokio::test]
async fn a_poll_under_the_name_of_a_worker_with_a_stream_is_refused_and_changes_nothing() {
    let world = patient().await;
    let labels = [("gpu".to_owned(), "yes".to_owned())].into();
    let streams = wire::Hello { labels, queues: vec!["own".to_owned()], ..hello("w", 1) };
    let _worker = Puppet::dial(&world, streams).await.unwrap();
    let ask = json!({"worker": "w", "job_types": ["x"], "wait": "0s"}).to_string();
    let (status, _) = world.send("POST", "/v1/queues/q/lease", ask).await;
    assert_eq!(status, 409);
    let (_, workers) = world.send("GET", "/v1/workers", "").await;
    let worker = &workers["items"][0];
    assert_eq!((&worker["queues"], &worker["labels"]), (&json!(["own"]), &json!({"gpu": "yes"})));
}
