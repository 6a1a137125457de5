//! R22: a record is published when all replicas in sync have it. Against a stand-in that speaks
//! the protocol, since Debian has no Kafka.

#![allow(clippy::unwrap_used)]

mod common;

use bellwether_worker::{
    Attempt, Broker, Control, Executor, Finished, LiveOutput, Outcome, PublishTarget, ReasonCode,
    Target,
};
use common::kafka::Kafka;
use common::{OUTPUT_LIMIT, attempt, executor};

fn attempt_of(port: u16, topic: &str, key: &str) -> Attempt {
    let broker = Broker::Kafka {
        brokers: vec![format!("127.0.0.1:{port}")],
        topic: topic.into(),
        key: key.into(),
        tls: false,
        sasl: None,
    };
    let mut target = PublishTarget::new(broker, "{\"to\":\"ana\"}");
    target.headers = vec![("X-Team".into(), "bi".into())];
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

#[tokio::test]
async fn r22_all_replicas_confirm_and_the_record_says_for_which_run_it_is() {
    let kafka = Kafka::start(0);
    let executor = executor();
    let attempt = attempt_of(kafka.port, "mail", "21");
    let finished = run(&executor, attempt.clone()).await;
    assert!(finished.succeeded(), "{:?}", finished.outcome);
    let record = kafka.records.lock().unwrap()[0].clone();
    assert_eq!(record.acks, -1, "all replicas in sync");
    assert_eq!(record.key.as_deref(), Some(&b"21"[..]));
    assert_eq!(record.value, b"{\"to\":\"ana\"}");
    // The hash of "21" is -973932308, as a positive number 1173551340, which leaves 0.
    assert_eq!(record.partition, 0);
    for (name, value) in [
        ("X-Team", "bi"),
        ("Bellwether-Run-Id", attempt.run_id.as_str()),
        ("Bellwether-Key", "nightly"),
        ("Bellwether-Attempt", "1"),
        ("Idempotency-Key", attempt.idempotency_key.as_str()),
    ] {
        assert_eq!(record.headers.get(name).unwrap(), value.as_bytes(), "{name}");
    }
    // Records without a key are spread.
    for _ in 0..3 {
        assert!(run(&executor, attempt_of(kafka.port, "mail", "")).await.succeeded());
    }
    let records = kafka.records.lock().unwrap().clone();
    let mut partitions: Vec<i32> = records[1..].iter().map(|record| record.partition).collect();
    partitions.sort_unstable();
    assert_eq!(partitions, [0, 1, 2]);
    assert!(records[1].key.is_none());
}

#[tokio::test]
async fn r22_what_kafka_does_not_take_is_a_failure() {
    let kafka = Kafka::start(0);
    let executor = executor();
    let finished = run(&executor, attempt_of(kafka.port, "nowhere", "")).await;
    let (code, text) = failure(&finished);
    assert_eq!((code, text), (ReasonCode::Unroutable, "there is no topic 'nowhere'"));
    let finished = run(&executor, attempt_of(kafka.port, "small", "")).await;
    let (code, text) = failure(&finished);
    assert_eq!(code, ReasonCode::BrokerRefused, "{text}");
    assert!(kafka.records.lock().unwrap().is_empty());

    let port = kafka.port;
    kafka.stop().await;
    let finished = run(&executor, attempt_of(port, "mail", "")).await;
    let (code, text) = failure(&finished);
    assert!(matches!(code, ReasonCode::ConnectError | ReasonCode::ConnectTimeout), "{text}");
    let kafka = Kafka::start(port);
    let finished = run(&executor, attempt_of(port, "mail", "")).await;
    assert!(finished.succeeded(), "{:?}", finished.outcome);
    assert_eq!(kafka.records.lock().unwrap().len(), 1);
}
