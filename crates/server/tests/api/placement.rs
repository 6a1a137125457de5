//! Where runs go: what workers offer against what jobs declare.

use bellwether_api::RunStatus;
use bellwether_protocol::v1 as wire;
use serde_json::{Value, json};
use tonic::Code;

use crate::puppet::{Puppet, add, held, hello, patient, succeeded};
use crate::world::World;

fn offering(name: &str, cpu_milli: u32, memory_bytes: u64) -> wire::Hello {
    let resources = wire::Resources { cpu_milli, memory_bytes };
    let mode = Some(wire::capacity::Mode::Resources(resources));
    wire::Hello { capacity: Some(wire::Capacity { mode }), ..hello(name, 1) }
}

/// So many attempts, however they come.
async fn given(worker: &mut Puppet, count: usize) -> Vec<wire::Assignment> {
    let mut given = Vec::new();
    while given.len() < count {
        given.extend(worker.given().await);
    }
    assert_eq!(given.len(), count, "no more than that");
    given
}

async fn why(world: &World, job: &str) -> String {
    let (status, why) = world.send("GET", &format!("/v1/jobs/{job}/why"), "").await;
    assert_eq!(status, 200, "{why}");
    let details: Vec<&str> =
        why["details"].as_array().unwrap().iter().flat_map(Value::as_str).collect();
    details.join(" ")
}

#[tokio::test]
async fn r49_declared_demand_never_exceeds_what_a_worker_offers() {
    const LIMIT_CPU: f64 = 4.0;
    const LIMIT_MEMORY: u64 = 1 << 30;
    let world = patient().await;
    let mut demands = std::collections::BTreeMap::new();
    for n in 0..60_u64 {
        let (cpu, memory) = match n % 4 {
            0 => (0.5, 64 << 20),
            1 => (2.5, 0),
            2 => (0.001, 700 << 20),
            _ => (1.0, 0),
        };
        let resources = match n % 4 {
            3 => json!({}), // Counts as one processor.
            _ => json!({"cpu": cpu, "memory": memory}),
        };
        let job = add(&world, json!({"resources": resources})).await;
        demands.insert(job.info.id, (cpu, memory));
    }
    let mut worker =
        Puppet::dial(&world, offering("w", 4_000, LIMIT_MEMORY)).await.unwrap().beating();
    let (mut at_work, mut most) = (Vec::new(), 0.0_f64);
    for _ in 0..demands.len() {
        match at_work.is_empty() {
            true => at_work = worker.given().await,
            false => at_work.append(&mut worker.waiting),
        }
        let of = |run: &wire::Assignment| demands[&run.job];
        let cpu: f64 = at_work.iter().map(|run| of(run).0).sum();
        let memory: u64 = at_work.iter().map(|run| of(run).1).sum();
        assert!(cpu <= LIMIT_CPU && memory <= LIMIT_MEMORY, "{cpu} cpu, {memory} bytes");
        most = most.max(cpu);
        worker.finish(&at_work.remove(0)).await;
    }
    assert!(most > 2.5, "they run side by side");
}

#[tokio::test]
async fn a_run_that_wants_much_does_not_starve_behind_small_ones() {
    let world = patient().await;
    let mut worker = Puppet::dial(&world, offering("w", 2_000, 0)).await.unwrap().beating();
    let small = async || add(&world, json!({"resources": {"cpu": 1}})).await;
    small().await;
    small().await;
    let mut at_work = given(&mut worker, 2).await;
    let large = add(&world, json!({"resources": {"cpu": 2}})).await;
    world.run_when(&large, 1, |run| run.status == RunStatus::Queued).await;
    for _ in 0..5 {
        small().await;
    }
    worker.finish(&at_work.remove(0)).await;
    assert!(worker.waiting.is_empty(), "what is free is left to the one that came first");
    worker.finish(&at_work.remove(0)).await;
    let next = given(&mut worker, 1).await.remove(0);
    assert_eq!(next.job, large.info.id);
    worker.finish(&next).await;
    given(&mut worker, 2).await;
}

