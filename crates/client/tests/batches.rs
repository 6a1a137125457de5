//! Batches (R58), against a small server that answers as the API is documented to.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say so at once")]

#[allow(dead_code, reason = "not every file needs all of it")]
mod support;

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, RawQuery};
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::{get, post};
use bellwether_client::api::{BatchStatus, CancelRequest, JobSpec, NewBatch, RunStatus};
use bellwether_client::{BatchRunFilter, Client, ClientError, PageFilter};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use support::serve;

fn batch_json(id: &str) -> Value {
    json!({
        "id": id, "namespace": "default", "status": "running", "total": 3, "waiting": 3,
        "retrying": 0, "running": 0, "succeeded": 0, "failed": 0, "canceled": 0, "lost": 0,
        "skipped": 0, "created_at": "2026-01-01T00:00:00.000Z", "created_by": "ana",
    })
}

fn head() -> NewBatch {
    let template = JobSpec { job_type: Some("t".to_owned()), ..JobSpec::default() };
    NewBatch { template: Some(Box::new(template)), ..NewBatch::default() }
}

/// Takes batches, and repeats what it got in their description.
fn taking() -> axum::Router {
    let create = async |headers: HeaderMap, body: String| {
        let kind = headers[header::CONTENT_TYPE].to_str().unwrap();
        let mut batch = batch_json("batch_1");
        batch["description"] = json!(format!("{kind} {body}"));
        (StatusCode::CREATED, Json(batch))
    };
    axum::Router::new()
        .route("/v1/batches", post(create))
        .route("/v1/batches/{batch}", get(std::future::pending::<()>))
}

#[tokio::test]
async fn r58_lines_are_sent_as_they_come_however_long_it_takes() {
    let server = serve(taking()).await;
    let client = Client::builder()
        .server(server)
        .namespace("team")
        .timeout(Duration::from_millis(20))
        .build()
        .unwrap();
    // A line may be cut anywhere. The last piece comes when another request has taken too long.
    let other = client.clone();
    let last = async move {
        let error = other.batch("never").await.unwrap_err();
        assert!(error.to_string().contains("too long"), "{error}");
        Ok("3\n")
    };
    let first = ["{\"n\"", ": 1}\n2\n"].map(Ok::<_, std::io::Error>);
    let pieces = stream::iter(first).chain(stream::once(last)).map_ok(Bytes::from);
    let created = client.create_batch_lines(head(), pieces).await.unwrap();
    assert!(created.new);
    assert_eq!(
        created.batch.description.unwrap(),
        "application/x-ndjson {\"namespace\":\"team\",\"template\":{\"job_type\":\"t\"}}\n\
         {\"n\": 1}\n2\n3\n"
    );
}

#[tokio::test]
async fn a_batch_whose_items_are_at_hand_goes_as_json() {
    let client = Client::new(&serve(taking()).await).unwrap();
    let items = ["1", "[2]"].map(|text| RawValue::from_string(text.to_owned()).unwrap());
    let batch = NewBatch { items: Some(items.into()), ..head() };
    let created = client.create_batch(batch).await.unwrap();
    assert_eq!(
        created.batch.description.unwrap(),
        "application/json {\"template\":{\"job_type\":\"t\"},\"items\":[1,[2]]}"
    );
}

#[tokio::test]
async fn lines_that_cannot_be_read_are_the_reason() {
    let client = Client::new(&serve(taking()).await).unwrap();
    let broken = stream::iter([Ok(Bytes::from("1\n")), Err("the disk is gone")]);
    let error = client.create_batch_lines(head(), broken).await.unwrap_err();
    assert!(matches!(error, ClientError::Interrupted { .. }), "{error:?}");
    assert!(error.to_string().contains("the disk is gone"), "{error}");
}

#[tokio::test]
async fn batches_are_listed_followed_and_canceled() {
    let list = async |RawQuery(query): RawQuery| {
        Json(match query.unwrap_or_default().contains("cursor") {
            false => json!({"items": [batch_json("batch_2")], "next_cursor": "x"}),
            true => json!({"items": [batch_json("batch_1")], "next_cursor": null}),
        })
    };
    let cancel = async |Path(batch): Path<String>, Json(body): Json<Value>| {
        let mut answer = batch_json(&batch);
        answer["status"] = json!("canceling");
        answer["cancel"] = json!({"at": "2026-01-01T00:00:00Z", "by": "ana", "note": body["note"]});
        Json(answer)
    };
    let runs = async |Path(batch): Path<String>, RawQuery(query): RawQuery| {
        assert_eq!((batch.as_str(), query.as_deref()), ("a b", Some("status=failed%2Clost")));
        Json(json!({"items": [], "next_cursor": null}))
    };
    let router = axum::Router::new()
        .route("/v1/batches", get(list))
        .route(
            "/v1/batches/{batch}",
            get(async |Path(batch): Path<String>| Json(batch_json(&batch))),
        )
        .route("/v1/batches/{batch}/cancel", post(cancel))
        .route("/v1/batches/{batch}/runs", get(runs));
    let client = Client::new(&serve(router).await).unwrap();
    let all: Vec<_> = client.batches_all(PageFilter::default()).try_collect().await.unwrap();
    let ids: Vec<_> = all.into_iter().map(|batch| batch.id).collect();
    assert_eq!(ids, ["batch_2", "batch_1"]);
    assert_eq!(client.batch("batch_7").await.unwrap().status, BatchStatus::Running);
    let request = CancelRequest { note: Some("why not".to_owned()) };
    let canceled = client.cancel_batch("batch_7", &request).await.unwrap();
    assert_eq!(canceled.cancel.unwrap().note, "why not");
    let statuses = vec![RunStatus::Failed, RunStatus::Lost];
    let filter = BatchRunFilter { statuses, ..BatchRunFilter::default() };
    assert_eq!(client.batch_runs_all("a b", filter).count().await, 0);
}
