//! The bodies that documents promise, accepted as they stand, and what becomes of them.

use bellwether_core::backoff::default_retry;
use bellwether_core::record::{Target, encode};

use super::super::spec;
use super::{check, checked};

const COMPLETE: &str = r#"{ "key": "nightly-report", "namespace": "default", "group": "reports", "owner": "ana", "labels": {"team": "bi"},
  "schedule": {"cron": "5 2 * * 6", "timezone": "Europe/Berlin"},
  "command": "make-report --full", "env": {"LANG": "C"}, "queue": "heavy",
  "retry": {"max": 3, "initial": "10s"}, "timeout": "1h", "overlap": "skip",
  "misfire": {"policy": "once", "window": "6h"},
  "success": {"exit_codes": [0], "output_must_not_match": "ERROR"},
  "notify": [{"on": ["failure", "recovery"], "email": "ops@example.com"}], "enabled": true }"#;

const SHORT: &str = r#"{ "job_type": "email_send", "schedule_time": "2026-12-31T23:59:59Z", "payload": {"user_id": 123}, "retries": 3 }"#;

#[test]
fn r17_the_complete_form_round_trips() {
    let complete = checked(COMPLETE);
    let definition = &complete.definition;
    assert_eq!((definition.namespace.as_str(), definition.queue.as_str()), ("", "heavy"));
    assert_eq!(definition.retry.unwrap().initial_ms, 10_000);
    assert_eq!(complete.enabled, Some(true));
    assert!(!definition.disabled);
    assert_eq!(complete.warnings, ["notify is stored, but this version sends no notices"]);
    let given: serde_json::Value = serde_json::from_str(COMPLETE).unwrap();
    let back = serde_json::to_value(spec(definition, true)).unwrap();
    assert_eq!(back, given);
}

#[test]
fn r15_the_short_form_is_accepted_and_readable_as_it_stands() {
    let short = checked(SHORT);
    let Some(Target::Handler(handler)) = &short.definition.target else { panic!("no handler") };
    assert_eq!(handler.job_type, "email_send");
    assert_eq!(&handler.payload[..], br#"{"user_id": 123}"#);
    assert_eq!(short.definition.retry, Some(default_retry(3)));
    assert!(short.warnings.is_empty());
    let back = serde_json::to_value(spec(&short.definition, true)).unwrap();
    assert_eq!(back["job_type"], "email_send");
    assert_eq!(back["schedule_time"], "2026-12-31T23:59:59.000Z");
    assert_eq!(back["schedule"]["at"], "2026-12-31T23:59:59.000Z");
    assert_eq!(back["payload"]["user_id"], 123);
    assert_eq!(back["retries"], 3);
    // What is shown can be sent back.
    assert_eq!(checked(&back.to_string()).definition.schedule, short.definition.schedule);
}

#[test]
fn r32_enabled_false_creates_a_disabled_job() {
    let off = checked(r#"{"command": "true", "schedule": "@daily", "enabled": false}"#);
    assert!(off.definition.disabled);
    assert_eq!(off.enabled, Some(false));
    let unsaid = checked(r#"{"command": "true", "schedule": "@daily"}"#);
    assert_eq!((unsaid.definition.disabled, unsaid.enabled), (false, None));
    assert_ne!(off.hash, unsaid.hash);
}

#[test]
fn the_same_job_has_the_same_hash_however_it_is_written() {
    let same = [
        r#"{"command": "true", "schedule": "every 5m"}"#,
        r#"{"schedule": {"every": "300s"}, "command": "true"}"#,
        r#"{"schedule": {"rate": "rate(5 minutes)"}, "command": "true", "namespace": "default"}"#,
        r#"{"schedule": {"any": ["every 5m"]}, "command": "true", "queue": "default", "retries": 0}"#,
        r#"{"schedule": "@every 5m", "command": "true", "enabled": true, "labels": {}, "priority": 0}"#,
        r#"{"schedule": "every 5m", "command": "true", "notify": [], "success": {}, "retention": {}}"#,
        r#"{"schedule": {"every": "5m", "after": "start", "day_match": "either", "dst": {}}, "command": "true"}"#,
    ];
    let hashes: Vec<_> = same.iter().map(|body| checked(body).hash).collect();
    assert!(hashes.iter().all(|hash| *hash == hashes[0] && hash.len() == 16));
    let other = checked(r#"{"command": "true", "schedule": "every 6m"}"#);
    assert_ne!(other.hash, hashes[0]);
    let retry = |text: &str| encode(&checked(text).definition);
    assert_eq!(
        retry(r#"{"command": "true", "schedule": "@daily", "retries": 2}"#),
        retry(
            r#"{"command": "true", "schedule": "@daily", "retries": 2, "retry": {"max": 2, "factor": 2}}"#
        ),
    );
}

#[test]
fn what_has_no_effect_is_said() {
    for (fields, piece) in [
        (r#""on_failure": "continue""#, "ordering_key"),
        (r#""misfire": {"policy": "once", "max": 5}"#, "misfire.max"),
        (r#""overlap": {"policy": "skip", "max": 5}"#, "overlap.max"),
        (r#""success": {"status_codes": [200]}"#, "status_codes"),
    ] {
        let body = format!(r#"{{"command": "true", "schedule": "@daily", {fields}}}"#);
        let warnings = checked(&body).warnings;
        assert!(warnings.len() == 1 && warnings[0].contains(piece), "{fields}: {warnings:?}");
    }
}

#[test]
fn a_first_delay_beyond_the_usual_bound_moves_the_bound() {
    let body = r#"{"command": "true", "schedule": "@daily", "retry": {"max": 1, "initial": "2h"}}"#;
    let retry = checked(body).definition.retry.unwrap();
    assert_eq!((retry.initial_ms, retry.max_delay_ms), (7_200_000, 7_200_000));
}

#[test]
fn names_may_be_what_people_write() {
    for key in ["billing/nightly.report:v2", "job_nightly", "отчёт", "a b", "job_", "run_1"] {
        let body = serde_json::json!({"key": key, "command": "true", "schedule": "@daily"});
        assert!(check(&body.to_string()).is_ok(), "{key}");
    }
}
