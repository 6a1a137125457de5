//! Jobs with a `publish` target, from the request to the broker.

use bellwether_api::RunStatus;
use bellwether_client::{Client, PageFilter};
use serde_json::json;

use crate::server::Server;
use crate::{brokers, job, until};

/// The status of the job's only run, and how many attempts there were.
async fn outcome(client: &Client, key: &str) -> Option<(RunStatus, usize)> {
    let runs = client.job_runs(key, &PageFilter::default()).await.unwrap();
    let run = runs.items.first()?;
    Some((run.status, run.attempts.len()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r22_a_broker_that_is_down_is_tried_again_and_secrets_stay_secret() {
    let mut broker = brokers::nats(Some("s3cr3t")).await;
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(dir.path(), &["--log-level", "trace"]).await;
    let client = &server.client;
    let url = format!("nats://ana:s3cr3t@127.0.0.1:{}", broker.port);
    let trust = async_nats::ConnectOptions::new();
    let watcher = trust.user_and_password("ana".into(), "s3cr3t".into());
    let watcher = watcher.connect(format!("127.0.0.1:{}", broker.port)).await.unwrap();
    let context = async_nats::jetstream::new(watcher);
    let config = async_nats::jetstream::stream::Config {
        name: "MAIL".into(),
        subjects: vec!["mail".into()],
        ..Default::default()
    };
    context.create_stream(config).await.unwrap();
    drop(context);
    broker.kill();

    let spec = json!({
        "key": "mail", "schedule": "in 0s", "payload": {"to": "ana"},
        "retry": {"max": 100, "initial": "100ms", "max_delay": "200ms"},
        "publish": {"nats": {"url": url, "subject": "mail"}, "headers": {"X-Token": "s3cr3t"}},
    });
    let created = client.create_job(job(spec)).await.unwrap();
    let shown = serde_json::to_value(&created.job).unwrap();
    assert!(!shown.to_string().contains("s3cr3t"), "{shown}");
    let place = format!("nats://********@127.0.0.1:{}", broker.port);
    assert_eq!(shown["publish"]["nats"]["url"], place);
    assert_eq!(shown["publish"]["headers"]["X-Token"], "********");
    assert_eq!(shown["payload"], json!({"to": "ana"}));

    until("an attempt has failed", async || {
        outcome(client, "mail").await.filter(|(_, attempt)| *attempt > 1)
    })
    .await;
    broker.restart().await;
    let run = until("the message is published", async || {
        outcome(client, "mail").await.filter(|(status, _)| *status == RunStatus::Succeeded)
    })
    .await;
    assert!(run.1 > 1);

    let again = async_nats::ConnectOptions::new().user_and_password("ana".into(), "s3cr3t".into());
    let again = again.connect(format!("127.0.0.1:{}", broker.port)).await.unwrap();
    let stream = async_nats::jetstream::new(again).get_stream("MAIL").await.unwrap();
    let message = stream.get_raw_message(1).await.unwrap();
    assert_eq!(&message.payload[..], br#"{"to":"ana"}"#);
    assert_eq!(message.headers.get("X-Token").unwrap().as_str(), "s3cr3t");
    assert_eq!(message.headers.get("content-type").unwrap().as_str(), "application/json");
    assert_eq!(message.headers.get("Bellwether-Key").unwrap().as_str(), "mail");
    // Not even the finest log has a secret.
    let log = std::fs::read_to_string(dir.path().join("server.log")).unwrap();
    assert!(log.contains("attempt ended"));
    assert!(!log.contains("s3cr3t"), "{:?}", log.lines().find(|line| line.contains("s3cr3t")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r55_a_secret_is_not_sent_to_another_broker() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let client = &server.client;
    let spec = json!({
        "key": "mail", "schedule": "in 1h",
        "publish": {"amqp": {"url": "amqp://ana:s3cr3t@a.invalid/v", "routing_key": "q"}},
    });
    client.create_job(job(spec)).await.unwrap();
    let patch =
        |url: &str, key: &str| json!({"publish": {"amqp": {"url": url, "routing_key": key}}});
    // The same server: the password stays.
    let same = patch("amqp://********@a.invalid/v", "other");
    let edited = client.patch_job("mail", &same).await.unwrap();
    let shown = serde_json::to_value(&edited).unwrap();
    assert_eq!(shown["publish"]["amqp"]["routing_key"], "other");
    let moved = patch("amqp://********@evil.invalid/v", "q");
    let refused = client.patch_job("mail", &moved).await.unwrap_err();
    assert!(refused.to_string().contains("another server"), "{refused}");
}
