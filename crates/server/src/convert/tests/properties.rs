//! Properties: nothing panics, and what is accepted comes back as it was stored.

use bellwether_api::JobSpec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::{definition, json_problem, patched, spec, unmask};
use super::{NOW, check};

/// Fields and their possible values: good ones, bad ones and ones of the wrong kind.
fn field_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        prop::sample::select(vec!["5m", "@daily", "queue", "all", "********", "http://a/", "/x"])
            .prop_map(Value::from),
    ];
    let names = prop::sample::select(vec![
        "cron",
        "every",
        "at",
        "any",
        "except",
        "timezone",
        "url",
        "headers",
        "auth",
        "basic",
        "bearer",
        "body",
        "max",
        "initial",
        "policy",
        "window",
        "exit_codes",
        "json_path",
        "dst",
    ]);
    leaf.prop_recursive(3, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names.clone(), inner, 0..4).prop_map(|fields| {
                let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
                Value::Object(fields.collect())
            }),
        ]
    })
}

const FIELDS: [&str; 39] = [
    "key",
    "namespace",
    "group",
    "owner",
    "labels",
    "description",
    "schedule",
    "schedule_time",
    "command",
    "env",
    "cwd",
    "user",
    "stdin",
    "shell",
    "grace",
    "memory_limit",
    "http",
    "job_type",
    "payload",
    "queue",
    "priority",
    "requires",
    "resources",
    "target_workers",
    "retries",
    "retry",
    "delivery",
    "misfire",
    "overlap",
    "ordering_key",
    "on_failure",
    "timeout",
    "expires_after",
    "success",
    "retention",
    "notify",
    "enabled",
    "unknown",
    "",
];

fn any_object() -> impl Strategy<Value = Map<String, Value>> {
    let name = prop::sample::select(FIELDS.to_vec());
    prop::collection::btree_map(name, field_value(), 0..8).prop_map(|fields| {
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    })
}

/// Schedules that can fire, in all their forms.
fn good_schedule() -> impl Strategy<Value = Value> {
    let rule = prop_oneof![
        Just(json!("@daily")),
        Just(json!("every 7m after finish")),
        Just(json!({"cron": "H 3 * * 1-5"})),
        (1u64..10_000).prop_map(|s| json!({ "every": format!("{s}s") })),
        (0i64..100_000).prop_map(|d| json!({ "at": time(d) })),
        (0u64..100_000).prop_map(|ms| json!({ "delay": format!("{ms}ms") })),
    ];
    let one = prop_oneof![
        Just(json!({"cron": " 5 2 * * 6 "})),
        Just(json!({"rate": "rate(5 minutes)", "after": "finish"})),
        (0i64..100_000).prop_map(|d| json!({ "at": time(d) })),
        prop::collection::vec(rule, 1..4).prop_map(|rules| json!({ "any": rules })),
    ];
    let bounds = (
        prop::option::of(prop::sample::select(vec!["UTC", "Europe/Berlin", "Australia/Lord_Howe"])),
        prop::option::of(1u32..9),
        prop::option::of(prop::sample::select(vec!["run_after", "skip"])),
        prop::option::of(prop::sample::select(vec!["first", "second", "both"])),
        prop::option::of(0u64..86_400),
        any::<bool>(),
    );
    (one, bounds).prop_map(|(mut schedule, (zone, max_runs, gap, fold, jitter, both))| {
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                schedule[name] = value;
            }
        };
        set("timezone", zone.map(Value::from));
        set("max_runs", max_runs.map(Value::from));
        set("dst", Some(json!({"gap": gap, "fold": fold})));
        set("jitter", jitter.map(|s| format!("{s}s").into()));
        set("day_match", both.then(|| "both".into()));
        schedule
    })
}

/// A time so many days after the epoch.
fn time(days: i64) -> String {
    bellwether_core::time::Time(days * 86_400_000).to_string()
}

fn good_target() -> impl Strategy<Value = Value> {
    prop_oneof![
        ("[a-z][ -~]{0,20}", prop::collection::btree_map("[A-J]{1,3}", "[ -~é]{0,9}", 0..4))
            .prop_map(
                |(line, env)| json!({"command": line, "env": env, "stdin": "é\0", "cwd": "/x",
                "grace": "3s", "memory_limit": "512M", "shell": "/bin/bash", "user": "ana"})
            ),
        prop::collection::vec("[!-~]{1,9}", 1..5).prop_map(|argv| json!({ "command": argv })),
        (
            prop::collection::btree_map("[a-f]{1,5}", "[!-~]{0,9}", 0..4),
            prop_oneof![Just(json!("text")), Just(json!({"a": [1, 2.5]})), Just(json!(""))],
            prop::option::of(prop::sample::select(vec!["get", "POST"])),
            any::<bool>(),
        )
            .prop_map(|(headers, body, method, follow)| {
                json!({"http": {"url": "https://example.com/x?y=z", "headers": headers,
                    "body": body, "method": method, "follow_redirects": follow,
                    "connect_timeout": "3s"}})
            }),
        ("[a-z_.]{1,20}", field_value())
            .prop_map(|(job_type, payload)| json!({"job_type": job_type, "payload": payload})),
    ]
}

