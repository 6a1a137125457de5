//! Commands and requests, from creation to history.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::any;
use bellwether_api::RunStatus;
use serde_json::json;

use crate::world::{World, http_client, now};

#[tokio::test]
async fn a_command_that_uses_more_memory_than_it_may_fails_and_says_so() {
    let world = World::new().await;
    let hold = "python3 -c 'import sys; x = bytearray(300 << 20); sys.stdin.read()'";
    let script =
        format!("mkfifo {0}/never; exec 3<>{0}/never; {hold} <&3", world.dir.path().display());
    let spec = json!({"schedule": {"delay": "0s"}, "command": script, "memory_limit": "200M"});
    let job = world.add(spec).await;
    assert_eq!(job.spec.memory_limit.unwrap().to_string(), "200M");
    let run = world.first_run(&job).await;
    assert_eq!(run.status, RunStatus::Failed);
    let attempt = &run.attempts[0];
    assert_eq!(attempt.reason.as_deref(), Some("memory_limit"), "{attempt:?}");
    assert!(attempt.detail.as_ref().unwrap().contains("200 MiB"), "{attempt:?}");
}

#[tokio::test]
async fn r46_shell_python_and_a_binary_run_as_processes() {
    let world = World::new().await;
    for (command, output) in [
        (json!("echo \"shell $((1 + 1))\""), "shell 2\n"),
        (json!(["python3", "-c", "print('python', 1 + 1)"]), "python 2\n"),
        (json!(["/bin/echo", "binary", "2"]), "binary 2\n"),
    ] {
        let job = world.add(json!({"schedule": {"delay": "0s"}, "command": command})).await;
        let run = world.first_run(&job).await;
        assert_eq!(run.status, RunStatus::Succeeded, "{run:?}");
        let (_, text) = world.send("GET", &format!("/v1/runs/{}/output", run.id), "").await;
        assert_eq!(text, output);
    }
}

#[tokio::test]
async fn r37_output_is_live_while_running_and_kept_afterwards() {
    let world = World::new().await;
    let gate = world.dir.path().join("gate");
    let line = format!(
        "echo first; while [ ! -e {} ]; do sleep 0.02; done; echo last >&2",
        gate.display()
    );
    let job = world.add(now(&line)).await;
    let run = world.run_when(&job, 1, |run| run.status == RunStatus::Running).await;
    let url = format!("http://{}/v1/runs/{}/output?follow=true", world.server.local_addr(), run.id);
    let mut live = http_client().get(url).send().await.unwrap();
    assert_eq!(live.chunk().await.unwrap().unwrap(), "first\n", "seen while it runs");
    std::fs::write(gate, "").unwrap();
    let mut rest = Vec::new();
    while let Some(chunk) = live.chunk().await.unwrap() {
        rest.extend_from_slice(&chunk);
    }
    assert_eq!(rest, b"last\n");
    let run = world.first_run(&job).await;
    let path = format!("/v1/runs/{}/output", run.id);
    assert_eq!(world.send("GET", &path, "").await.1, "first\nlast\n");
    assert_eq!(world.send("GET", &format!("{path}?stream=stderr"), "").await.1, "last\n");
}

#[tokio::test]
async fn r37_following_goes_on_through_retries_until_the_run_has_ended() {
    let world = World::new().await;
    let mut spec = now("echo try $BELLWETHER_ATTEMPT; [ $BELLWETHER_ATTEMPT -ge 3 ]");
    spec["schedule"] = json!({"delay": "300ms"});
    spec["retry"] = json!({"max": 3, "initial": "200ms"});
    let job = world.add(spec).await;
    let id = format!("{}-1", job.info.id.replacen("job_", "run_", 1));
    let url = format!("http://{}/v1/runs/{id}/output?follow=true", world.server.local_addr());
    let text = http_client().get(url).send().await.unwrap().text().await.unwrap();
    assert!(text.ends_with("try 3\n"), "{text}");
    assert_eq!(world.first_run(&job).await.attempts.len(), 3);
}

#[tokio::test]
async fn r44_exit_code_zero_but_failed() {
    let world = World::new().await;
    let mut spec = now("echo all fine; echo ERROR disk full");
    spec["success"] = json!({"output_must_not_match": "ERROR"});
    let job = world.add(spec).await;
    let run = world.first_run(&job).await;
    assert_eq!((run.status, run.exit_code), (RunStatus::Failed, Some(0)));
    assert!(run.detail.unwrap().contains("ERROR"));
}

