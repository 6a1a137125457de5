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
