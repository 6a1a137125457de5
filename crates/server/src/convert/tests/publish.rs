//! Messages for brokers: what is accepted, what is refused and where, and how edits behave.

use bellwether_core::record::{Broker, PublishTarget, Target};
use serde_json::{Value, json};

use super::super::{definition, patched, spec, unmask};
use super::{NOW, check, checked};

fn job(publish: Value) -> Value {
    json!({"schedule": "@daily", "publish": publish})
}

fn nats() -> Value {
    json!({"url": "nats://ana:hunter2@h:4222", "subject": "jobs.mail"})
}

fn amqp() -> Value {
    json!({"url": "amqps://ana:hunter2@h/v", "routing_key": "mail"})
}

fn kafka() -> Value {
    json!({"brokers": ["h:9092"], "topic": "mail", "sasl": {"username": "ana", "password": "hunter2"}})
}

fn stored(body: &Value) -> PublishTarget {
    match checked(&body.to_string()).definition.target {
        Some(Target::Publish(publish)) => publish,
        other => panic!("{other:?}"),
    }
}

#[test]
fn r22_a_message_is_the_body_or_the_payload() {
    let text = stored(&job(json!({"nats": nats(), "body": "hello"})));
    assert_eq!((&text.body[..], text.body_is_json), (&b"hello"[..], false));
    let json = stored(&job(json!({"amqp": amqp(), "body": {"a": 1}})));
    assert_eq!((&json.body[..], json.body_is_json), (&br#"{"a":1}"#[..], true));
    let mut body = job(json!({"kafka": kafka()}));
    body["payload"] = json!({"a": 1});
    let payload = stored(&body);
    assert_eq!((&payload.body[..], payload.body_is_payload), (&br#"{"a":1}"#[..], true));
    let Some(Broker::Nats(nats)) = text.broker else { panic!("not NATS") };
    assert!(nats.jetstream, "confirmed unless told otherwise");
}

#[test]
fn r55_answers_hold_no_secret_and_can_be_sent_back() {
    let headers = json!({"X-Token": "hunter2", "X-Team": "bi"});
    let with_payload = {
        let mut body = job(json!({"nats": nats()}));
        body["payload"] = json!([1, 2]);
        body
    };
    let core = json!({"url": "nats://hunter2@h", "subject": "a", "jetstream": false});
    for body in [
        job(json!({"nats": nats(), "headers": headers, "body": "x"})),
        job(json!({"nats": core})),
        job(json!({"amqp": amqp(), "headers": headers, "body": {"a": [null]}})),
        job(json!({"kafka": kafka(), "headers": headers})),
        with_payload,
    ] {
        let old = checked(&body.to_string()).definition;
        let answer = serde_json::to_value(spec(&old, true)).unwrap();
        assert!(!answer.to_string().contains("hunter2"), "{answer}");
        assert!(answer.to_string().contains("********"), "{answer}");
        let mut new = serde_json::from_value(answer.clone()).unwrap();
        unmask(&mut new, &old).unwrap();
        assert_eq!(definition(new, NOW).unwrap().definition, old, "{answer}");
        // The mask cannot be stored.
        let problem = check(&answer.to_string()).unwrap_err();
        assert_eq!(problem.code, "masked_secret", "{problem}");
    }
}

#[test]
fn r22_what_is_refused_says_where() {
    let with = |part: &str, field: &str, value: Value| {
        let mut broker = match part {
            "nats" => nats(),
            "amqp" => amqp(),
            _ => kafka(),
        };
        broker[field] = value;
        job(json!({ part: broker }))
    };
    let both = {
        let mut body = job(json!({"nats": nats(), "body": "x"}));
        body["payload"] = json!(1);
        body
    };
    for (body, code, field) in [
        (job(json!({})), "missing_broker", "publish"),
        (job(json!({"nats": nats(), "amqp": amqp()})), "conflicting_brokers", "publish"),
        (both, "conflicting_fields", "payload"),
        (with("nats", "url", json!("http://h")), "invalid_url", "publish.nats.url"),
        (with("nats", "url", json!("nats://h a")), "invalid_url", "publish.nats.url"),
        (
            with("nats", "url", json!("nats://".to_owned() + &"a".repeat(9000))),
            "too_long",
            "publish.nats.url",
        ),
        (with("nats", "subject", json!("a.*")), "invalid_name", "publish.nats.subject"),
        (with("amqp", "url", json!("amqp://")), "invalid_url", "publish.amqp.url"),
        (with("amqp", "routing_key", json!("")), "invalid_name", "publish.amqp.routing_key"),
        (with("kafka", "brokers", json!([])), "invalid_name", "publish.kafka.brokers"),
        (with("kafka", "topic", json!("a b")), "invalid_name", "publish.kafka.topic"),
        (
            job(json!({"nats": nats(), "headers": {"a b": "c"}})),
            "invalid_header",
            "publish.headers.a b",
        ),
        (
            job(json!({"nats": nats(), "body": "x".repeat(204_801)})),
            "payload_too_large",
            "publish.body",
        ),
        (
            json!({"schedule": "@daily", "publish": {"nats": nats()}, "command": "true"}),
            "conflicting_targets",
            "publish",
        ),
    ] {
        let problem = check(&body.to_string()).unwrap_err();
        assert_eq!(
            (problem.code.as_str(), problem.field.as_deref()),
            (code, Some(field)),
            "{problem}"
        );
        assert!(!problem.to_string().contains("hunter2"), "{problem}");
    }
}

#[test]
fn an_edit_changes_what_it_names() {
    let mut old = job(json!({"nats": nats(), "headers": {"X-Token": "hunter2"}}));
    old["payload"] = json!({"a": 1});
    let old = checked(&old.to_string()).definition;
    let edit = |patch: Value| {
        let mut new = patched(&old, true, patch)?;
        unmask(&mut new, &old)?;
        Ok::<_, bellwether_api::Problem>(definition(new, NOW)?.definition)
    };
    let publish = |patch: Value| match edit(patch).unwrap().target {
        Some(Target::Publish(publish)) => publish,
        other => panic!("{other:?}"),
    };
    assert_eq!(edit(json!({})).unwrap(), old);
    let moved = publish(json!({"publish": {"nats": {"subject": "other"}}}));
    let Some(Broker::Nats(broker)) = &moved.broker else { panic!("not NATS") };
    assert_eq!(
        (broker.subject.as_str(), broker.url.as_str()),
        ("other", "nats://ana:hunter2@h:4222")
    );
    assert_eq!(&moved.body[..], br#"{"a":1}"#);
    let other = publish(json!({"publish": {"body": "text"}}));
    assert_eq!((&other.body[..], other.body_is_payload), (&b"text"[..], false));
    // Another broker takes the place of the first, and gets no secret that was meant for it.
    let elsewhere = json!({"publish": {"amqp": {"url": "amqp://h", "routing_key": "q"}}});
    assert_eq!(edit(elsewhere).unwrap_err().code, "masked_secret");
    let elsewhere =
        json!({"publish": {"headers": null, "amqp": {"url": "amqp://h", "routing_key": "q"}}});
    assert!(matches!(publish(elsewhere).broker, Some(Broker::Amqp(_))));
    for (patch, is_command) in
        [(json!({"command": "true"}), true), (json!({"http": {"url": "http://a"}}), false)]
    {
        let new = edit(patch).unwrap();
        assert_eq!(matches!(new.target, Some(Target::Command(_))), is_command);
    }
    let back = checked(r#"{"schedule": "@daily", "job_type": "x", "payload": 1}"#).definition;
    let new = patched(&back, true, job(json!({"nats": nats()}))).unwrap();
    assert!(new.job_type.is_none() && new.payload.is_none() && new.publish.is_some());
}
