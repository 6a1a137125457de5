//! Jobs that come through a broker, while the server is killed again and again.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use async_nats::jetstream::{self, stream};
use bellwether_client::{Client, JobFilter};
use futures::TryStreamExt;
use lapin::options::{BasicPublishOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, ConnectionProperties};
use serde_json::json;

use crate::random::Random;
use crate::server::Server;
use crate::{brokers, until};

/// Messages, and how often the server is killed while it reads them.
const MESSAGES: usize = 600;
const KILLS: usize = 8;

/// The body of message `n`: every third has no key of its own, every tenth holds two jobs.
fn body(n: usize) -> String {
    let one = |key: Option<String>| {
        json!({ "key": key, "schedule": "in 1d", "command": "true", "description": n.to_string() })
            .to_string()
    };
    match n {
        n if n % 10 == 0 => {
            format!("{}\n{}\n", one(Some(format!("a{n}"))), one(Some(format!("b{n}"))))
        }
        n if n % 3 == 0 => {
            json!({ "schedule": "in 1d", "command": "true", "description": n.to_string() })
                .to_string()
        }
        n => one(Some(format!("k{n}"))),
    }
}

/// What must be there in the end: the number of the message, once for each of its jobs.
fn expected() -> Vec<usize> {
    let mut all: Vec<usize> =
        (0..MESSAGES).flat_map(|n| vec![n; if n % 10 == 0 { 2 } else { 1 }]).collect();
    all.sort_unstable();
    all
}

async fn found(client: &Client) -> Vec<usize> {
    let jobs: Vec<_> = client.jobs_all(JobFilter::default()).try_collect().await.unwrap();
    let keys: BTreeSet<_> = jobs.iter().map(|job| job.spec.key.clone()).collect();
    assert_eq!(keys.len(), jobs.len(), "a key is there twice");
    let number = |text: &Option<String>| text.as_ref().unwrap().parse::<usize>().unwrap();
    let mut all: Vec<usize> = jobs.iter().map(|job| number(&job.spec.description)).collect();
    all.sort_unstable();
    all
}

/// Kills the server at random moments while messages come in, and returns one that is left alone.
async fn killed_often(dir: &Path, source: &str, publish: impl AsyncFn(usize)) -> Server {
    let flags = ["--no-worker", "--ingest", source];
    let mut random = Random::seeded("INGEST_SEED");
    for round in 0..KILLS {
        let mut server = Server::start_with(dir, &flags).await;
        let moment = random.moment_within(100);
        let killing = async {
            moment.await;
            server.kill();
        };
        let publishing = async {
            for n in (0..MESSAGES).filter(|n| n % KILLS == round) {
                publish(n).await;
            }
        };
        tokio::join!(killing, publishing);
    }
    Server::start_with(dir, &flags).await
}

