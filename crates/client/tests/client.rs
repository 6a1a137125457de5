//! The client against a small server that answers as the API is documented to.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say so at once")]

mod support;

use std::pin::pin;

use axum::Json;
use axum::extract::{Path, Query, RawQuery, Request};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{delete, get, post, put};
use bellwether_client::api::{JobSpec, JobStatus, PauseRequest, Problem};
use bellwether_client::{
    Client, ClientError, EventFilter, Heard, JobFilter, OutputFilter, OutputStream,
};
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};
use support::{job_json, serve};

#[tokio::test]
async fn creating_tells_new_from_there_already_and_conflict() {
    let router = axum::Router::new().route(
        "/v1/jobs",
        post(async |Json(body): Json<Value>| match body["key"].as_str() {
            Some("new") => (StatusCode::CREATED, Json(job_json("new"))).into_response(),
            Some("old") => Json(job_json("old")).into_response(),
            _ => problem(Problem::new(409, "key_exists", "use PUT").at("key")),
        }),
    );
    let client = Client::new(&serve(router).await).unwrap();
    let spec = |key: &str| JobSpec { key: Some(key.to_owned()), ..JobSpec::default() };
    assert!(client.create_job(spec("new")).await.unwrap().new);
    assert!(!client.create_job(spec("old")).await.unwrap().new);
    let error = client.create_job(spec("other")).await.unwrap_err();
    assert_eq!((error.code(), error.status()), (Some("key_exists"), Some(409)));
    assert_eq!(error.to_string(), "key: use PUT (key_exists)");
}

fn problem(problem: Problem) -> axum::response::Response {
    let status = StatusCode::from_u16(problem.status).unwrap();
    (status, Json(problem)).into_response()
}

#[tokio::test]
async fn keys_and_namespaces_are_escaped_and_sent() {
    let router = axum::Router::new().route(
        "/v1/jobs/{job}",
        put(async |Path(job): Path<String>, RawQuery(query), Json(body): Json<Value>| {
            let mut answer = job_json(&job);
            answer["description"] = json!(query);
            answer["namespace"] = body["namespace"].clone();
            Json(answer)
        }),
    );
    let client = Client::builder().server(serve(router).await).namespace("a&b").build().unwrap();
    let put = client.put_job("with/slash ?#%", JobSpec::default()).await.unwrap();
    assert!(!put.new);
    assert_eq!(put.job.spec.key.as_deref(), Some("with/slash ?#%"));
    assert_eq!(put.job.spec.description.as_deref(), Some("namespace=a%26b"));
    assert_eq!(put.job.spec.namespace.as_deref(), Some("a&b"));
    for name in ["", ".", ".."] {
        let error = client.delete_job(name).await.unwrap_err();
        assert!(matches!(error, ClientError::Setup(_)), "'{name}' must not become another path");
    }
}

#[tokio::test]
async fn lists_are_read_to_their_end_also_through_empty_pages() {
    let router = axum::Router::new().route(
        "/v1/jobs",
        get(async |Query(query): Query<Vec<(String, String)>>| {
            let get = |name: &str| query.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
            assert_eq!((get("status"), get("label")), (Some("paused"), Some("team=bi")));
            Json(match get("cursor") {
                None => json!({"items": [job_json("a"), job_json("b")], "next_cursor": "1"}),
                Some("1") => json!({"items": [], "next_cursor": "2"}),
                _ => json!({"items": [job_json("c")], "next_cursor": null}),
            })
        }),
    );
    let client = Client::new(&serve(router).await).unwrap();
    let filter = JobFilter {
        status: Some(JobStatus::Paused),
        label: Some("team=bi".to_owned()),
        ..JobFilter::default()
    };
    let jobs: Vec<_> = client.jobs_all(filter.clone()).try_collect().await.unwrap();
    let keys: Vec<_> = jobs.into_iter().filter_map(|job| job.spec.key).collect();
    assert_eq!(keys, ["a", "b", "c"]);
    let page = client.jobs(&filter).await.unwrap();
    assert_eq!(page.next_cursor.as_deref(), Some("1"));
}

