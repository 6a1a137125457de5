//! Bad input gets a clear error, and nothing is lost.

use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn r80_200_kb_of_payload_pass_and_more_gets_413() {
    let world = World::new().await;
    let body = |size: usize| {
        let text = "x".repeat(size - 2);
        json!({"job_type": "t", "schedule": {"delay": "1h"}, "payload": text}).to_string()
    };
    let (status, made) = world.send("POST", "/v1/jobs", body(200 * 1024)).await;
    assert_eq!(status, 201, "{made}");
    let read = world.client.job(made["id"].as_str().unwrap()).await.unwrap();
    assert_eq!(read.spec.payload.unwrap().get().len(), 200 * 1024);
    let (status, problem) = world.send("POST", "/v1/jobs", body(200 * 1024 + 1)).await;
    assert_eq!((status, &problem["code"]), (413, &json!("payload_too_large")), "{problem}");
    let (status, problem) = world.send("POST", "/v1/jobs", body(3 * 1024 * 1024)).await;
    assert_eq!((status, &problem["code"]), (413, &json!("body_too_large")), "{problem}");
}

#[tokio::test]
async fn extreme_cursors_are_harmless() {
    let world = World::new().await;
    let job = world.add(crate::world::now("exit 1")).await;
    world.first_run(&job).await;
    for time in [i64::MIN, -1, 0, i64::MAX] {
        for run in ["run_0000000000000-0", "run_0000000000000-4294967295", "run_FZZZZZZZZZZZZ-1"] {
            for query in ["", "&status=failed"] {
                let path = format!("/v1/runs?cursor=ended.{time}.{run}{query}");
                let (status, answer) = world.send("GET", &path, "").await;
                assert!(status == 200 || status == 400, "{path}: {status} {answer}");
            }
        }
        let path = format!("/v1/jobs/{}/ticks?cursor={time}.4294967295", job.info.id);
        assert_eq!(world.send("GET", &path, "").await.0, 200, "{path}");
    }
    let (status, page) = world.send("GET", "/v1/jobs?key_prefix=a&cursor=zzz", "").await;
    assert_eq!((status, &page["items"]), (200, &json!([])));
    assert_eq!(world.send("GET", "/readyz", "").await.0, 200, "every shard goes on");
}

#[tokio::test]
async fn a_time_after_the_last_one_is_told_the_bound() {
    let world = World::new().await;
    for (schedule, field) in [
        (json!({"at": "9999-12-31T23:59:59Z"}), "schedule.at"),
        (json!("at 9999-12-31T23:59:59Z"), "schedule"),
    ] {
        let body = json!({"schedule": schedule, "command": "true"}).to_string();
        let (_, problem) = world.send("POST", "/v1/jobs", body).await;
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("the last time possible is 9999-12-30T22:00:00Z"), "{detail}");
        assert_eq!(problem["field"], field);
    }
    let last = json!({"schedule_time": "9999-12-30T22:00:00Z", "command": "true"}).to_string();
    let (status, job) = world.send("POST", "/v1/jobs", last).await;
    assert_eq!(status, 201, "{job}");
    let id = job["id"].as_str().unwrap();
    assert_eq!(world.send("POST", &format!("/v1/jobs/{id}/pause"), "").await.0, 200);
    assert_eq!(world.send("POST", &format!("/v1/jobs/{id}/resume"), "").await.0, 200);
}

#[tokio::test]
async fn a_list_is_not_taken_for_an_object_in_any_request() {
    let world = World::new().await;
    let plain = json!({"key": "k", "schedule": "@yearly", "command": "true"});
    world.add(plain.clone()).await;
    let mut listed = plain;
    listed["retry"] = json!([3]);
    for (method, path, body, field) in [
        ("POST", "/v1/jobs", listed.to_string(), "retry"),
        ("PUT", "/v1/jobs/k", listed.to_string(), "retry"),
        ("PATCH", "/v1/jobs/k", json!({"retry": [3]}).to_string(), "retry"),
    ] {
        let (status, problem) = world.send(method, path, body).await;
        assert_eq!((status, &problem["code"]), (400, &json!("invalid_type")), "{path}: {problem}");
        assert_eq!(problem["field"], field, "{problem}");
    }
    let batch = json!({"jobs": [listed, ["k"]]}).to_string();
    let (_, answer) = world.send("POST", "/v1/jobs:batch", batch).await;
    for (n, field) in [json!("retry"), json!(null)].into_iter().enumerate() {
        let problem = &answer["results"][n]["error"];
        assert_eq!((&problem["code"], &problem["field"]), (&json!("invalid_type"), &field));
    }
}

#[tokio::test]
async fn problems_have_a_status_a_code_and_the_field() {
    let world = World::new().await;
    for (method, path, body, status, code, field) in [
        ("POST", "/v1/jobs", "{", 400, "invalid_json", None),
        ("POST", "/v1/jobs", r#"{"comand": "x"}"#, 400, "unknown_field", Some("comand")),
        (
            "POST",
            "/v1/jobs",
            r#"{"schedule": "0 0 30 2 *", "command": "x"}"#,
            422,
            "never_fires",
            Some("schedule.cron"),
        ),
        (
            "POST",
            "/v1/jobs",
            r#"{"schedule": {"cron": "0 0 * * *", "timezone": "Mars/Base"}, "command": "x"}"#,
            422,
            "unknown_timezone",
            Some("schedule.timezone"),
        ),
        ("GET", "/v1/jobs/job_0000000000000", "", 404, "job_not_found", None),
        ("GET", "/v1/runs/nonsense", "", 404, "run_not_found", None),
        ("GET", "/v1/jobs?limit=0", "", 400, "invalid_parameter", Some("limit")),
        ("GET", "/v1/jobs?limit=many", "", 400, "invalid_parameter", None),
        ("GET", "/v1/jobs?colour=red", "", 400, "invalid_parameter", None),
        ("GET", "/v1/jobs?cursor=x", "", 400, "invalid_cursor", Some("cursor")),
        ("GET", "/v1/nothing", "", 404, "no_such_path", None),
        ("DELETE", "/v1/jobs", "", 405, "no_such_method", None),
    ] {
        let (got, problem) = world.send(method, path, body).await;
        assert_eq!(
            (got, problem["code"].as_str()),
            (status, Some(code)),
            "{method} {path} {body}: {problem}"
        );
        assert_eq!(problem["status"], status);
        assert!(problem["detail"].as_str().unwrap().len() > 10);
        if let Some(field) = field {
            assert_eq!(problem["field"], field, "{problem}");
        }
    }
}

#[tokio::test]
async fn hostile_strings_come_back_as_they_went_in() {
    let world = World::new().await;
    for text in [
        "'; DROP TABLE jobs; --",
        "<script>alert(1)</script>",
        "\u{202e}evil",
        "naïve ☃ 🐏",
        "../../etc/passwd",
        "%00%0a",
    ] {
        let body = json!({"key": text, "schedule": {"delay": "1h"}, "command": format!("echo {text}"), "description": text});
        let (status, made) = world.send("POST", "/v1/jobs", body.to_string()).await;
        assert_eq!(status, 201, "{made}");
        let read = world.client.job(text).await.unwrap();
        assert_eq!(read.spec.key.as_deref(), Some(text));
        assert_eq!(read.spec.description.as_deref(), Some(text));
    }
}
