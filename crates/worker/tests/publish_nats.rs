//! R22: a message is published when NATS has confirmed it. Against a real server.

#![allow(clippy::unwrap_used)]

mod common;

use async_nats::jetstream::{self, stream};
use bellwether_worker::{
    Attempt, Broker, Control, Executor, Finished, LiveOutput, Outcome, PublishTarget, ReasonCode,
    Target,
};
use common::{Certificate, OUTPUT_LIMIT, attempt, brokers, executor};
use futures::StreamExt;

fn target(url: &str, subject: &str, jetstream: bool) -> PublishTarget {
    let broker = Broker::Nats { url: url.into(), subject: subject.into(), jetstream };
    PublishTarget::new(broker, "{\"to\":\"ana\"}")
}

fn attempt_of(url: &str, subject: &str, jetstream: bool) -> Attempt {
    attempt(Target::Publish(target(url, subject, jetstream)))
}

async fn run(executor: &Executor, attempt: Attempt) -> Finished {
    executor.execute(attempt, Control::new(), LiveOutput::new(OUTPUT_LIMIT)).await
}

fn failure(finished: &Finished) -> (ReasonCode, &str) {
    match &finished.outcome {
        Outcome::Failed(failure) => (failure.code, &failure.message),
        other => panic!("{other:?}"),
    }
}

fn said(finished: &Finished) -> serde_json::Value {
    assert!(finished.succeeded(), "{:?}", finished.outcome);
    let bytes: Vec<u8> =
        finished.output.head.iter().flat_map(|chunk| chunk.bytes.to_vec()).collect();
    serde_json::from_slice(&bytes).unwrap()
}

#[tokio::test]
async fn r22_a_stream_confirms_once_and_the_message_says_for_which_run_it_is() {
    let broker = brokers::nats(Some("s3cr3t")).await;
    let url = format!("nats://ana:s3cr3t@127.0.0.1:{}", broker.port);
    let client = bellwether_worker::publish::nats::connect(
        &url,
        &std::sync::Arc::new(bellwether_worker::Trust::new(None).unwrap()),
    )
    .await
    .unwrap();
    let context = jetstream::new(client);
    let config = stream::Config {
        name: "JOBS".into(),
        subjects: vec!["jobs.>".into()],
        ..stream::Config::default()
    };
    let stream = context.create_stream(config).await.unwrap();

    let executor = executor();
    let mut target = target(&url, "jobs.email", true);
    target.headers = vec![
        ("X-Team".into(), "bi".into()),
        // What the attempt says about itself cannot be overridden.
        ("bellwether-run-id".into(), "forged".into()),
        ("Idempotency-Key".into(), "forged".into()),
    ];
    let attempt = attempt(Target::Publish(target));
    let first = run(&executor, attempt.clone()).await;
    assert_eq!(
        said(&first),
        serde_json::json!({ "stream": "JOBS", "sequence": 1, "duplicate": false })
    );
    // Another attempt of the same run is the same message.
    let second = Attempt { attempt: 2, fencing_token: 43, ..attempt.clone() };
    assert_eq!(said(&run(&executor, second).await)["duplicate"], true);

    let message = stream.get_raw_message(1).await.unwrap();
    assert_eq!(&message.payload[..], b"{\"to\":\"ana\"}");
    for (name, value) in [
        ("X-Team", "bi"),
        ("Bellwether-Run-Id", attempt.run_id.as_str()),
        ("Bellwether-Job-Id", "job_1"),
        ("Bellwether-Key", "nightly"),
        ("Bellwether-Namespace", "default"),
        ("Bellwether-Scheduled-At", "2026-01-02T03:04:05.000Z"),
        ("Bellwether-Attempt", "1"),
        ("Bellwether-Fencing-Token", "42"),
        ("Idempotency-Key", attempt.idempotency_key.as_str()),
        ("Nats-Msg-Id", attempt.idempotency_key.as_str()),
    ] {
        let values: Vec<String> = message.headers.get_all(name).map(ToString::to_string).collect();
        assert_eq!(values, [value], "{name}");
    }
    assert!(message.headers.get("bellwether-run-id").is_none());

    // Nobody takes other subjects.
    let finished = run(&executor, attempt_of(&url, "elsewhere", true)).await;
    let (code, text) = failure(&finished);
    assert_eq!(code, ReasonCode::Unroutable);
    assert!(text.contains("no stream") && text.contains("'elsewhere'"), "{text}");
    assert!(finished.retryable);
}

#[tokio::test]
async fn r22_a_message_without_a_stream_has_reached_the_server() {
    let broker = brokers::nats(None).await;
    let url = format!("nats://127.0.0.1:{}", broker.port);
    let client = async_nats::connect(&url).await.unwrap();
    let mut listener = client.subscribe("news").await.unwrap();
    client.flush().await.unwrap();
    let finished = run(&executor(), attempt_of(&url, "news", false)).await;
    assert_eq!(said(&finished), serde_json::json!({ "received": true }));
    let message = listener.next().await.unwrap();
    assert_eq!(&message.payload[..], b"{\"to\":\"ana\"}");
    assert!(message.headers.unwrap().get("Idempotency-Key").is_some());
}

#[tokio::test]
async fn r22_a_broken_connection_is_made_again() {
    let mut broker = brokers::nats(None).await;
    let url = format!("nats://127.0.0.1:{}", broker.port);
    let executor = executor();
    let publish = || run(&executor, attempt_of(&url, "news", false));
    assert!(publish().await.succeeded());
    broker.kill();
    let finished = publish().await;
    let (code, text) = failure(&finished);
    assert!(matches!(code, ReasonCode::ConnectError | ReasonCode::Unconfirmed), "{text}");
    assert!(finished.retryable, "{text}");
    broker.restart().await;
    let finished = publish().await;
    assert!(finished.succeeded(), "{:?}", finished.outcome);
}

#[tokio::test]
async fn r55_nats_is_trusted_by_its_certificate() {
    let certificate = Certificate::new();
    let broker = brokers::nats_with(&format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\" }}\n",
        certificate.path("cert.pem"),
        certificate.path("key.pem")
    ))
    .await;
    let url = format!("tls://localhost:{}", broker.port);
    let finished = run(&certificate.trusting(), attempt_of(&url, "news", false)).await;
    assert!(finished.succeeded(), "{:?}", finished.outcome);
    let finished = run(&executor(), attempt_of(&url, "news", false)).await;
    let (code, text) = failure(&finished);
    assert!(matches!(code, ReasonCode::TlsError | ReasonCode::ConnectError), "{code:?} {text}");
}

#[tokio::test]
async fn r55_a_wrong_password_is_a_failure_without_the_password() {
    let broker = brokers::nats(Some("other")).await;
    let url = format!("nats://ana:s3cr3t@127.0.0.1:{}", broker.port);
    let finished = run(&executor(), attempt_of(&url, "news", true)).await;
    let (code, text) = failure(&finished);
    assert_eq!(code, ReasonCode::BrokerRefused, "{text}");
    assert!(!format!("{finished:?}").contains("s3cr3t"), "{finished:?}");
}
