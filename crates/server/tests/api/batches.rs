//! Batches (R58): a request becomes many runs, counted, canceled and followed as one.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::world::{World, http_client};

/// Creates a batch, which must be accepted.
async fn create(world: &World, batch: Value) -> Value {
    let (status, answer) = world.send("POST", "/v1/batches", batch.to_string()).await;
    assert_eq!(status, 201, "{answer}");
    answer
}

/// Sends NDJSON.
async fn send_lines(world: &World, body: String) -> (u16, Value) {
    let url = format!("http://{}/v1/batches", world.server.local_addr());
    let request = http_client().post(url).header("content-type", "application/x-ndjson");
    let answer = request.body(body).send().await.unwrap();
    let status = answer.status().as_u16();
    (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap())
}

async fn get(world: &World, batch: &Value) -> Value {
    let path = format!("/v1/batches/{}", batch["id"].as_str().unwrap());
    world.send("GET", &path, "").await.1
}

/// Waits until a batch has a status.
async fn when(world: &World, batch: &Value, status: &str) -> Value {
    let what = format!("{} is {status}", batch["id"]);
    world.until(&what, async || get(world, batch).await["status"] == *status).await;
    get(world, batch).await
}

/// A polling worker that takes what there is in a queue and ends it well, except for payloads that
/// say otherwise. The payloads.
async fn work_off(world: &World, queue: &str, count: usize) -> Vec<Value> {
    let mut payloads = Vec::new();
    while payloads.len() < count {
        let ask = json!({"worker": "w", "max": 1000, "wait": "5s", "job_types": ["t"]});
        let path = format!("/v1/queues/{queue}/lease");
        let (status, leased) = world.send("POST", &path, ask.to_string()).await;
        assert_eq!(status, 200, "{leased}");
        let runs = leased["runs"].as_array().unwrap();
        let results: Vec<Value> = runs
            .iter()
            .map(|run| {
                let failed = run["payload"] == "bad";
                let outcome = if failed { "failed" } else { "succeeded" };
                json!({"run_id": run["run_id"], "fencing_token": run["fencing_token"], "outcome": outcome})
            })
            .collect();
        payloads.extend(runs.iter().map(|run| run["payload"].clone()));
        let done = json!({"worker": "w", "results": results});
        let path = format!("/v1/queues/{queue}/complete");
        let (status, answer) = world.send("POST", &path, done.to_string()).await;
        assert_eq!(status, 200, "{answer}");
    }
    payloads
}

