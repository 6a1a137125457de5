//! Creating jobs, and reading back what was created.

use bellwether_api::JobStatus;
use serde_json::{Value, json};

use crate::world::{World, now, spec_of};

const SHORT: &str = r#"{ "job_type": "email_send", "schedule_time": "2026-12-31T23:59:59Z", "payload": {"user_id": 123}, "retries": 3 }"#;

#[tokio::test]
async fn r15_the_short_form_is_taken_as_it_stands_and_readable() {
    let world = World::new().await;
    let body = SHORT.replace("2026-", "2126-");
    let (status, made) = world.send("POST", "/v1/jobs", body).await;
    assert_eq!(status, 201, "{made}");
    let (status, read) =
        world.send("GET", &format!("/v1/jobs/{}", made["id"].as_str().unwrap()), "").await;
    assert_eq!(status, 200);
    assert_eq!(read["job_type"], "email_send");
    assert_eq!(read["payload"], json!({"user_id": 123}));
    assert_eq!(read["retries"], 3);
    assert_eq!(read["schedule_time"], "2126-12-31T23:59:59.000Z");
}

#[tokio::test]
async fn r16_id_execution_time_status_and_shard_are_in_the_answer() {
    let world = World::new().await;
    let (_, made) = world.send("POST", "/v1/jobs", SHORT.replace("2026-", "2126-")).await;
    assert!(made["id"].as_str().unwrap().starts_with("job_"));
    assert_eq!(made["execution_time"], "2126-12-31T23:59:59.000Z");
    assert_eq!(made["status"], "scheduled");
    assert!(made["shard"].as_u64().unwrap() < 4);
}

#[tokio::test]
async fn r17_a_complete_definition_round_trips() {
    let world = World::new().await;
    let spec = json!({
        "key": "nightly-report", "namespace": "default", "group": "reports", "owner": "ana",
        "labels": {"team": "bi"},
        "schedule": {"cron": "5 2 * * 6", "timezone": "Europe/Berlin"},
        "command": "make-report --full", "env": {"LANG": "C"}, "queue": "heavy",
        "retry": {"max": 3, "initial": "10s"}, "timeout": "1h", "overlap": "skip",
        "misfire": {"policy": "once", "window": "6h"},
        "success": {"exit_codes": [0], "output_must_not_match": "ERROR"},
        "notify": [{"on": ["failure", "recovery"], "email": "ops@example.com"}], "enabled": true
    });
    let (status, made) = world.send("POST", "/v1/jobs", spec.to_string()).await;
    assert_eq!(status, 201, "{made}");
    let (_, read) = world.send("GET", "/v1/jobs/nightly-report", "").await;
    for (field, value) in spec.as_object().unwrap() {
        let found = &read[field];
        if field == "retry" {
            assert_eq!((&found["max"], &found["initial"]), (&json!(3), &json!("10s")));
        } else {
            assert_eq!(found, value, "{field}");
        }
    }
    // Sent back as it was read, it is the same job.
    let again: Value =
        serde_json::to_value(world.client.job("nightly-report").await.unwrap().spec).unwrap();
    let put = world.client.put_job("nightly-report", spec_of(again)).await.unwrap();
    assert_eq!(put.job.info.id, made["id"].as_str().unwrap());
}

#[tokio::test]
async fn r8_schedules_read_back_in_plain_words() {
    let world = World::new().await;
    let job = world.add(json!({"schedule": "5 2 * * 6", "command": "true"})).await;
    assert!(
        job.info.schedule_text.starts_with("At 02:05 on Saturday"),
        "{}",
        job.info.schedule_text
    );
    let request = json!({"cron": "5 2 * * 6", "timezone": "Europe/Berlin", "count": 2, "from": "2026-03-27T00:00:00Z"});
    let (status, told) = world.send("POST", "/v1/schedules:preview", request.to_string()).await;
    assert_eq!(status, 200, "{told}");
    assert_eq!(told["times"], json!(["2026-03-28T01:05:00.000Z", "2026-04-04T00:05:00.000Z"]));
}

#[tokio::test]
async fn the_same_key_and_body_is_the_same_job_and_another_body_a_conflict() {
    let world = World::new().await;
    let body = json!({"key": "a", "schedule": {"delay": "1h"}, "command": "true"});
    let (first, made) = world.send("POST", "/v1/jobs", body.to_string()).await;
    let (second, same) = world.send("POST", "/v1/jobs", body.to_string()).await;
    assert_eq!((first, second), (201, 200));
    assert_eq!(made["id"], same["id"]);
    let other = json!({"key": "a", "schedule": {"delay": "2h"}, "command": "true"});
    let (status, problem) = world.send("POST", "/v1/jobs", other.to_string()).await;
    assert_eq!((status, &problem["code"]), (409, &json!("key_exists")));
    // In another namespace the key is another one, and once deleted it is free.
    let elsewhere =
        json!({"key": "a", "namespace": "b", "schedule": {"delay": "2h"}, "command": "true"});
    assert_eq!(world.send("POST", "/v1/jobs", elsewhere.to_string()).await.0, 201);
    assert_eq!(world.send("DELETE", "/v1/jobs/a", "").await.0, 204);
    assert_eq!(world.send("POST", "/v1/jobs", other.to_string()).await.0, 201);
}