async fn metric(client: &Client, name: &str) -> u64 {
    let text = client.metrics().await.unwrap();
    let line = text.lines().find(|line| line.starts_with(name) && !line.starts_with('#'));
    line.and_then(|line| line.split(' ').nth(1)).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r22_killed_between_delivery_and_ack_a_stream_loses_and_doubles_nothing() {
    let broker = brokers::nats(Some("s3cr3t")).await;
    let address = format!("127.0.0.1:{}", broker.port);
    let login = async_nats::ConnectOptions::new().user_and_password("ana".into(), "s3cr3t".into());
    let context = jetstream::new(login.connect(&address).await.unwrap());
    let config = stream::Config {
        name: "JOBS".into(),
        subjects: vec!["jobs.>".into()],
        ..stream::Config::default()
    };
    let stream = context.create_stream(config).await.unwrap();
    // Made beforehand, so that what a killed server had in hand comes again soon.
    let consumer = jetstream::consumer::pull::Config {
        durable_name: Some("bellwether".into()),
        ack_wait: Duration::from_secs(2),
        ..Default::default()
    };
    let mut consumer = stream.create_consumer(consumer).await.unwrap();
    let publish = async |n: usize| {
        context.publish("jobs.new", body(n).into()).await.unwrap().await.unwrap();
    };
    let dir = tempfile::tempdir().unwrap();
    let source = format!("nats://ana:s3cr3t@{address}?stream=JOBS");
    let server = killed_often(dir.path(), &source, publish).await;
    until("everything is acknowledged", async || {
        let info = consumer_info(&stream).await;
        (info.num_pending == 0 && info.num_ack_pending == 0).then_some(())
    })
    .await;
    assert_eq!(found(&server.client).await, expected());

    // What can never be accepted is given up, and spoils nothing after it.
    for bad in ["nonsense", r#"{"schedule": "in 1d"}"#] {
        context.publish("jobs.new", bad.into()).await.unwrap().await.unwrap();
    }
    let last = json!({ "key": "last", "schedule": "in 1d", "command": "true" }).to_string();
    context.publish("jobs.new", last.into()).await.unwrap().await.unwrap();
    until("all three are dealt with", async || {
        let info = consumer_info(&stream).await;
        (info.num_pending == 0 && info.num_ack_pending == 0).then_some(())
    })
    .await;
    assert!(server.client.job("last").await.is_ok());
    assert_eq!(metric(&server.client, "bellwether_ingest_messages_refused_total").await, 2);
    let log = std::fs::read_to_string(dir.path().join("server.log")).unwrap();
    assert!(log.contains("invalid_json") && log.contains("missing_target"), "{log}");
    assert!(!log.contains("s3cr3t"), "{log}");
    assert!(consumer.info().await.is_ok());
}

async fn consumer_info(stream: &stream::Stream) -> jetstream::consumer::Info {
    let consumer: jetstream::consumer::PullConsumer =
        stream.get_consumer("bellwether").await.unwrap();
    consumer.cached_info().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r22_killed_between_delivery_and_ack_a_queue_loses_and_doubles_nothing() {
    let broker = brokers::rabbitmq().await;
    let url = format!("amqp://guest:guest@127.0.0.1:{}", broker.port);
    let connection =
        lapin::Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.confirm_select(Default::default()).await.unwrap();
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare("dead".into(), durable, FieldTable::default()).await.unwrap();
    let mut arguments = FieldTable::default();
    let text = |text: &str| AMQPValue::LongString(text.into());
    arguments.insert("x-dead-letter-exchange".into(), text(""));
    arguments.insert("x-dead-letter-routing-key".into(), text("dead"));
    channel.queue_declare("jobs".into(), durable, arguments.clone()).await.unwrap();
    let publish = async |id: Option<String>, body: &str| {
        let mut properties = BasicProperties::default().with_delivery_mode(2);
        if let Some(id) = id {
            properties = properties.with_message_id(id.as_str().into());
        }
        let options = BasicPublishOptions { mandatory: true, immediate: false };
        let sent =
            channel.basic_publish("".into(), "jobs".into(), options, body.as_bytes(), properties);
        sent.await.unwrap().await.unwrap();
    };
    let dir = tempfile::tempdir().unwrap();
    let source = format!("{url}?queue=jobs&namespace=default");
    let message = async |n: usize| publish(Some(format!("m{n}")), &body(n)).await;
    let server = killed_often(dir.path(), &source, message).await;
    until("every job is there", async || {
        (found(&server.client).await.len() >= expected().len()).then_some(())
    })
    .await;
    assert_eq!(found(&server.client).await, expected());

    // What can never be accepted goes to the dead letters: no JSON, no way to know it again,
    // another namespace than this source's.
    publish(Some("x1".into()), "nonsense").await;
    publish(None, &json!({ "schedule": "in 1d", "command": "true" }).to_string()).await;
    let other = json!({ "schedule": "in 1d", "command": "true", "namespace": "other" });
    publish(Some("x2".into()), &other.to_string()).await;
    let passive = QueueDeclareOptions { passive: true, ..durable };
    until("the dead letters are there", async || {
        let dead = channel.queue_declare("dead".into(), passive, FieldTable::default());
        (dead.await.unwrap().message_count() == 3).then_some(())
    })
    .await;
    let left = channel.queue_declare("jobs".into(), passive, arguments).await.unwrap();
    assert_eq!(left.message_count(), 0);
    assert_eq!(found(&server.client).await, expected());
    assert_eq!(metric(&server.client, "bellwether_ingest_messages_refused_total").await, 3);
    let log = std::fs::read_to_string(dir.path().join("server.log")).unwrap();
    assert!(log.contains("missing_key") && log.contains("other_namespace"), "{log}");
}