#[tokio::test]
async fn what_no_worker_could_ever_run_waits_in_nobodys_way_and_says_why() {
    let world = patient().await;
    let huge = add(&world, json!({"resources": {"cpu": 64, "memory": "1G"}})).await;
    world.run_when(&huge, 1, |run| run.status == RunStatus::Queued).await;
    let told = why(&world, &huge.info.id).await;
    assert!(told.contains("waits for a worker of queue 'default', with room for 64 cpu and 1G of"));
    assert!(told.contains("No connected worker takes such work from queue 'default'"), "{told}");
    let mut worker = Puppet::dial(&world, offering("w", 2_000, 1 << 29)).await.unwrap();
    let job = add(&world, json!({})).await;
    assert_eq!(given(&mut worker, 1).await[0].job, job.info.id);
    let told = why(&world, &huge.info.id).await;
    let expected = "No connected worker is large enough: it asks for 64 cpu and 1G of memory, but \
                    'w' has 2 cpu and 512M of memory.";
    assert!(told.contains(expected), "{told}");
    let (_, workers) = world.send("GET", "/v1/workers", "").await;
    assert_eq!(workers["items"][0]["resources"], json!({"cpu": 2, "memory": "512M"}));
    // A worker that counts slots does not look at resources.
    let mut slots = Puppet::new(&world, "slots", 1).await;
    assert_eq!(given(&mut slots, 1).await[0].job, huge.info.id);
    assert!(!why(&world, &huge.info.id).await.contains("No connected worker"));
}

