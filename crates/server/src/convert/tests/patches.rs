//! JSON merge patches.

use bellwether_core::record::{Definition, RuleForm, Target};
use serde_json::{Value, json};

use super::super::{definition, patched, spec, unmask};
use super::{NOW, checked};

/// What a patch makes of a body.
fn patch(body: &Value, patch: Value) -> Result<Definition, bellwether_api::Problem> {
    let old = checked(&body.to_string()).definition;
    let mut new = patched(&old, true, patch)?;
    unmask(&mut new, &old)?;
    Ok(definition(new, NOW)?.definition)
}

fn command() -> Value {
    json!({
        "key": "k", "group": "g", "labels": {"a": "1", "b": "2"}, "env": {"A": "1"},
        "command": "true", "memory_limit": "1G", "schedule": {"cron": "5 2 * * 6", "timezone": "Europe/Berlin"},
        "retry": {"max": 3, "initial": "10s"}, "overlap": "queue", "misfire": "skip",
    })
}

#[test]
fn an_empty_patch_changes_nothing() {
    let old = checked(&command().to_string()).definition;
    assert_eq!(patch(&command(), json!({})).unwrap(), old);
}

#[test]
fn fields_are_replaced_merged_and_removed() {
    let new = patch(
        &command(),
        json!({"group": null, "labels": {"a": null, "c": "3"}, "schedule": {"timezone": "UTC"},
               "overlap": {"max": 5}, "misfire": {"window": "2h"}, "timeout": "5m"}),
    )
    .unwrap();
    assert_eq!(new.group, "");
    assert_eq!(new.labels.into_iter().collect::<Vec<_>>().len(), 2);
    let schedule = new.schedule.unwrap();
    assert_eq!(schedule.timezone, "UTC");
    assert_eq!(schedule.any[0].form, Some(RuleForm::Cron("5 2 * * 6".into())));
    assert_eq!(new.overlap.unwrap().max, 5);
    assert_eq!(new.misfire.unwrap().window_ms, Some(7_200_000));
    assert_eq!(new.timeout_ms, 300_000);
}

#[test]
fn one_alternative_displaces_the_others() {
    let form = |given: Value| patch(&command(), given).unwrap().schedule.unwrap();
    let every = form(json!({"schedule": {"every": "5m"}}));
    assert_eq!(every.any[0].form, Some(RuleForm::EveryMs(300_000)));
    assert_eq!(every.timezone, "Europe/Berlin");
    let line = form(json!({"schedule": "@hourly"}));
    assert_eq!((line.timezone.as_str(), line.any.len()), ("", 1));
    let at = form(json!({"schedule_time": "2030-01-01T00:00:00Z"}));
    assert!(matches!(at.any[0].form, Some(RuleForm::AtMs(_))));

    let once = json!({"command": "true", "schedule_time": "2030-01-01T00:00:00Z"});
    let later = patch(&once, json!({"schedule_time": "2031-01-01T00:00:00Z"})).unwrap();
    assert_eq!(later.schedule.unwrap().any[0].form, Some(RuleForm::AtMs(1_924_992_000_000)));
    let cron = patch(&once, json!({"schedule_time": null, "schedule": {"cron": "@daily"}}));
    assert!(matches!(cron.unwrap().schedule.unwrap().any[0].form, Some(RuleForm::Cron(_))));
    let none = patch(&once, json!({"schedule_time": null})).unwrap_err();
    assert_eq!(none.code, "missing_schedule");

    let http = patch(&command(), json!({"http": {"url": "http://a/"}})).unwrap();
    assert!(matches!(http.target, Some(Target::Http(_))));
    assert_eq!(http.memory_limit_bytes, 0);
    let retry = patch(&command(), json!({"retries": 5})).unwrap().retry.unwrap();
    assert_eq!((retry.max, retry.initial_ms), (5, 10_000));
    assert_eq!(patch(&command(), json!({"retries": null})).unwrap().retry, None);
    let both = patch(&command(), json!({"schedule": {"every": "5m", "cron": "@daily"}}));
    assert_eq!(both.unwrap_err().code, "conflicting_schedules");
}

#[test]
fn what_is_not_touched_keeps_every_digit() {
    let body = r#"{"job_type": "x", "schedule": "in 5m",
        "payload": {"big": 123456789012345678901234567890, "pi": 3.141592653589793238462643}}"#;
    let old = checked(body).definition;
    let new = patched(&old, true, json!({"description": "d"})).unwrap();
    assert_eq!(new.payload.unwrap().get(), spec(&old, true).payload.unwrap().get());
    let new = patched(&old, true, json!({"payload": {"pi": null, "e": [1]}})).unwrap();
    let payload = new.payload.unwrap();
    assert_eq!(payload.get(), r#"{"big":123456789012345678901234567890,"e":[1]}"#);
}

#[test]
fn enabled_is_set_only_by_the_patch() {
    let old = checked(&command().to_string()).definition;
    assert_eq!(patched(&old, false, json!({"group": "h"})).unwrap().enabled, None);
    assert_eq!(patched(&old, false, json!({"enabled": true})).unwrap().enabled, Some(true));
}

#[test]
fn unknown_fields_are_errors_also_if_null() {
    let with_http = json!({"http": {"url": "http://a"}, "schedule": "@daily"});
    for (body, given, code, field) in [
        (&command(), json!({"comand": "x"}), "unknown_field", Some("comand")),
        (&command(), json!({"comand": null}), "unknown_field", Some("comand")),
        (&command(), json!({"schedule": {"crom": null}}), "unknown_field", Some("schedule.crom")),
        (&with_http, json!({"http": {"hedaers": null}}), "unknown_field", Some("http.hedaers")),
        (&with_http, json!({"http": {"auth": {"x": null}}}), "unknown_field", Some("http.auth.x")),
        (&command(), json!({"retries": "x"}), "invalid_type", None),
        (&command(), json!({"retry": [3]}), "invalid_type", Some("retry")),
        (&with_http, json!({"http": {"auth": ["u"]}}), "invalid_type", Some("http.auth")),
        (&command(), json!([]), "invalid_type", None),
        (&command(), Value::Null, "invalid_type", None),
    ] {
        let problem = patch(body, given.clone()).unwrap_err();
        assert_eq!(problem.code, code, "{given}: {problem:?}");
        assert_eq!(problem.status, 400);
        if field.is_some() {
            assert_eq!(problem.field.as_deref(), field, "{given}: {problem:?}");
        }
    }
    for fine in [
        json!({"labels": null, "env": null, "schedule": {"dst": null, "timezone": null}}),
        json!({"labels": {"nobody": null}, "success": {"exit_codes": null}, "http": null}),
    ] {
        patch(&command(), fine).unwrap();
    }
}