#[tokio::test]
async fn r53_a_background_child_and_a_closed_stdout_do_not_hang_a_run() {
    let world = World::new().await;
    for line in ["sleep 30 & echo started", "exec >&- 2>&-; true"] {
        let job = world.add(now(line)).await;
        let run = world.first_run(&job).await;
        assert_eq!(run.status, RunStatus::Succeeded);
        assert!(run.duration_ms.unwrap() < 20_000, "{line} took {:?}", run.duration_ms);
    }
}

type Seen = Arc<Mutex<Vec<HeaderMap>>>;

async fn target(status: StatusCode) -> (String, Seen) {
    let seen = Seen::default();
    let record = seen.clone();
    let app = Router::new().fallback(any(move |headers: HeaderMap, body: String| async move {
        record.lock().unwrap().push(headers);
        (status, [("x-answer", "yes")], format!("got {body}"))
    }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    (format!("http://{address}/hook"), seen)
}

#[tokio::test]
async fn r26_r55_a_request_is_made_and_its_answer_kept_and_its_secret_is_not() {
    let world = World::new().await;
    let (url, seen) = target(StatusCode::OK).await;
    let spec = json!({"key": "h", "schedule": {"delay": "0s"}, "http": {
        "url": url, "method": "POST", "headers": {"x-api-key": "s3cret-header", "x-plain": "p"},
        "body": {"order": 7}, "auth": {"basic": {"username": "ana", "password": "s3cret-word"}}
    }});
    let (status, made) = world.send("POST", "/v1/jobs", spec.to_string()).await;
    assert_eq!(status, 201, "{made}");
    let job = world.client.job("h").await.unwrap();
    let run = world.first_run(&job).await;
    assert_eq!(run.status, RunStatus::Succeeded, "{run:?}");
    let response = run.attempts[0].response.as_ref().unwrap();
    assert_eq!((response.status, response.body.as_str()), (200, "got {\"order\":7}"));
    assert_eq!(response.headers["x-answer"], "yes");
    let headers = seen.lock().unwrap().pop().unwrap();
    assert_eq!(headers["idempotency-key"], run.idempotency_key.as_str());
    assert_eq!(headers["x-api-key"], "s3cret-header");
    assert_eq!(headers["authorization"], "Basic YW5hOnMzY3JldC13b3Jk");
    for path in [
        "/v1/jobs/h".to_owned(),
        "/v1/jobs".to_owned(),
        format!("/v1/runs/{}", run.id),
        "/v1/audit".to_owned(),
    ] {
        let text = world.send("GET", &path, "").await.1.to_string();
        assert!(!text.contains("s3cret"), "{path} shows a secret: {text}");
    }
    // An edit that leaves the masked secret as it is keeps it.
    let patch = json!({"schedule": {"delay": "0s"}, "description": "again"});
    assert_eq!(world.send("PATCH", "/v1/jobs/h", patch.to_string()).await.0, 200);
    world.client.trigger_job("h").await.ok();
    world.until("asked again", async || !seen.lock().unwrap().is_empty()).await;
    let headers = seen.lock().unwrap().pop().unwrap();
    assert_eq!(headers["x-api-key"], "s3cret-header");
}

#[tokio::test]
async fn a_5xx_is_retried_and_a_3xx_is_not_followed() {
    let world = World::new().await;
    let (url, seen) = target(StatusCode::SERVICE_UNAVAILABLE).await;
    let spec = json!({"schedule": {"delay": "0s"}, "retry": {"max": 2, "initial": "1ms"}, "http": {"url": url}});
    let job = world.add(spec).await;
    let run = world.first_run(&job).await;
    assert_eq!((run.status, run.attempts.len()), (RunStatus::Failed, 3));
    let keys: Vec<_> = seen.lock().unwrap().iter().map(|h| h["idempotency-key"].clone()).collect();
    assert!(keys.len() == 3 && keys.iter().all(|key| *key == keys[0]));
    let (url, seen) = target(StatusCode::FOUND).await;
    let job = world.add(json!({"schedule": {"delay": "0s"}, "http": {"url": url}})).await;
    assert_eq!(world.first_run(&job).await.status, RunStatus::Failed);
    assert_eq!(seen.lock().unwrap().len(), 1);
}
