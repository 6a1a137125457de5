//! Clients that know several nodes of a cluster (R116): which is asked when one cannot be reached, does
//! not answer, or refuses. The servers are real listeners.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say so at once")]

mod support;

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::routing::{get, post};
use bellwether_client::api::{JobSpec, NewBatch, Problem};
use bellwether_client::{Client, ClientError, EventFilter, OutputFilter};
use bytes::Bytes;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use serde_json::json;
use support::{job_json, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// A port that refuses connections, and that nobody else gets.
fn refusing() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    (socket, address)
}

/// Reads requests, says the beginning of an answer and closes; the address, and how many there were.
async fn breaking_off(said: &'static str) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, count) = (listener.local_addr().unwrap().to_string(), Arc::default());
    let counting: Arc<AtomicUsize> = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 65_536];
            let _ = stream.read(&mut request).await;
            counting.fetch_add(1, Ordering::SeqCst);
            let _ = stream.write_all(said.as_bytes()).await;
        }
    });
    (address, count)
}

/// A node that answers, and how often it was asked to create something.
async fn answering() -> (String, Arc<AtomicUsize>) {
    let created: Arc<AtomicUsize> = Arc::default();
    let counting = created.clone();
    let create = async move || {
        counting.fetch_add(1, Ordering::SeqCst);
        (StatusCode::CREATED, Json(job_json("new")))
    };
    let batch = async |body: String| {
        Json(json!({
            "id": "batch_1", "namespace": "default", "status": "running", "total": 3, "waiting": 3,
            "retrying": 0, "running": 0, "succeeded": 0, "failed": 0, "canceled": 0, "lost": 0,
            "skipped": 0, "created_at": "2026-01-01T00:00:00.000Z", "created_by": "ana",
            "description": body,
        }))
    };
    let router = axum::Router::new()
        .route("/v1/jobs", post(create))
        .route("/v1/jobs/{job}", get(async || Json(job_json("x"))))
        .route("/v1/batches", post(batch))
        .route("/v1/events", get(async || "event: missed\ndata: 7\n\n"))
        .route("/v1/runs/{run}/output", get(async || "printed"))
        .route("/healthz", get(async || "ok"))
        .route("/readyz", get(async || "ok"));
    (serve(router).await, created)
}

fn client(servers: [&str; 2]) -> Client {
    Client::new(&servers.join(",")).unwrap()
}

#[tokio::test]
async fn r116_a_server_that_is_down_is_passed_over_and_the_one_that_answers_is_asked_from_then_on()
{
    let (socket, down) = refusing();
    let (up, created) = answering().await;
    let client = client([&down, &up]);
    client.create_job(JobSpec::default()).await.unwrap();
    assert_eq!(created.load(Ordering::SeqCst), 1, "nothing was sent to the first");
    assert_eq!(client.server(), format!("http://{up}"));
    // The first is back, and nobody tries: the other one works.
    let back = socket.listen(1).unwrap();
    client.clone().in_namespace(Some("other")).job("x").await.unwrap();
    assert!(back.accept().now_or_never().is_none());
}

#[tokio::test]
async fn r116_streams_and_health_are_had_from_the_next_server() {
    let ((_socket, down), (up, _)) = (refusing(), answering().await);
    let new = || client([&down, &up]);
    let events = new().events(&EventFilter::default()).await.unwrap();
    assert_eq!(pin!(events).collect::<Vec<_>>().await.len(), 1);
    let output = new().output("run_1-1", OutputFilter::default()).await.unwrap();
    assert_eq!(output.try_collect::<Vec<_>>().await.unwrap().concat(), b"printed");
    assert!(new().health().await.unwrap().ready);
}

/// A batch of three lines.
async fn send_lines(client: &Client) -> Result<String, ClientError> {
    let lines = stream::iter(["1\n", "2\n3\n"].map(Ok::<_, ClientError>));
    let created = client.create_batch_lines(NewBatch::default(), lines.map_ok(Bytes::from)).await?;
    Ok(created.batch.description.unwrap_or_default())
}