#[tokio::test]
async fn keys_and_ordering_keys_of_different_shards_stay_unique() {
    let world = World::new().await;
    for n in 0..12 {
        let body = |delay: &str| json!({"key": format!("k{n}"), "ordering_key": format!("o{}", n * 7), "schedule": {"delay": delay}, "command": "true"});
        let (first, made) = world.send("POST", "/v1/jobs", body("1h").to_string()).await;
        let (second, same) = world.send("POST", "/v1/jobs", body("1h").to_string()).await;
        let (third, _) = world.send("POST", "/v1/jobs", body("2h").to_string()).await;
        assert_eq!((first, second, third), (201, 200, 409), "{made}");
        assert_eq!(made["id"], same["id"]);
        assert_eq!(world.send("DELETE", &format!("/v1/jobs/k{n}"), "").await.0, 204);
        assert_eq!(world.send("POST", "/v1/jobs", body("2h").to_string()).await.0, 201);
    }
}

#[tokio::test]
async fn a_batch_accepts_or_refuses_each_job_on_its_own() {
    let world = World::new().await;
    let good = json!({"key": "x", "schedule": {"delay": "1h"}, "command": "true"});
    let bad = json!({"schedule": {"cron": "61 * * * *"}, "command": "true"});
    let lines = format!("{good}\n\n{bad}\nnot json\n{good}\n");
    let url = format!("http://{}/v1/jobs:batch", world.server.local_addr());
    let request =
        crate::world::http_client().post(url).header("content-type", "application/x-ndjson");
    let answer: Value =
        serde_json::from_str(&request.body(lines).send().await.unwrap().text().await.unwrap())
            .unwrap();
    assert_eq!(
        (&answer["created"], &answer["existing"], &answer["failed"]),
        (&json!(1), &json!(1), &json!(2)),
        "{answer}"
    );
    assert_eq!(answer["results"][1]["error"]["code"], "invalid_cron");
    assert_eq!(answer["results"][2]["error"]["code"], "invalid_json");
    let whole = json!({"jobs": [{"schedule": "in 1h", "command": "true"}, {"schedule": "in 2h", "command": "true"}]});
    let (status, answer) = world.send("POST", "/v1/jobs:batch", whole.to_string()).await;
    assert_eq!((status, &answer["created"]), (200, &json!(2)));
    let whole = json!({"jobs": [{"schedule": 5}, {"schedule": "in 1h", "command": "true"}, [], {"comand": "x"}]});
    let (status, answer) = world.send("POST", "/v1/jobs:batch", whole.to_string()).await;
    assert_eq!((status, &answer["created"], &answer["failed"]), (200, &json!(1), &json!(3)));
    let codes = [0, 2, 3].map(|n| answer["results"][n]["error"]["code"].as_str().unwrap());
    assert_eq!(codes, ["invalid_type", "invalid_type", "unknown_field"], "{answer}");
}

#[tokio::test]
async fn a_batch_of_jobs_with_keys_and_ordering_keys_is_whole() {
    let world = World::new().await;
    let jobs: Vec<Value> = (0..300)
        .map(|n| {
            json!({"key": format!("k{n}"), "ordering_key": format!("o{}", n % 7),
                "schedule": {"delay": "1h"}, "command": "true"})
        })
        .collect();
    let body = json!({ "jobs": jobs }).to_string();
    let (_, answer) = world.send("POST", "/v1/jobs:batch", body.clone()).await;
    assert_eq!(answer["created"], 300, "{answer}");
    let (_, again) = world.send("POST", "/v1/jobs:batch", body).await;
    assert_eq!(again["existing"], 300);
    let ids = |answer: &Value| -> Vec<String> {
        let results = answer["results"].as_array().unwrap().iter();
        results.map(|result| result["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&answer), ids(&again), "in the order of the request");
}

#[tokio::test]
async fn editing_changes_the_schedule_and_keeps_the_rest() {
    let world = World::new().await;
    let job = world
        .add(json!({"key": "e", "schedule": "every 1h", "command": "true", "labels": {"a": "b"}}))
        .await;
    let patch = json!({"schedule": {"every": "2h"}, "labels": {"a": null, "c": "d"}});
    let (status, now) = world.send("PATCH", "/v1/jobs/e", patch.to_string()).await;
    assert_eq!(status, 200, "{now}");
    assert_eq!(now["schedule"]["every"], "2h");
    assert_eq!(now["labels"], json!({"c": "d"}));
    assert_eq!(now["command"], "true");
    assert_eq!(now["revision"], 2);
    assert_eq!(now["id"].as_str().unwrap(), job.info.id);
}

#[tokio::test]
async fn patches_of_different_fields_at_once_all_take_effect() {
    let world = World::new().await;
    let job = world.add(json!({"key": "p", "schedule": "@yearly", "command": "true"})).await;
    let patches = (0..4).map(|n| {
        let patch = json!({"labels": {format!("l{n}"): "x"}});
        let client = world.client.clone();
        async move { client.patch_job("p", &patch).await.unwrap() }
    });
    futures::future::join_all(patches).await;
    let read = world.client.job(&job.info.id).await.unwrap();
    assert_eq!(read.spec.labels.len(), 4, "{:?}", read.spec.labels);
    assert_eq!(read.info.revision, 5);
}

#[tokio::test]
async fn r32_a_disabled_job_never_launches() {
    let world = World::new().await;
    let off = world.add(json!({"schedule": "every 1s", "command": "true", "enabled": false})).await;
    let mut later = now("true");
    later["enabled"] = json!(false);
    let once = world.add(later).await;
    assert_eq!(off.info.status, JobStatus::Paused);
    // Another job ticks twice meanwhile.
    let on = world.add(json!({"schedule": "every 1s", "command": "true"})).await;
    world.until("two runs", async || world.runs(&on).await.len() >= 2).await;
    assert!(world.runs(&off).await.is_empty() && world.runs(&once).await.is_empty());
    world.client.resume_job(&once.info.id).await.unwrap();
    world.first_run(&once).await;
}