#[tokio::test]
async fn batches_go_as_one_line_per_job() {
    let router = axum::Router::new().route(
        "/v1/jobs:batch",
        post(async |headers: HeaderMap, body: String| {
            assert_eq!(headers[header::CONTENT_TYPE], "application/x-ndjson");
            let results: Vec<Value> = body
                .lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap())
                .map(|job| json!({"status": 201, "id": job["key"]}))
                .collect();
            Json(json!({"created": results.len(), "existing": 0, "failed": 0, "results": results}))
        }),
    );
    let client = Client::new(&serve(router).await).unwrap();
    let spec = |n: usize| JobSpec { key: Some(format!("k{n}\n")), ..JobSpec::default() };
    let answer = client.create_jobs(&[spec(1), spec(2)]).await.unwrap();
    assert_eq!(answer.created, 2);
    assert_eq!(answer.results[1].id.as_deref(), Some("k2\n"));
}

#[tokio::test]
async fn the_token_is_sent_and_never_shown() {
    let router = axum::Router::new().route(
        "/v1/jobs/{job}/pause",
        post(async |headers: HeaderMap, Json(body): Json<Value>| {
            assert_eq!(headers[header::AUTHORIZATION], "Bearer s3cret");
            assert_eq!(body, json!({"note": "why"}));
            Json(job_json("x"))
        }),
    );
    let client = Client::builder().server(serve(router).await).token("s3cret\n").build().unwrap();
    let note = PauseRequest { note: Some("why".to_owned()) };
    client.pause_job("x", &note).await.unwrap();
    assert!(!format!("{client:?}").contains("s3cret"));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_apart() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let error = Client::new(&address).unwrap().job("x").await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&address) && text.contains("`bellwether server`"), "{text}");
    assert!(text.contains("refused"), "the cause is told: {text}");
}

#[tokio::test]
async fn something_else_than_bellwether_is_told_apart() {
    let router = axum::Router::new().fallback(async || (StatusCode::NOT_FOUND, "<html>nginx"));
    let error = Client::new(&serve(router).await).unwrap().job("x").await.unwrap_err();
    assert!(matches!(error, ClientError::Answer { .. }), "{error:?}");
    assert!(error.to_string().contains("<html>nginx"), "{error}");
}

#[tokio::test]
async fn deleting_expects_no_body() {
    let router =
        axum::Router::new().route("/v1/tokens/{name}", delete(async || StatusCode::NO_CONTENT));
    Client::new(&serve(router).await).unwrap().revoke_token("ci").await.unwrap();
}

#[tokio::test]
async fn output_comes_as_it_is_printed() {
    let router = axum::Router::new().route(
        "/v1/runs/{run}/output",
        get(async |request: Request| {
            assert_eq!(request.uri().query(), Some("attempt=2&stream=stderr&follow=true"));
            let pieces = ["one ", "two"].map(Ok::<_, std::convert::Infallible>);
            axum::body::Body::from_stream(futures::stream::iter(pieces))
        }),
    );
    let client = Client::new(&serve(router).await).unwrap();
    let filter =
        OutputFilter { attempt: Some(2), stream: Some(OutputStream::Stderr), follow: true };
    let output = client.output("run_1-1", filter).await.unwrap();
    let bytes: Vec<_> = output.try_collect().await.unwrap();
    assert_eq!(bytes.concat(), b"one two");
}

#[tokio::test]
async fn events_are_read_from_the_stream() {
    let router = axum::Router::new().route(
        "/v1/events",
        get(async || {
            let event = json!({"at": "2026-01-01T00:00:00.000Z", "event": "started", "run_id": "r",
                "job_id": "j", "namespace": "default", "queue": "default", "status": "running"});
            let text = format!(": hello\n\nevent: run\ndata: {event}\n\n:\n\ndata: {event}\n\nevent: missed\ndata: 7\n\n");
            ([(header::CONTENT_TYPE, "text/event-stream")], text)
        }),
    );
    let client = Client::new(&serve(router).await).unwrap();
    let events = client.events(&EventFilter::default()).await.unwrap();
    let mut events = pin!(events);
    for _ in 0..2 {
        let Heard::Event(event) = events.next().await.unwrap().unwrap() else { panic!("missed") };
        assert_eq!((event.event.as_str(), event.run_id.as_deref()), ("started", Some("r")));
    }
    assert!(matches!(events.next().await.unwrap().unwrap(), Heard::Missed(7)));
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn health_is_an_answer_also_when_it_is_bad() {
    let router = axum::Router::new().route("/healthz", get(async || "ok\n")).route(
        "/readyz",
        get(async || problem(Problem::new(503, "store_failed", "the disk is full"))),
    );
    let health = Client::new(&serve(router).await).unwrap().health().await.unwrap();
    assert_eq!((health.healthy, health.ready), (true, false));
    assert_eq!(health.detail, "the disk is full");
}