#[tokio::test]
async fn r116_lines_are_sent_whole_to_the_server_that_can_be_reached_and_to_no_other() {
    let ((_socket, down), (up, _)) = (refusing(), answering().await);
    assert_eq!(send_lines(&client([&down, &up])).await.unwrap(), "{}\n1\n2\n3\n");
    let (silent, asked) = breaking_off("").await;
    let error = send_lines(&client([&silent, &up])).await.unwrap_err();
    assert!(matches!(&error, ClientError::Interrupted { server, .. } if server.contains(&silent)));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn r116_an_answer_that_is_lost_is_asked_for_elsewhere_only_if_nothing_can_be_done_twice() {
    for said in ["", "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"id\": "] {
        let (broken, asked) = breaking_off(said).await;
        let (up, created) = answering().await;
        client([&broken, &up]).job("x").await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 1, "{said}");
        let other = client([&broken, &up]);
        let error = other.create_job(JobSpec::default()).await.unwrap_err();
        assert!(matches!(error, ClientError::Interrupted { .. }), "{said}: {error:?}");
        assert!(error.to_string().contains(&broken), "{error}");
        assert_eq!(created.load(Ordering::SeqCst), 0, "it may have been done");
        other.create_job(JobSpec::default()).await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 2, "another request goes to another");
    }
}

#[tokio::test]
async fn r116_a_server_that_does_not_take_connections_is_passed_over_in_time() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let full: SocketAddr = listener.local_addr().unwrap();
    // Whoever comes after those that wait to be accepted gets no answer.
    let mut waiting = Vec::new();
    while let Ok(stream) = tokio::time::timeout(PATIENCE, TcpStream::connect(full)).await {
        waiting.push(stream.unwrap());
    }
    let (up, _) = answering().await;
    let servers = format!("{full},{up}");
    // Connecting takes no longer than usual, and the rest of the time is for a machine that is busy.
    let client = Client::new(&servers).unwrap();
    client.job("x").await.unwrap();
}

/// How long to wait for a connection that is never made.
const PATIENCE: Duration = Duration::from_millis(500);

/// The time that is shared where a server is silent: long enough for one that answers.
const SHARED: Duration = Duration::from_secs(10);

#[tokio::test]
async fn r116_a_server_that_takes_connections_and_is_silent_leaves_time_for_the_next() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = listener.local_addr().unwrap().to_string();
    let (up, created) = answering().await;
    let new = |servers: [&str; 2], timeout: Duration| {
        Client::builder().server(servers.join(",")).timeout(timeout).build().unwrap()
    };
    let (job, events, output) = tokio::join!(
        async { new([&silent, &up], SHARED).job("x").await.map(|_| ()) },
        async { new([&silent, &up], SHARED).events(&EventFilter::default()).await.map(|_| ()) },
        async {
            let client = new([&silent, &up], SHARED);
            client.output("run_1-1", OutputFilter::default()).await.map(|_| ())
        },
    );
    for answered in [job, events, output] {
        answered.unwrap();
    }
    // What may have been done is not asked for elsewhere.
    let client = new([&silent, &up], PATIENCE);
    let error = client.create_job(JobSpec::default()).await.unwrap_err();
    assert!(matches!(&error, ClientError::Interrupted { server, .. } if server.contains(&silent)));
    assert_eq!(created.load(Ordering::SeqCst), 0);
    // When all are silent, the error says so of each.
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let second = other.local_addr().unwrap().to_string();
    let error = new([&silent, &second], PATIENCE).job("x").await.unwrap_err();
    assert!(matches!(&error, ClientError::Unreachable { tried } if tried.len() == 2), "{error:?}");
    for server in [silent, second] {
        assert!(error.to_string().contains(&format!("{server}: it took too long")), "{error}");
    }
}

#[tokio::test]
async fn r116_a_refusal_is_an_answer_and_no_other_server_is_asked() {
    let refuse = async || {
        let problem = Problem::new(503, "no_leader", "nobody leads shard 3");
        (StatusCode::SERVICE_UNAVAILABLE, Json(problem))
    };
    let without = serve(axum::Router::new().fallback(refuse)).await;
    let (up, created) = answering().await;
    let client = client([&without, &up]);
    for _ in 0..2 {
        let error = client.create_job(JobSpec::default()).await.unwrap_err();
        assert_eq!(error.code(), Some("no_leader"));
        assert_eq!(client.job("x").await.unwrap_err().code(), Some("no_leader"));
    }
    assert_eq!(created.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn r116_when_none_can_be_reached_the_error_names_all_and_why() {
    let ((_one, first), (_other, second)) = (refusing(), refusing());
    let error = client([&first, &second]).create_job(JobSpec::default()).await.unwrap_err();
    assert!(matches!(&error, ClientError::Unreachable { tried } if tried.len() == 2), "{error:?}");
    let text = error.to_string();
    for server in [first, second.clone()] {
        assert!(text.contains(&format!("http://{server}: Connection refused")), "{text}");
    }
    let (broken, _) = breaking_off("").await;
    let error = client([&broken, &second]).job("x").await.unwrap_err().to_string();
    assert!(error.contains(&broken) && error.contains(&second), "{error}");
}
