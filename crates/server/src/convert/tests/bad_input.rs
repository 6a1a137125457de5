//! What is refused, with which code, at which field, and in which words.

use super::{NOW, check, definition, from_json};
use bellwether_api::JobSpec;

/// What is given, and the code, the field and a piece of the message that it gets.
struct Case(&'static str, &'static str, &'static str, &'static str);

/// Bodies that get a command and a schedule if they have none, with code, field and a piece of
/// the message.
const CASES: &[Case] = &[
    // Names.
    Case(r#"{"key": ""}"#, "invalid_name", "key", "empty"),
    Case(r#"{"key": " a"}"#, "invalid_name", "key", "space"),
    Case(r#"{"key": "a\u0000b"}"#, "invalid_name", "key", "control"),
    Case(r#"{"key": "a\nb"}"#, "invalid_name", "key", "control"),
    Case(r#"{"key": ".."}"#, "invalid_name", "key", "'..'"),
    Case(r#"{"key": "job_06D1R3M0G0400"}"#, "key_like_id", "key", "id"),
    Case(r#"{"namespace": "a b"}"#, "invalid_name", "namespace", "letters"),
    Case(r#"{"namespace": "a/b"}"#, "invalid_name", "namespace", "'a/b'"),
    Case(r#"{"queue": "ä"}"#, "invalid_name", "queue", "letters"),
    Case(r#"{"group": ""}"#, "invalid_name", "group", "empty"),
    Case(r#"{"owner": "a\t"}"#, "invalid_name", "owner", "space"),
    Case(r#"{"ordering_key": ""}"#, "invalid_name", "ordering_key", "empty"),
    Case(r#"{"labels": {"a b": "c"}}"#, "invalid_label", "labels.a b", "letters"),
    Case(r#"{"labels": {"": "c"}}"#, "invalid_label", "labels.", "1 to 63"),
    Case(r#"{"labels": {"a": "b\u0007"}}"#, "invalid_label", "labels.a", "control"),
    Case(r#"{"requires": {"gpu?": "yes"}}"#, "invalid_label", "requires.gpu?", "letters"),
    Case(r#"{"resources": {"cpu": -1}}"#, "invalid_value", "resources.cpu", "processors"),
    Case(r#"{"resources": {"cpu": true}}"#, "invalid_type", "resources.cpu", "processors"),
    Case(r#"{"resources": {"memory": "lots"}}"#, "invalid_value", "resources.memory", "256M"),
    Case(r#"{"target_workers": "some"}"#, "invalid_value", "target_workers", "all"),
    Case(
        r#"{"target_workers": "all", "ordering_key": "o"}"#,
        "conflicting_fields",
        "target_workers",
        "ordering_key",
    ),
    Case(r#"{"resources": {"disk": 1}}"#, "unknown_field", "resources.disk", "memory"),
    Case(r#"{"description": "a\u0000"}"#, "invalid_text", "description", "NUL"),
    // Targets.
    Case(r#"{"command": null}"#, "missing_target", "command", "one of"),
    Case(r#"{"http": {"url": "http://a"}}"#, "conflicting_targets", "http", "only one"),
    Case(r#"{"job_type": "x"}"#, "conflicting_targets", "job_type", "only one"),
    Case(r#"{"payload": {}}"#, "field_not_applicable", "payload", "job_type"),
    Case(
        r#"{"command": null, "job_type": "x", "env": {"A": "b"}}"#,
        "field_not_applicable",
        "env",
        "command",
    ),
    Case(
        r#"{"command": null, "job_type": "x", "cwd": "/"}"#,
        "field_not_applicable",
        "cwd",
        "command",
    ),
    Case(
        r#"{"command": null, "job_type": "x", "user": "u"}"#,
        "field_not_applicable",
        "user",
        "command",
    ),
    Case(
        r#"{"command": null, "job_type": "x", "stdin": ""}"#,
        "field_not_applicable",
        "stdin",
        "command",
    ),
    Case(
        r#"{"command": null, "job_type": "x", "shell": "/s"}"#,
        "field_not_applicable",
        "shell",
        "command",
    ),
    Case(
        r#"{"command": null, "job_type": "x", "grace": "1s"}"#,
        "field_not_applicable",
        "grace",
        "command",
    ),
    Case(
        r#"{"command": null, "job_type": "x", "memory_limit": "1G"}"#,
        "field_not_applicable",
        "memory_limit",
        "command",
    ),
    Case(r#"{"command": null, "job_type": ""}"#, "invalid_name", "job_type", "empty"),
    Case(
        r#"{"command": null, "job_type": "x", "payload": 1e999}"#,
        "invalid_value",
        "payload",
        "number",
    ),
    Case(
        r#"{"command": null, "job_type": "x", "payload": "\ud800"}"#,
        "invalid_value",
        "payload",
        "pair",
    ),
    Case(r#"{"command": " "}"#, "invalid_command", "command", "empty"),
    Case(r#"{"command": "a\u0000b"}"#, "invalid_command", "command", "NUL"),
    Case(r#"{"command": []}"#, "invalid_command", "command", "empty"),
    Case(r#"{"command": [""]}"#, "invalid_command", "command", "program"),
    Case(r#"{"command": ["a", "b\u0000"]}"#, "invalid_command", "command", "NUL"),
    Case(
        r#"{"command": ["a"], "shell": "/bin/sh"}"#,
        "field_not_applicable",
        "shell",
        "without a shell",
    ),
    Case(r#"{"shell": "bash"}"#, "invalid_command", "shell", "absolute"),
    Case(r#"{"cwd": "tmp"}"#, "invalid_command", "cwd", "absolute"),
    Case(r#"{"cwd": ""}"#, "invalid_command", "cwd", "empty"),
    Case(r#"{"user": ""}"#, "invalid_name", "user", "empty"),
    Case(r#"{"env": {"A=B": "c"}}"#, "invalid_env", "env.A=B", "name of a variable"),
    Case(r#"{"env": {"A": "\u0000"}}"#, "invalid_env", "env.A", "NUL"),
    Case(r#"{"grace": "0s"}"#, "out_of_range", "grace", "from 1ms to 1d"),
    Case(r#"{"grace": "2d"}"#, "out_of_range", "grace", "2d"),
    Case(r#"{"memory_limit": "1K"}"#, "out_of_range", "memory_limit", "from 1M to 1024T"),
    Case(r#"{"memory_limit": "much"}"#, "invalid_value", "memory_limit", "256M"),
    Case(r#"{"memory_limit": true}"#, "invalid_type", "memory_limit", "512M"),
    // Schedules.
    Case(r#"{"schedule": null}"#, "missing_schedule", "schedule", "delay"),
    Case(r#"{"schedule": {}}"#, "missing_schedule", "schedule", "no schedule"),
    Case(r#"{"schedule": {"timezone": "UTC"}}"#, "missing_schedule", "schedule", "no schedule"),
    Case(
        r#"{"schedule": {"cron": "* * * * *", "every": "5m"}}"#,
        "conflicting_schedules",
        "schedule",
        "`cron` and `every`",
    ),
    Case(
        r#"{"schedule": "@daily", "schedule_time": "2030-01-01T00:00:00Z"}"#,
        "conflicting_schedules",
        "schedule_time",
        "short for",
    ),
    Case(r#"{"schedule": {"cron": "61 * * * *"}}"#, "invalid_cron", "schedule.cron", ""),
    Case(r#"{"schedule": {"cron": "0 0 30 2 *"}}"#, "never_fires", "schedule.cron", "never"),
    Case(
        r#"{"schedule": {"cron": "* * * * *", "timezone": "Mars/Base"}}"#,
        "unknown_timezone",
        "schedule.timezone",
        "Mars",
    ),
    Case(
        r#"{"schedule": {"at": "2030-01-01T00:00:00Z", "timezone": "Mars/Base"}}"#,
        "unknown_timezone",
        "schedule.timezone",
        "Mars",
    ),
    Case(r#"{"schedule": {"every": "500ms"}}"#, "invalid_rate", "schedule.every", "one second"),
    Case(r#"{"schedule": {"rate": "rate(often)"}}"#, "invalid_rate", "schedule.rate", "period"),
    Case(
        r#"{"schedule": {"cron": "* * * * *", "after": "finish"}}"#,
        "field_not_applicable",
        "schedule.after",
        "every",
    ),
    Case(r#"{"schedule": {"at": "0001-01-01T00:00:00Z"}}"#, "invalid_time", "schedule.at", "1970"),
    Case(
        r#"{"schedule": null, "schedule_time": "1969-12-31T23:59:59Z"}"#,
        "invalid_time",
        "schedule_time",
        "1970",
    ),
    Case(r#"{"schedule": {"any": []}}"#, "no_rules", "schedule.any", "no rule"),
    Case(
        r#"{"schedule": {"any": [{}]}}"#,
        "conflicting_schedules",
        "schedule.any[0]",
        "exactly one",
    ),
    Case(
        r#"{"schedule": {"any": ["@daily", "x"]}}"#,
        "invalid_expression",
        "schedule.any[1]",
        "not a schedule",
    ),
    Case(
        r#"{"schedule": {"any": ["@daily", {"cron": "99 * * * *"}]}}"#,
        "invalid_cron",
        "schedule.any[1]",
        "",
    ),
    Case(
        r#"{"schedule": {"cron": "* * * * *", "except": ["* * * * *"]}}"#,
        "never_fires",
        "schedule",
        "except",
    ),
    Case(
        r#"{"schedule": {"every": "5m", "except": ["every 5m after finish"]}}"#,
        "unsupported_rule",
        "schedule.except[0]",
        "exception",
    ),
    Case(
        r#"{"schedule": {"every": "5m", "max_runs": 0}}"#,
        "invalid_max_runs",
        "schedule.max_runs",
        "1 or more",
    ),
    Case(
        r#"{"schedule": {"every": "5m", "jitter": "2d"}}"#,
        "invalid_jitter",
        "schedule.jitter",
        "1d",
    ),
    Case(
        r#"{"schedule": {"every": "5m", "start": "2027-01-01T00:00:00Z", "end": "2026-07-01T00:00:00Z"}}"#,
        "never_fires",
        "schedule.end",
        "before",
    ),
    Case(r#"{"schedule": "whenever"}"#, "invalid_expression", "schedule", "whenever"),
    Case(r#"{"schedule": "@reboot"}"#, "unsupported_reboot", "schedule", "reboot"),
    // Policies.
    Case(r#"{"retries": 10001}"#, "out_of_range", "retries", "10000"),
    Case(r#"{"retry": {"max": 10001}}"#, "out_of_range", "retry.max", "10000"),
    Case(r#"{"retries": 1, "retry": {"max": 2}}"#, "conflicting_fields", "retries", "or the same"),
    Case(r#"{"retry": {"max": 1, "factor": 0.5}}"#, "out_of_range", "retry.factor", "1 to 100"),
    Case(r#"{"retry": {"max": 1, "factor": 101}}"#, "out_of_range", "retry.factor", "101"),
    Case(r#"{"retry": {"max": 1, "jitter": 1.1}}"#, "out_of_range", "retry.jitter", "0 to 1"),
    Case(r#"{"retry": {"max": 1, "jitter": -0.1}}"#, "out_of_range", "retry.jitter", "-0.1"),
    Case(r#"{"retry": {"max": 1, "initial": "31d"}}"#, "out_of_range", "retry.initial", "30d"),
    Case(
        r#"{"retry": {"max": 1, "initial": "10s", "max_delay": "5s"}}"#,
        "conflicting_fields",
        "retry.max_delay",
        "shorter",
    ),
    Case(r#"{"timeout": "0s"}"#, "out_of_range", "timeout", "1ms"),
    Case(r#"{"timeout": "31d"}"#, "out_of_range", "timeout", "30d"),
    Case(r#"{"expires_after": "999ms"}"#, "out_of_range", "expires_after", "1s"),
    Case(r#"{"misfire": "sometimes"}"#, "invalid_misfire", "misfire", "once, skip, all"),
    Case(r#"{"misfire": "skipp"}"#, "invalid_misfire", "misfire", "did you mean skip?"),
    Case(r#"{"misfire": {"max": 0}}"#, "out_of_range", "misfire.max", "1000"),
    Case(r#"{"overlap": "allways"}"#, "invalid_overlap", "overlap", "skip, queue"),
    Case(r#"{"overlap": {"policy": "queue", "max": 1001}}"#, "out_of_range", "overlap.max", "1000"),
    Case(r#"{"retention": {"runs": 0}}"#, "out_of_range", "retention.runs", "1000000"),
    Case(r#"{"retention": {"age": "59m"}}"#, "out_of_range", "retention.age", "1h"),
    Case(r#"{"retention": {"age": "2600d"}}"#, "out_of_range", "retention.age", "2557d"),
    Case(r#"{"priority": 1001}"#, "out_of_range", "priority", "-1000 to 1000"),
    Case(r#"{"priority": -1001}"#, "out_of_range", "priority", "-1001"),
    Case(r#"{"notify": {}}"#, "invalid_notify", "notify", "list"),
    Case(r#"{"notify": [{}, "x"]}"#, "invalid_notify", "notify[1]", "object"),
    Case(r#"{"success": {"exit_codes": [256]}}"#, "out_of_range", "success.exit_codes", "255"),
    Case(r#"{"success": {"exit_codes": [-1]}}"#, "out_of_range", "success.exit_codes", "-1"),
    Case(
        r#"{"success": {"output_matches": "("}}"#,
        "invalid_rule",
        "success.output_matches",
        "regular",
    ),
    Case(
        r#"{"success": {"output_must_not_match": ""}}"#,
        "invalid_rule",
        "success.output_must_not_match",
        "empty",
    ),
    Case(
        r#"{"success": {"output_matches": "(a{1000}){1000}"}}"#,
        "invalid_rule",
        "success.output_matches",
        "regular",
    ),
    Case(
        r#"{"success": {"status_codes": ["9xx"]}}"#,
        "invalid_rule",
        "success.status_codes",
        "2xx",
    ),
    Case(r#"{"success": {"status_codes": [99]}}"#, "invalid_rule", "success.status_codes", "'99'"),
    Case(
        r#"{"success": {"json_path": "status"}}"#,
        "invalid_rule",
        "success.json_path",
        "JSONPath",
    ),
    Case(
        r#"{"success": {"json_equals": 1}}"#,
        "field_not_applicable",
        "success.json_equals",
        "json_path",
    ),
];

/// Requests, with code, field and a piece of the message.
const REQUESTS: &[Case] = &[
    Case(r#"{"url": "x"}"#, "invalid_url", "http.url", "http://"),
    Case(r#"{"url": "ftp://a/"}"#, "invalid_url", "http.url", "https://"),
    Case(r#"{"url": "http:/a"}"#, "invalid_url", "http.url", "https://"),
    Case(r#"{"url": "http:///u:p@h/"}"#, "invalid_url", "http.url", "host"),
    Case(r#"{"url": "http://"}"#, "invalid_url", "http.url", "host"),
    Case(r#"{"url": "http://a b/"}"#, "invalid_url", "http.url", "%20"),
    Case(r#"{"url": "http://a\t/"}"#, "invalid_url", "http.url", "control"),
    Case(r#"{"url": "http://a:99999/"}"#, "invalid_url", "http.url", "not valid"),
    Case(r#"{"url": "http://a/", "method": "FETCH"}"#, "invalid_method", "http.method", "GET"),
    Case(
        r#"{"url": "http://a/", "headers": {"a b": "c"}}"#,
        "invalid_header",
        "http.headers.a b",
        "name",
    ),
    Case(
        r#"{"url": "http://a/", "headers": {"a": "b\r\nc: d"}}"#,
        "invalid_header",
        "http.headers.a",
        "value",
    ),
    Case(
        r#"{"url": "http://a/", "headers": {"a": "1", "A": "2"}}"#,
        "invalid_header",
        "http.headers.a",
        "twice",
    ),
    Case(
        r#"{"url": "http://a/", "headers": {"Content-Length": "1"}}"#,
        "invalid_header",
        "http.headers.Content-Length",
        "connection",
    ),
    Case(r#"{"url": "http://a/", "auth": {}}"#, "invalid_auth", "http.auth", "basic"),
    Case(
        r#"{"url": "http://a/", "auth": {"bearer": ""}}"#,
        "invalid_auth",
        "http.auth.bearer",
        "empty",
    ),
    Case(
        r#"{"url": "http://a/", "auth": {"bearer": "a\nb"}}"#,
        "invalid_auth",
        "http.auth",
        "token",
    ),
    Case(
        r#"{"url": "http://a/", "auth": {"bearer": "t", "basic": {"username": "u", "password": "p"}}}"#,
        "invalid_auth",
        "http.auth",
        "either",
    ),
    Case(
        r#"{"url": "http://a/", "auth": {"basic": {"username": "a:b", "password": "p"}}}"#,
        "invalid_auth",
        "http.auth",
        "':'",
    ),
    Case(
        r#"{"url": "http://a/", "auth": {"bearer": "t"}, "headers": {"Authorization": "x"}}"#,
        "invalid_auth",
        "http.auth",
        "not both",
    ),
    Case(
        r#"{"url": "http://a/", "auth": {"bearer": "********"}}"#,
        "masked_secret",
        "http.auth.bearer",
        "stands for",
    ),
    Case(
        r#"{"url": "http://a/", "auth": {"basic": {"username": "a", "password": "********"}}}"#,
        "masked_secret",
        "http.auth.basic.password",
        "stands for",
    ),
    Case(r#"{"url": "http://********@a/"}"#, "masked_secret", "http.url", "stands for"),
    Case(r#"{"url": "http://a/?token=********"}"#, "masked_secret", "http.url", "stands for"),
    Case(
        r#"{"url": "http://a/", "headers": {"X-Api-Key": "********"}}"#,
        "masked_secret",
        "http.headers.X-Api-Key",
        "stands for",
    ),
    Case(
        r#"{"url": "http://a/", "connect_timeout": "2h"}"#,
        "out_of_range",
        "http.connect_timeout",
        "1h",
    ),
    Case(r#"{"url": "http://a/", "body": "\ud800"}"#, "invalid_value", "http.body", "text"),
];

fn assert_refused(case: &Case, body: &str) {
    let Case(given, code, field, piece) = case;
    let problem = match check(body) {
        Err(problem) => problem,
        Ok(_) => panic!("accepted: {given}"),
    };
    assert_eq!(problem.code, *code, "{given}: {problem:?}");
    assert_eq!(problem.field.as_deref(), Some(*field), "{given}: {problem:?}");
    assert!(problem.detail.contains(piece), "{given}: {problem:?}");
    assert!((400..500).contains(&problem.status), "{given}: {problem:?}");
}

/// A body with a command and a schedule where the case has none, as text: some cases cannot be
/// held by a value.
fn completed(given: &str) -> String {
    let inner = given.trim_start_matches('{').trim_end();
    let mut start = String::from("{");
    if !given.contains(r#""schedule":"#) {
        start.push_str(r#""schedule": "@daily", "#);
    }
    if !given.contains(r#""command":"#) {
        start.push_str(r#""command": "true", "#);
    }
    start + inner
}

#[test]
fn bad_jobs_are_refused_with_code_and_field() {
    for case in CASES {
        assert_refused(case, &completed(case.0));
    }
}

#[test]
fn bad_requests_are_refused_with_code_and_field() {
    for case in REQUESTS {
        assert_refused(case, &format!(r#"{{"schedule": "@daily", "http": {}}}"#, case.0));
    }
}

/// A body of which one field is as long as said.
fn sized(field: &str, value: &serde_json::Value) -> serde_json::Value {
    let mut body = serde_json::json!({"schedule": "@daily", "command": "true"});
    let mut place = &mut body;
    for part in field.split('.') {
        place = &mut place[part];
    }
    *place = value.clone();
    if matches!(field.split('.').next(), Some("http" | "payload" | "job_type")) {
        body["command"].take();
    }
    match field {
        "payload" => body["job_type"] = "x".into(),
        "http.url" => {}
        _ if field.starts_with("http.") => body["http"]["url"] = "http://a/".into(),
        _ => {}
    }
    body
}

#[test]
fn every_limit_is_exact() {
    let text = |n: usize| serde_json::Value::from("x".repeat(n));
    let map = |n: usize| {
        let entries = (0..n).map(|i| (format!("n{i}"), "v".into()));
        serde_json::Value::Object(entries.collect())
    };
    let list = |n: usize| serde_json::Value::from(vec!["a"; n]);
    type Make<'a> = &'a dyn Fn(usize) -> serde_json::Value;
    let url = |n: usize| serde_json::Value::from(format!("http://a/{}", "x".repeat(n - 9)));
    let spaces = |n: usize| serde_json::Value::from(format!("{}x", "é".repeat(n - 1)));
    let quoted = |n: usize| serde_json::Value::from("x".repeat(n - 2));
    let cases: [(&str, Make<'_>, usize, &str); 22] = [
        ("key", &text, 256, "too_long"),
        ("key", &spaces, 256, "too_long"),
        ("ordering_key", &text, 256, "too_long"),
        ("namespace", &text, 128, "too_long"),
        ("group", &text, 128, "too_long"),
        ("owner", &text, 128, "too_long"),
        ("queue", &text, 128, "too_long"),
        ("job_type", &text, 128, "too_long"),
        ("description", &text, 4096, "too_long"),
        ("labels", &map, 64, "too_many"),
        ("labels.a", &text, 256, "too_long"),
        ("command", &text, 64 * 1024, "too_long"),
        ("command", &list, 1_000, "too_many"),
        ("env", &map, 500, "too_many"),
        ("stdin", &text, 204_800, "payload_too_large"),
        ("payload", &quoted, 204_800, "payload_too_large"),
        ("http.url", &url, 8 * 1024, "too_long"),
        ("http.headers", &map, 100, "too_many"),
        ("http.body", &text, 204_800, "payload_too_large"),
        ("http.auth.bearer", &text, 8 * 1024, "too_long"),
        ("success.output_matches", &text, 1_024, "too_long"),
        ("user", &text, 128, "too_long"),
    ];
    for (field, make, max, code) in cases {
        let good = sized(field, &make(max)).to_string();
        if let Err(problem) = check(&good) {
            panic!("{field} of {max} refused: {problem}");
        }
        let bad = sized(field, &make(max + 1));
        let problem = check(&bad.to_string()).err().unwrap_or_else(|| panic!("{field} accepted"));
        assert_eq!((problem.code.as_str(), problem.field.as_deref()), (code, Some(field)));
        assert_eq!(problem.status, if code == "payload_too_large" { 413 } else { 422 });
        assert!(problem.detail.len() < 300, "{problem:?}");
    }
}

#[test]
fn r80_payloads_of_200_kb_pass_and_larger_ones_get_413() {
    let body = |bytes: usize| {
        let filler = "x".repeat(bytes - r#"{"data":""}"#.len());
        format!(
            r#"{{"job_type": "x", "schedule_time": "2030-01-01T00:00:00Z", "payload": {{"data":"{filler}"}}}}"#
        )
    };
    assert!(check(&body(204_800)).is_ok());
    let problem = check(&body(204_801)).unwrap_err();
    assert_eq!((problem.status, problem.code.as_str()), (413, "payload_too_large"));
}

#[test]
fn deep_json_is_refused_without_recursion() {
    for (depth, good) in [(100, true), (101, false), (100_000, false)] {
        let payload = "[".repeat(depth) + &"]".repeat(depth);
        let body = format!(r#"{{"job_type": "x", "schedule": "in 1m", "payload": {payload}}}"#);
        match check(&body) {
            Ok(_) => assert!(good, "{depth}"),
            Err(problem) => assert_eq!((good, problem.code.as_str()), (false, "too_deep")),
        }
    }
}

#[test]
fn hostile_names_come_back_short_and_printable() {
    let name = format!("\u{1b}[31m{}", "x".repeat(10_000));
    let body = serde_json::json!({"command": "true", "schedule": "@daily", "labels": {name: "v"}});
    let problem = check(&body.to_string()).unwrap_err();
    assert_eq!(problem.code, "invalid_label");
    let field = problem.field.unwrap();
    assert!(field.len() < 100 && !field.contains('\u{1b}'), "{field}");
}

#[test]
fn numbers_that_json_cannot_hold_are_refused_too() {
    let mut spec: JobSpec = from_json(br#"{"command": "true", "schedule": "@daily"}"#).unwrap();
    for (factor, jitter, field) in [
        (Some(f64::NAN), None, "retry.factor"),
        (Some(f64::INFINITY), None, "retry.factor"),
        (None, Some(f64::NAN), "retry.jitter"),
    ] {
        let retry = bellwether_api::Retry { max: 1, factor, jitter, ..Default::default() };
        spec.retry = Some(retry);
        let problem = definition(spec.clone(), NOW).unwrap_err();
        assert_eq!(
            (problem.code.as_str(), problem.field.as_deref()),
            ("out_of_range", Some(field))
        );
    }
}
