//! Workers that dial in: what they get, what they hold, and what becomes of it.

use std::collections::HashMap;
use std::time::Duration;

use bellwether_api::{Job, RunStatus};
use bellwether_protocol::v1 as wire;
use bellwether_protocol::v1::from_worker::Message as Said;
use bellwether_protocol::v1::to_worker::Message as Told;
use bellwether_protocol::v1::workers_client::WorkersClient;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use crate::world::{World, config};

/// A worker that does only what a test says.
struct Puppet {
    say: mpsc::Sender<wire::FromWorker>,
    hear: Streaming<wire::ToWorker>,
    welcome: wire::Welcome,
    reports: u64,
    /// What it was given while it waited for something else.
    waiting: Vec<wire::Assignment>,
}

fn hello(name: &str, slots: u32) -> wire::Hello {
    wire::Hello {
        name: name.into(),
        instance: format!("{name}-1"),
        commands: true,
        capacity: Some(wire::Capacity { mode: Some(wire::capacity::Mode::Slots(slots)) }),
        ..Default::default()
    }
}

impl Puppet {
    async fn dial(world: &World, hello: wire::Hello) -> Result<Puppet, Status> {
        let address = format!("http://{}", world.server.local_addr());
        let channel = tonic::transport::Endpoint::from_shared(address).unwrap();
        let mut client = WorkersClient::new(channel.connect().await.unwrap());
        let (say, said) = mpsc::channel(16);
        say.send(wire::FromWorker { message: Some(Said::Hello(hello)) }).await.unwrap();
        let mut hear = client.work(ReceiverStream::new(said)).await?.into_inner();
        let Some(Told::Welcome(welcome)) = hear.message().await?.unwrap().message else {
            panic!("no welcome");
        };
        Ok(Puppet { say, hear, welcome, reports: 0, waiting: Vec::new() })
    }

    async fn new(world: &World, name: &str, slots: u32) -> Puppet {
        Puppet::dial(world, hello(name, slots)).await.unwrap()
    }

    /// Makes itself heard from here on.
    fn beating(self) -> Puppet {
        let say = self.say.clone();
        tokio::spawn(async move {
            let mut interval = tokio::time::interval(Duration::from_millis(200));
            for number in 1.. {
                interval.tick().await;
                let message = Some(Said::Heartbeat(wire::Heartbeat { number }));
                if say.send(wire::FromWorker { message }).await.is_err() {
                    return;
                }
            }
        });
        self
    }

    async fn told(&mut self) -> Told {
        let next = tokio::time::timeout(Duration::from_secs(60), self.hear.message());
        next.await.expect("told in time").unwrap().expect("not the end").message.unwrap()
    }

    /// The next attempts it is given.
    async fn given(&mut self) -> Vec<wire::Assignment> {
        if !self.waiting.is_empty() {
            return std::mem::take(&mut self.waiting);
        }
        loop {
            if let Told::Assignments(given) = self.told().await {
                return given.assignments;
            }
        }
    }

    async fn say(&self, message: Said) {
        self.say.send(wire::FromWorker { message: Some(message) }).await.unwrap();
    }

    /// Says it and waits until it is stored.
    async fn report(&mut self, run: &wire::Assignment, what: wire::report::What) {
        self.reports += 1;
        let report = wire::Report { run: run.run.clone(), token: run.token, what: Some(what) };
        self.say(Said::Reports(wire::Reports { number: self.reports, reports: vec![report] }))
            .await;
        loop {
            match self.told().await {
                Told::ReportsStored(stored) => {
                    assert_eq!(stored.number, self.reports);
                    return;
                }
                Told::Assignments(given) => self.waiting.extend(given.assignments),
                _ => {}
            }
        }
    }

    async fn finish(&mut self, run: &wire::Assignment) {
        self.report(run, wire::report::What::Finished(succeeded("done\n"))).await;
    }
}

fn succeeded(output: &'static str) -> wire::Finished {
    wire::Finished {
        started_ms: Some(1),
        finished_ms: 2,
        ending: wire::Ending::Succeeded.into(),
        exit_code: Some(0),
        output: Some(chunk(0, output)),
        output_bytes: output.len() as u64,
        ..Default::default()
    }
}

fn chunk(sequence: u32, text: &'static str) -> wire::Output {
    let chunk = wire::Chunk { stream: 1, data: text.into(), dropped_before: 0 };
    wire::Output { sequence, chunks: vec![chunk] }
}

fn held(run: &wire::Assignment) -> wire::Held {
    wire::Held { run: run.run.clone(), token: run.token }
}

/// A server without a worker of its own, with short leases.
async fn world() -> World {
    World::with(|config| {
        config.worker = false;
        config.worker_heartbeat = Duration::from_millis(200);
        config.worker_lease = Duration::from_secs(1);
    })
    .await
}

/// The same, with leases that do not end during a test.
async fn patient() -> World {
    World::with(|config| config.worker = false).await
}

async fn add(world: &World, more: serde_json::Value) -> Job {
    let mut spec = json!({"schedule": {"delay": "0s"}, "command": "true"});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.add(spec).await
}

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

async fn post(world: &World, path: &str, body: serde_json::Value) -> serde_json::Value {
    let (status, answer) = world.send("POST", path, body.to_string()).await;
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

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