fn good_policies() -> impl Strategy<Value = Value> {
    (
        prop::option::of(0u32..20),
        (0u64..100, 1.0f64..100.0, 0.0f64..=1.0),
        prop::option::of(prop::sample::select(vec!["once", "skip", "all"])),
        prop::option::of(prop::sample::select(vec!["skip", "queue", "replace", "allow"])),
        prop::option::of(prop::sample::select(vec!["at_most_once", "at_least_once"])),
        (-1000i32..=1000, 1u64..1_000_000, 1u32..1000),
        prop::sample::select(vec![
            json!(null),
            json!({"exit_codes": [0, 3], "output_matches": "ok"}),
            json!({"status_codes": [200, "3XX", "400 - 404"], "json_path": "$.a", "json_equals": {"b": 0.1}}),
        ]),
        any::<[bool; 5]>(),
    )
        .prop_map(|(retries, (initial, factor, jitter), misfire, overlap, delivery, more, success, is)| {
            let (priority, ms, n) = more;
            let mut body = json!({"priority": priority, "success": success, "delivery": delivery,
                "timeout": format!("{ms}ms"), "expires_after": format!("{n}s")});
            if let Some(max) = retries {
                body["retries"] = max.into();
                if is[0] {
                    body["retry"] = json!({"max": max, "initial": format!("{initial}h"),
                        "factor": factor, "jitter": jitter});
                }
            }
            if let Some(policy) = misfire {
                body["misfire"] = if is[1] { policy.into() } else {
                    json!({"policy": policy, "window": format!("{ms}ms"), "max": n}) };
            }
            if let Some(policy) = overlap {
                body["overlap"] =
                    if is[2] { policy.into() } else { json!({"policy": policy, "max": n}) };
            }
            if is[3] {
                body["retention"] = json!({"runs": n, "age": format!("{}h", n)});
                body["notify"] = json!([{"email": "a@b.c"}]);
                body["ordering_key"] = "order 7".into();
                body["on_failure"] = "continue".into();
            } else {
                body["target_workers"] = if is[0] { "all" } else { "any" }.into();
            }
            if is[4] {
                body["requires"] = json!({"gpu": "yes"});
                body["resources"] = json!({"cpu": f64::from(n) / 1e3, "memory": ms});
                body["labels"] = json!({"a/b": "c"});
                body["enabled"] = false.into();
                body["key"] = "a/b:c".into();
                body["namespace"] = "default".into();
                body["queue"] = "heavy".into();
            }
            body
        })
}

fn good_body() -> impl Strategy<Value = Value> {
    (good_schedule(), good_target(), good_policies()).prop_map(|(schedule, target, policies)| {
        let mut body = Map::new();
        body.insert("schedule".to_owned(), schedule);
        for part in [target, policies] {
            let Value::Object(fields) = part else { continue };
            body.extend(fields.into_iter().filter(|(_, value)| !value.is_null()));
        }
        Value::Object(body)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_objects_never_panic(object in any_object(), patch in any_object()) {
        let text = Value::Object(object).to_string();
        if let Err(problem) = check(&text) {
            prop_assert!((400..500).contains(&problem.status));
            prop_assert!(!problem.code.is_empty() && !problem.detail.is_empty());
        }
        if let Err(error) = serde_json::from_str::<JobSpec>(&text) {
            prop_assert_eq!(json_problem(&error).status, 400);
        }
        let base = check(r#"{"schedule": "@daily", "http": {"url": "http://a/"}}"#).unwrap();
        if let Ok(mut new) = patched(&base.definition, true, Value::Object(patch))
            && unmask(&mut new, &base.definition).is_ok()
        {
            let _ = definition(new, NOW);
        }
    }

    #[test]
    fn arbitrary_texts_never_panic(text in ".{0,60}") {
        prop_assert!(check(&text).is_err());
        let _ = check(&json!({"schedule": text, "command": text}).to_string());
        let _ = check(&json!({"schedule": "@daily", "http": {"url": format!("http://{text}")}}).to_string());
    }

    #[test]
    fn r17_what_is_stored_round_trips(body in good_body()) {
        let first = match check(&body.to_string()) {
            Ok(first) => first,
            // A union of instants may be left without a tick by nothing here, so all are good.
            Err(problem) => return Err(TestCaseError::fail(format!("{problem}: {body}"))),
        };
        let shown = serde_json::to_string(&spec(&first.definition, !first.definition.disabled)).unwrap();
        let again = check(&shown).map_err(|problem| TestCaseError::fail(format!("{problem}: {shown}")))?;
        prop_assert_eq!(&again.definition, &first.definition);
        prop_assert_eq!(again.hash, first.hash);
        // An empty patch is the same job, but says nothing about whether it is to run.
        let kept = patched(&first.definition, true, json!({})).unwrap();
        let mut kept = definition(kept, NOW).unwrap().definition;
        kept.disabled = first.definition.disabled;
        prop_assert_eq!(kept, first.definition);
    }
}