#[tokio::test]
async fn r58_each_item_is_a_run_and_a_job_follows_the_last() {
    let world = World::new().await;
    let out = world.dir.path().join("out");
    let after = world.add(json!({"key": "after", "schedule": "@yearly", "command": "true"})).await;
    let command =
        format!("echo $BELLWETHER_ITEM >> {}; test $BELLWETHER_ITEM != bad", out.display());
    let batch = create(
        &world,
        json!({
            "description": "a few",
            "template": {"command": command, "labels": {"of": "batch"}, "env": {"TOKEN": "secret"}},
            "items": ["a", "bad", {"n": 1}, 7],
            "on_complete": "after",
        }),
    )
    .await;
    assert_eq!((&batch["total"], &batch["created_by"]), (&json!(4), &json!("anonymous")));
    let ended = when(&world, &batch, "completed").await;
    assert_eq!(
        (&ended["succeeded"], &ended["failed"], &ended["waiting"]),
        (&json!(3), &json!(1), &json!(0))
    );
    assert_eq!(ended["template"]["env"]["TOKEN"], "********", "secrets are not shown");
    let mut lines: Vec<String> =
        std::fs::read_to_string(&out).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["7", "a", "bad", r#"{"n":1}"#]);
    assert_eq!(ended["on_complete"]["run"], json!(after.info.id.replace("job_", "run_") + "-1"));
    world.first_run(&after).await;

    let path = format!("/v1/batches/{}/runs?status=failed", batch["id"].as_str().unwrap());
    let (_, failed) = world.send("GET", &path, "").await;
    let [run] = failed["items"].as_array().unwrap().as_slice() else { panic!("{failed}") };
    let path = format!("/v1/jobs/{}", run["job_id"].as_str().unwrap());
    let (_, job) = world.send("GET", &path, "").await;
    assert_eq!((&job["batch"], &job["env"]["BELLWETHER_ITEM"]), (&batch["id"], &json!("bad")));
    let (_, edit) = world.send("PATCH", &path, r#"{"priority": 1}"#).await;
    assert_eq!(edit["code"], "batch_member");
    // Another go for the one that failed counts.
    let retry = format!("/v1/runs/{}/retry", run["id"].as_str().unwrap());
    std::fs::write(&out, "").unwrap();
    world.send("POST", &retry, "").await;
    world
        .until("it was tried again", async || std::fs::read_to_string(&out).unwrap() == "bad\n")
        .await;
    world.until("it is counted again", async || get(&world, &batch).await["failed"] == 1).await;
}

#[tokio::test]
async fn r58_thousands_of_lines_reach_handlers_once_each() {
    let world = World::new().await;
    let mut body = json!({"template": {"job_type": "t", "queue": "q"}}).to_string() + "\n";
    for n in 0..5_000 {
        writeln!(body, "{{\"n\": {n}}}").unwrap();
    }
    let (status, batch) = send_lines(&world, body).await;
    assert_eq!((status, &batch["total"]), (201, &json!(5_000)));
    let payloads = work_off(&world, "q", 5_000).await;
    let mut numbers: Vec<i64> = payloads.iter().map(|p| p["n"].as_i64().unwrap()).collect();
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(0..5_000), "each item once");
    let ended = when(&world, &batch, "completed").await;
    assert_eq!(ended["succeeded"], 5_000);
    let mut seen = 0;
    let mut cursor = String::new();
    loop {
        let id = batch["id"].as_str().unwrap();
        let path = format!("/v1/batches/{id}/runs?limit=1000{cursor}");
        let (_, page) = world.send("GET", &path, "").await;
        seen += page["items"].as_array().unwrap().len();
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, 5_000);
}

#[tokio::test]
async fn r58_a_batch_is_accepted_as_a_whole_or_not_at_all() {
    let world = World::new().await;
    let mut body = String::from("{}\n");
    for _ in 0..2_500 {
        body.push_str("{\"command\": \"true\"}\n\n");
    }
    body.push_str("{\"command\": \"true\", \"key\": \"k\"}\n");
    let (status, problem) = send_lines(&world, body).await;
    assert_eq!((status, &problem["code"]), (422, &json!("field_not_applicable")));
    assert_eq!(problem["field"], "line 5002");
    let (_, batches) = world.send("GET", "/v1/batches", "").await;
    let (_, jobs) = world.send("GET", "/v1/jobs", "").await;
    assert_eq!((&batches["items"], &jobs["items"]), (&json!([]), &json!([])));
    for (body, code, field) in [
        (json!({}), "missing_field", "items"),
        (json!({"items": [1]}), "missing_field", "template"),
        (json!({"template": {"command": "true"}, "items": []}), "missing_field", "items"),
        (json!({"template": {"command": "true"}, "jobs": []}), "conflicting_fields", "jobs"),
        (
            json!({"template": {"command": "true", "schedule": "@daily"}, "items": [1]}),
            "field_not_applicable",
            "template.schedule",
        ),
        (
            json!({"template": {"job_type": "t", "payload": 1}, "items": [1]}),
            "field_not_applicable",
            "template.payload",
        ),
        (json!({"template": {"command": "true"}, "items": ["a\u{0}b"]}), "invalid_env", "items[0]"),
        (
            json!({"template": {"command": "true"}, "items": [1], "on_complete": "nobody"}),
            "job_not_found",
            "on_complete",
        ),
        (json!({"jobs": [{"command": "true"}, {"comand": "true"}]}), "unknown_field", "jobs[1]"),
    ] {
        let (_, problem) = world.send("POST", "/v1/batches", body.to_string()).await;
        assert_eq!((&problem["code"], &problem["field"]), (&json!(code), &json!(field)), "{body}");
    }
}

#[tokio::test]
async fn r58_a_batch_that_is_sent_twice_is_created_once() {
    let world = World::new().await;
    let batch = |item: &str| {
        json!({"key": "march", "template": {"command": "true"}, "items": [item]}).to_string()
    };
    let (status, first) = world.send("POST", "/v1/batches", batch("a")).await;
    assert_eq!(status, 201);
    let (status, again) = world.send("POST", "/v1/batches", batch("a")).await;
    assert_eq!((status, &again["id"]), (200, &first["id"]));
    let (status, other) = world.send("POST", "/v1/batches", batch("b")).await;
    assert_eq!((status, &other["code"]), (409, &json!("key_exists")));
    let (status, found) = world.send("GET", "/v1/batches/march", "").await;
    assert_eq!((status, &found["id"]), (200, &first["id"]));
    let (_, list) = world.send("GET", "/v1/batches", "").await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn r58_a_batch_is_canceled_as_a_whole() {
    let world = World::new().await;
    let marker = world.dir.path().join("after");
    world.add(json!({"key": "after", "schedule": "@yearly", "command": format!("touch {}", marker.display())})).await;
    let items: Vec<u32> = (0..3_000).collect();
    let batch = create(&world, json!({"template": {"job_type": "t", "queue": "q"}, "items": items, "on_complete": "after"})).await;
    // One of them is under way when the end comes.
    let ask = json!({"worker": "w", "max": 1, "wait": "5s", "job_types": ["t"]}).to_string();
    let (_, leased) = world.send("POST", "/v1/queues/q/lease", ask).await;
    let cancel = format!("/v1/batches/{}/cancel", batch["id"].as_str().unwrap());
    let (status, canceling) = world.send("POST", &cancel, r#"{"note": "a mistake"}"#).await;
    assert_eq!((status, &canceling["cancel"]["note"]), (200, &json!("a mistake")));
    world.until("the others are", async || get(&world, &batch).await["canceled"] == 2_999).await;
    let open = get(&world, &batch).await;
    assert_eq!((&open["status"], &open["running"]), (&json!("canceling"), &json!(1)));
    let run = &leased["runs"][0];
    let done = json!({"worker": "w", "results": [{"run_id": run["run_id"], "fencing_token": run["fencing_token"], "outcome": "succeeded"}]});
    world.send("POST", "/v1/queues/q/complete", done.to_string()).await;
    let ended = when(&world, &batch, "canceled").await;
    assert_eq!((&ended["succeeded"], &ended["canceled"]), (&json!(1), &json!(2_999)));
    assert_eq!(
        ended["on_complete"]["run"],
        Value::Null,
        "what follows a batch does not follow this one"
    );
    assert!(!marker.exists());
    let (status, over) = world.send("POST", &cancel, "").await;
    assert_eq!((status, &over["code"]), (409, &json!("batch_ended")));
}

#[tokio::test]
async fn r58_a_batch_goes_on_after_a_restart() {
    let world = World::new().await;
    let items: Vec<u32> = (0..3_000).collect();
    let later = json!({"template": {"job_type": "t", "queue": "q"}, "items": items, "schedule_time": "2999-01-01T00:00:00Z"});
    let later = create(&world, later).await;
    assert_eq!((&later["status"], &later["waiting"]), (&json!("scheduled"), &json!(3_000)));
    let batch =
        create(&world, json!({"template": {"job_type": "t", "queue": "q"}, "items": items})).await;
    let world = world.restart().await;
    work_off(&world, "q", 3_000).await;
    let ended = when(&world, &batch, "completed").await;
    assert_eq!(ended["succeeded"], 3_000);
    assert_eq!(get(&world, &later).await["status"], "scheduled");
    let cancel = format!("/v1/batches/{}/cancel", later["id"].as_str().unwrap());
    world.send("POST", &cancel, "").await;
    assert_eq!(when(&world, &later, "canceled").await["canceled"], 3_000);
}

#[tokio::test]
async fn r42_batches_are_seen_in_their_own_namespace() {
    let world = World::with(|config| config.require_token = true).await;
    let admin = world.server.admin_token().unwrap().to_owned();
    let client = http_client();
    let url = |path: &str| format!("http://{}{path}", world.server.local_addr());
    let send = async |token: &str, path: &str, body: Value| {
        let request = client.post(url(path)).bearer_auth(token).body(body.to_string());
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let make = json!({"name": "t", "role": "editor", "namespace": "team"});
    let (_, token) = send(&admin, "/v1/tokens", make).await;
    let team = token["secret"].as_str().unwrap().to_owned();
    let batch = json!({"template": {"command": "true"}, "items": [1]});
    let (_, own) = send(&team, "/v1/batches", batch.clone()).await;
    assert_eq!(own["namespace"], "team");
    let (_, other) = send(&admin, "/v1/batches", batch).await;
    let elsewhere = json!({"namespace": "default", "template": {"command": "true"}, "items": [1]});
    assert_eq!(send(&team, "/v1/batches", elsewhere).await.0, 403);
    let seen = client.get(url("/v1/batches")).bearer_auth(&team).send().await.unwrap();
    let seen: Value = seen.json().await.unwrap();
    assert_eq!(seen["items"].as_array().unwrap().len(), 1);
    let path = format!("/v1/batches/{}", other["id"].as_str().unwrap());
    let hidden = client.get(url(&path)).bearer_auth(&team).send().await.unwrap();
    assert_eq!(hidden.status().as_u16(), 404);
    let cancel = send(&team, &format!("{path}/cancel"), json!({})).await;
    assert_eq!(cancel.0, 404);
}
