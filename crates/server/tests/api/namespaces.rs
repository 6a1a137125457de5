//! Workers whose tokens are good for one namespace.

use bellwether_api::{Job, Role, RunStatus, TokenSpec};
use bellwether_protocol::v1 as wire;
use serde_json::{Value, json};
use tonic::Code;

use crate::puppet::{Puppet, hello, patient, succeeded};
use crate::world::World;

/// A token for running work of one namespace.
async fn token_of(world: &World, namespace: &str) -> String {
    let spec = TokenSpec {
        name: format!("worker-{namespace}"),
        role: Role::Operator,
        namespace: Some(namespace.to_owned()),
        expires_after: None,
    };
    world.client.create_token(&spec).await.unwrap().secret
}

async fn add(world: &World, namespace: &str, more: Value) -> Job {
    let mut spec = json!({"schedule": {"delay": "0s"}, "namespace": namespace, "queue": "q"});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.add(spec).await
}

async fn lease(world: &World, token: &str, worker: &str, wait: &str) -> (u16, Value) {
    let ask = json!({"worker": worker, "job_types": ["x"], "max": 10, "wait": wait});
    world.send_as(Some(token), "POST", "/v1/queues/q/lease", ask.to_string()).await
}

#[tokio::test]
async fn r42_a_worker_of_one_namespace_gets_its_runs_and_no_others() {
    let world = patient().await;
    let token = token_of(&world, "team").await;
    let theirs = add(&world, "other", json!({"command": "true"})).await;
    let bound = wire::Hello { instance: "b".into(), ..hello("bound", 10) };
    let mut bound = Puppet::dial_as(&world, bound, Some(&token)).await.unwrap();
    let mut given = Vec::new();
    for _ in 0..5 {
        let own = add(&world, "team", json!({"command": "true"})).await;
        let run = bound.given().await.remove(0);
        assert_eq!((run.job.as_str(), run.namespace.as_str()), (own.info.id.as_str(), "team"));
        given.push(run);
    }
    // With another's run it would have been given it by now: it came first.
    assert!(bound.waiting.is_empty());
    assert_eq!(world.runs(&theirs).await[0].status, RunStatus::Queued);
    let (_, workers) = world.send("GET", "/v1/workers", "").await;
    assert_eq!(workers["items"][0]["namespace"], "team", "{workers}");
    // One that is good for all gets what is left.
    let mut all = Puppet::new(&world, "all", 10).await;
    let left = all.given().await.remove(0);
    assert_eq!(left.job, theirs.info.id);
    let (_, workers) = world.send("GET", "/v1/workers", "").await;
    assert_eq!(workers["items"][0]["namespace"], Value::Null, "{workers}");
    // What it says about the run of another changes nothing, though the token is the right one.
    bound.report(&left, wire::report::What::Finished(succeeded("forged\n"))).await;
    assert_eq!(world.runs(&theirs).await[0].status, RunStatus::Claimed);
    bound.finish(&given[0]).await;
    all.finish(&left).await;
    assert_eq!(world.first_run(&theirs).await.attempts[0].worker, "all");
}

#[tokio::test]
async fn r42_slots_that_only_one_namespace_can_use_are_not_kept_for_others() {
    let world = patient().await;
    let token = token_of(&world, "team").await;
    let mut all = Puppet::new(&world, "all", 1).await;
    add(&world, "other", json!({"command": "true"})).await;
    let busy = all.given().await.remove(0);
    let waiting = add(&world, "other", json!({"command": "true"})).await;
    let bound = wire::Hello { instance: "b".into(), ..hello("bound", 4) };
    let mut bound = Puppet::dial_as(&world, bound, Some(&token)).await.unwrap();
    let mut given = 0;
    for _ in 0..4 {
        add(&world, "team", json!({"command": "true"})).await;
    }
    while given < 4 {
        given += bound.given().await.len();
    }
    assert_eq!(world.runs(&waiting).await[0].status, RunStatus::Queued);
    all.finish(&busy).await;
    assert_eq!(all.given().await[0].job, waiting.info.id);
}

#[tokio::test]
async fn r42_a_worker_of_one_namespace_that_polls_gets_and_ends_its_runs_alone() {
    let world = patient().await;
    let (team, other) = (token_of(&world, "team").await, token_of(&world, "other").await);
    let theirs = add(&world, "other", json!({"job_type": "x"})).await;
    let own = add(&world, "team", json!({"job_type": "x"})).await;
    let (_, leased) = lease(&world, &team, "t", "30s").await;
    let runs = leased["runs"].as_array().unwrap();
    assert_eq!((runs.len(), &runs[0]["job_id"]), (1, &json!(own.info.id)), "{leased}");
    assert_eq!(lease(&world, &team, "t", "0s").await.1["runs"], json!([]));
    assert_eq!(world.runs(&theirs).await[0].status, RunStatus::Queued);
    let (_, leased) = lease(&world, &other, "o", "30s").await;
    let run = &leased["runs"][0];
    assert_eq!(run["job_id"], json!(theirs.info.id));
    // Neither under its own name nor under the other's does it reach what is the other's.
    let ended = json!({"run_id": run["run_id"], "fencing_token": run["fencing_token"], "outcome": "failed"});
    for (worker, expected) in [("t", 200), ("o", 403)] {
        let body = json!({"worker": worker, "results": [ended]}).to_string();
        let path = "/v1/queues/q/complete";
        let (status, answer) = world.send_as(Some(&team), "POST", path, body).await;
        assert_eq!(status, expected, "{answer}");
        assert_ne!(answer["results"][0]["accepted"], true, "{answer}");
    }
    let beat = json!({"worker": "o", "runs": []}).to_string();
    let (status, _) = world.send_as(Some(&team), "POST", "/v1/queues/q/heartbeat", beat).await;
    assert_eq!(status, 403);
    assert_eq!(lease(&world, &team, "o", "0s").await.0, 409, "the name is taken");
    let (status, _) = world.send_as(Some(&team), "POST", "/v1/workers/o/drain", "").await;
    assert_eq!(status, 403);
    assert_eq!(world.runs(&theirs).await[0].status, RunStatus::Claimed);
    let taken = Puppet::dial_as(&world, hello("o", 1), Some(&team)).await.err().unwrap();
    assert_eq!(taken.code(), Code::AlreadyExists);
    let body = json!({"worker": "o", "results": [ended]}).to_string();
    let (_, answer) = world.send_as(Some(&other), "POST", "/v1/queues/q/complete", body).await;
    assert_eq!(answer["results"][0]["accepted"], true, "{answer}");
}