#[tokio::test]
async fn a_worker_that_dials_again_has_room_for_what_it_does_not_hold() {
    let world = patient().await;
    let mut worker = Puppet::dial(&world, offering("w", 3_000, 0)).await.unwrap();
    add(&world, json!({"resources": {"cpu": 2}})).await;
    let first = given(&mut worker, 1).await.remove(0);
    drop(worker);
    let back = wire::Hello { held: vec![held(&first)], ..offering("w", 3_000, 0) };
    let mut worker = Puppet::dial(&world, back).await.unwrap();
    let large = add(&world, json!({"resources": {"cpu": 2}})).await;
    world.run_when(&large, 1, |run| run.status == RunStatus::Queued).await;
    worker.finish(&first).await;
    assert_eq!(given(&mut worker, 1).await[0].job, large.info.id, "only when the first had ended");
    let nothing = Puppet::dial(&world, offering("x", 0, 0)).await.map(|_| ());
    assert_eq!(nothing.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn declared_resources_are_normalised_changed_and_removed() {
    let world = patient().await;
    let spec = json!({"schedule": "@daily", "command": "true",
        "resources": {"cpu": "0.50", "memory": 536_870_912}});
    let job = world.add(spec).await;
    let path = format!("/v1/jobs/{}", job.info.id);
    let resources = async || world.send("GET", &path, "").await.1["resources"].clone();
    assert_eq!(resources().await, json!({"cpu": 0.5, "memory": "512M"}));
    let patch = async |body: Value| world.send("PATCH", &path, body.to_string()).await;
    assert_eq!(patch(json!({"resources": {"cpu": 2}})).await.0, 200);
    assert_eq!(resources().await, json!({"cpu": 2, "memory": "512M"}));
    assert_eq!(patch(json!({"resources": {"memory": null}})).await.0, 200);
    assert_eq!(resources().await, json!({"cpu": 2}));
    assert_eq!(patch(json!({"resources": null})).await.0, 200);
    assert_eq!(resources().await, Value::Null);
    let (status, problem) = patch(json!({"resources": {"cpu": -1}})).await;
    assert_eq!((status, &problem["field"]), (400, &json!("resources.cpu")), "{problem}");
}

/// A worker with a label.
fn labelled(name: &str, slots: u32) -> wire::Hello {
    let labels = [("gpu".to_owned(), "yes".to_owned())].into();
    wire::Hello { labels, ..hello(name, slots) }
}

fn everywhere(more: Value) -> Value {
    let mut spec = json!({"schedule": "@daily", "command": "true", "target_workers": "all",
        "requires": {"gpu": "yes"}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

#[tokio::test]
async fn r49_a_job_for_all_workers_runs_once_on_each_that_takes_it() {
    let world = patient().await;
    let mut a = Puppet::dial(&world, labelled("a", 4)).await.unwrap();
    let mut b = Puppet::dial(&world, labelled("b", 4)).await.unwrap();
    let mut other = Puppet::new(&world, "other", 4).await;
    let leaving = Puppet::dial(&world, labelled("leaving", 4)).await.unwrap();
    world.send("POST", "/v1/workers/leaving/drain", "").await;
    let retry = json!({"max": 3, "initial": "1ms", "jitter": 0.0});
    let once = everywhere(json!({"schedule": {"delay": "0s"}, "retry": retry}));
    let job = world.add(once).await;
    let (to_a, to_b) = (given(&mut a, 1).await.remove(0), given(&mut b, 1).await.remove(0));
    assert_eq!((&to_a.job, &to_b.job), (&job.info.id, &job.info.id));
    assert_ne!(to_a.run, to_b.run);
    b.finish(&to_b).await;
    let failed =
        wire::Finished { ending: wire::Ending::Failed.into(), exit_code: Some(1), ..succeeded("") };
    a.report(&to_a, wire::report::What::Finished(failed)).await;
    let again = given(&mut a, 1).await.remove(0);
    assert_eq!((&again.run, again.attempt), (&to_a.run, 2), "its retries stay there");
    a.finish(&again).await;
    let (_, runs) = world.send("GET", &format!("/v1/jobs/{}/runs", job.info.id), "").await;
    let of = |at: usize| (&runs["items"][at]["status"], &runs["items"][at]["pinned_to"]);
    assert_eq!(of(0), (&json!("succeeded"), &json!("b")), "{runs}");
    assert_eq!(of(1), (&json!("succeeded"), &json!("a")), "{runs}");
    let (_, ticks) = world.send("GET", &format!("/v1/jobs/{}/ticks", job.info.id), "").await;
    assert_eq!(ticks["items"].as_array().unwrap().len(), 1, "{ticks}");
    assert_eq!(
        (&ticks["items"][0]["fate"], &ticks["items"][0]["runs"]),
        (&json!("fired"), &json!(2))
    );
    let plain = add(&world, json!({"requires": {}})).await;
    let others = async { given(&mut other, 1).await.remove(0) };
    let given_to = tokio::select! {
        run = others => run,
        run = given(&mut a, 1) => run[0].clone(),
        run = given(&mut b, 1) => run[0].clone(),
    };
    assert_eq!(given_to.job, plain.info.id, "nobody got more of the first");
    drop(leaving);
}

#[tokio::test]
async fn a_run_for_a_worker_that_is_gone_waits_for_it() {
    let world = patient().await;
    let mut a = Puppet::dial(&world, labelled("a", 4)).await.unwrap();
    let mut b = Puppet::dial(&world, labelled("b", 1)).await.unwrap();
    let busy = add(&world, json!({"requires": {"gpu": "yes"}, "target_workers": "all"})).await;
    let (first_a, first_b) = (given(&mut a, 1).await.remove(0), given(&mut b, 1).await.remove(0));
    assert_eq!(first_b.job, busy.info.id);
    a.finish(&first_a).await;
    let job = world.add(everywhere(json!({}))).await;
    let path = format!("/v1/jobs/{}/trigger", job.info.id);
    let (status, answer) = world.send("POST", &path, "").await;
    assert_eq!((status, answer["run_ids"].as_array().unwrap().len()), (202, 2), "{answer}");
    let second_a = given(&mut a, 1).await.remove(0);
    assert_eq!(second_a.job, job.info.id);
    a.finish(&second_a).await;
    drop(b);
    world
        .until("why says what it waits for", async || {
            let told = why(&world, &job.info.id).await;
            told.contains("waits for the worker 'b'") && told.contains("'b' is not connected")
        })
        .await;
    let back = wire::Hello { held: vec![held(&first_b)], ..labelled("b", 1) };
    let mut b = Puppet::dial(&world, back).await.unwrap();
    b.finish(&first_b).await;
    assert_eq!(given(&mut b, 1).await[0].job, job.info.id);
}

#[tokio::test]
async fn a_job_for_all_workers_of_which_there_is_none_is_skipped_and_says_so() {
    let world = patient().await;
    let _other = Puppet::new(&world, "other", 4).await;
    let job = world.add(everywhere(json!({"schedule": {"delay": "0s"}}))).await;
    let ticks = format!("/v1/jobs/{}/ticks", job.info.id);
    world
        .until("the tick is skipped", async || {
            let (_, ticks) = world.send("GET", &ticks, "").await;
            ticks["items"][0]["reason"] == "no_worker"
        })
        .await;
    let (status, refused) =
        world.send("POST", &format!("/v1/jobs/{}/trigger", job.info.id), "").await;
    assert_eq!((status, &refused["code"]), (409, &json!("no_worker")), "{refused}");
    let (_, ticks) = world.send("GET", &ticks, "").await;
    let at = ticks["items"][0]["at"].as_str().unwrap();
    let (_, why) = world.send("GET", &format!("/v1/jobs/{}/why?at={at}", job.info.id), "").await;
    let answer = why["answer"].as_str().unwrap();
    assert!(answer.contains("it runs on all workers, and there was none"), "{answer}");
    let (_, job) = world.send("GET", &format!("/v1/jobs/{}", job.info.id), "").await;
    assert_eq!((&job["status"], &job["target_workers"]), (&json!("canceled"), &json!("all")));
}
