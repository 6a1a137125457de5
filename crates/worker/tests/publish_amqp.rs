//! R22: a message is published when RabbitMQ has confirmed it. Against a real server, in one test:
//! it takes a while to start.

#![allow(clippy::unwrap_used)]

mod common;

use bellwether_worker::{
    Attempt, Broker, Control, Executor, Finished, LiveOutput, Outcome, PublishTarget, ReasonCode,
    Target,
};
use common::{Certificate, OUTPUT_LIMIT, attempt, brokers, executor};
use lapin::options::{BasicGetOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ConnectionProperties};

fn attempt_of(url: &str, exchange: &str, routing_key: &str) -> Attempt {
    let broker = Broker::Amqp {
        url: url.into(),
        exchange: exchange.into(),
        routing_key: routing_key.into(),
    };
    let mut target = PublishTarget::new(broker, "{\"to\":\"ana\"}");
    target.headers = vec![
        ("X-Team".into(), "bi".into()),
        ("Content-Type".into(), "application/json".into()),
        ("idempotency-key".into(), "forged".into()),
    ];
    attempt(Target::Publish(target))
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

async fn channel(url: &str) -> (Connection, Channel) {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    (connection, channel)
}

#[tokio::test]
async fn r22_rabbitmq_confirms_what_a_queue_has() {
    let log = common::Log::capture();
    let (certificate, secure) = (Certificate::new(), brokers::free_port());
    let mut broker = brokers::rabbitmq_with(&format!(
        "listeners.ssl.1 = 127.0.0.1:{secure}\nssl_options.cacertfile = {}\n\
         ssl_options.certfile = {}\nssl_options.keyfile = {}\nssl_options.verify = verify_none\n",
        certificate.path("ca.pem"),
        certificate.path("cert.pem"),
        certificate.path("key.pem"),
    ))
    .await;
    let url = format!("amqp://guest:guest@127.0.0.1:{}", broker.port);
    let executor = executor();
    {
        let (_connection, channel) = channel(&url).await;
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare("emails".into(), options, FieldTable::default()).await.unwrap();
        confirmed_with_headers(&executor, &url, &channel).await;
    }
    unroutable_is_a_failure(&executor, &url).await;
    a_missing_exchange_spoils_no_other(&executor, &url).await;
    a_wrong_password_is_not_shown(&executor, &url).await;
    it_is_trusted_by_its_certificate(&executor, &certificate, secure).await;

    broker.kill();
    let finished = run(&executor, attempt_of(&url, "", "emails")).await;
    let (code, text) = failure(&finished);
    assert!(matches!(code, ReasonCode::ConnectError | ReasonCode::Unconfirmed), "{text}");
    assert!(finished.retryable, "{text}");
    broker.restart().await;
    common::until_async("RabbitMQ takes messages again", async || {
        run(&executor, attempt_of(&url, "", "emails")).await.succeeded().then_some(())
    })
    .await;
    let log = log.text();
    assert!(log.contains("lapin"), "also that of libraries");
    assert!(!log.contains("s3cr3t"), "{:?}", log.lines().find(|line| line.contains("s3cr3t")));
}

async fn it_is_trusted_by_its_certificate(
    executor: &Executor,
    certificate: &Certificate,
    port: u16,
) {
    let attempt = || attempt_of(&format!("amqps://guest:guest@localhost:{port}"), "", "emails");
    let finished = run(&certificate.trusting(), attempt()).await;
    assert!(finished.succeeded(), "{:?}", finished.outcome);
    let finished = run(executor, attempt()).await;
    let (code, text) = failure(&finished);
    assert!(matches!(code, ReasonCode::TlsError | ReasonCode::ConnectError), "{code:?} {text}");
}

async fn confirmed_with_headers(executor: &Executor, url: &str, channel: &Channel) {
    let attempt = attempt_of(url, "", "emails");
    let finished = run(executor, attempt.clone()).await;
    assert!(finished.succeeded(), "{:?}", finished.outcome);
    // It is there at once: the confirmation came after it was stored.
    let message = channel.basic_get("emails".into(), BasicGetOptions { no_ack: true });
    let message = message.await.unwrap().unwrap();
    assert_eq!(message.data, b"{\"to\":\"ana\"}");
    let properties = &message.properties;
    assert_eq!(*properties.delivery_mode(), Some(2));
    assert_eq!(properties.content_type().as_ref().unwrap().as_str(), "application/json");
    let id = properties.message_id().as_ref().unwrap().as_str();
    assert_eq!(id, attempt.idempotency_key);
    let headers = properties.headers().as_ref().unwrap();
    for (name, value) in [
        ("X-Team", "bi"),
        ("Bellwether-Run-Id", attempt.run_id.as_str()),
        ("Bellwether-Job-Id", "job_1"),
        ("Bellwether-Key", "nightly"),
        ("Bellwether-Scheduled-At", "2026-01-02T03:04:05.000Z"),
        ("Bellwether-Attempt", "1"),
        ("Bellwether-Fencing-Token", "42"),
        ("Idempotency-Key", attempt.idempotency_key.as_str()),
    ] {
        let found = headers.inner().get(name);
        let Some(AMQPValue::LongString(found)) = found else { panic!("{name}: {found:?}") };
        assert_eq!(found.as_bytes(), value.as_bytes(), "{name}");
    }
    assert!(headers.inner().get("idempotency-key").is_none());
}

async fn unroutable_is_a_failure(executor: &Executor, url: &str) {
    let finished = run(executor, attempt_of(url, "", "nobody")).await;
    let (code, text) = failure(&finished);
    assert_eq!(code, ReasonCode::Unroutable, "{text}");
    assert!(text.contains("no queue takes") && text.contains("'nobody'"), "{text}");
    assert!(finished.retryable);
}

async fn a_missing_exchange_spoils_no_other(executor: &Executor, url: &str) {
    let finished = run(executor, attempt_of(url, "nowhere", "emails")).await;
    let (code, text) = failure(&finished);
    assert_eq!(code, ReasonCode::BrokerRefused, "{text}");
    assert!(text.contains("nowhere"), "{text}");
    assert!(run(executor, attempt_of(url, "", "emails")).await.succeeded());
}

async fn a_wrong_password_is_not_shown(executor: &Executor, url: &str) {
    let wrong = url.replace("guest:guest", "guest:s3cr3t");
    let finished = run(executor, attempt_of(&wrong, "", "emails")).await;
    let (code, text) = failure(&finished);
    assert_eq!(code, ReasonCode::BrokerRefused, "{text}");
    assert!(!format!("{finished:?}").contains("s3cr3t"), "{finished:?}");
}
