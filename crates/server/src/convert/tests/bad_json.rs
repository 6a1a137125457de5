//! JSON that cannot be read.

use super::check;

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (body, code, field, piece) in [
        ("{", "invalid_json", None, "line 1, column 1"),
        ("", "invalid_json", None, "not JSON"),
        ("{} x", "invalid_json", None, "trailing"),
        (r#"{"key": nope}"#, "invalid_json", None, "column"),
        ("[]", "invalid_type", None, "a list"),
        ("17", "invalid_type", None, "an object"),
        (r#"{"comand": "ls"}"#, "unknown_field", Some("comand"), "did you mean `command`?"),
        (r#"{"zzz": 1}"#, "unknown_field", Some("zzz"), "expected one of `key`"),
        (
            r#"{"schedule": {"cron": "@daily", "timezon": "UTC"}}"#,
            "unknown_field",
            Some("schedule.timezon"),
            "did you mean `timezone`?",
        ),
        (
            r#"{"schedule": {"any": [{"crom": "@daily"}]}}"#,
            "unknown_field",
            Some("schedule.any[0].crom"),
            "did you mean `cron`?",
        ),
        (r#"{"http": {"method": "GET"}}"#, "missing_field", Some("http.url"), "missing"),
        (r#"{"key": "a", "key": "b"}"#, "duplicate_field", Some("key"), "twice"),
        (r#"{"retries": "3"}"#, "invalid_type", Some("retries"), "found a text"),
        (r#"{"retries": -1}"#, "invalid_value", Some("retries"), "without sign"),
        (r#"{"retries": 1.5}"#, "invalid_type", Some("retries"), "found a number"),
        (r#"{"command": 5}"#, "invalid_type", Some("command"), "a text or a list of texts"),
        (r#"{"command": ["a", 5]}"#, "invalid_type", Some("command[1]"), "expected a text"),
        (r#"{"schedule": ["@daily"]}"#, "invalid_type", Some("schedule"), "a text or an object"),
        (r#"{"retry": [3]}"#, "invalid_type", Some("retry"), "found a list, expected an object"),
        (r#"{"http": ["http://a/"]}"#, "invalid_type", Some("http"), "expected an object"),
        (r#"{"success": [[0]]}"#, "invalid_type", Some("success"), "expected an object"),
        (r#"{"retention": []}"#, "invalid_type", Some("retention"), "expected an object"),
        (
            r#"{"http": {"url": "http://a/", "auth": [["u", "p"]]}}"#,
            "invalid_type",
            Some("http.auth"),
            "expected an object",
        ),
        (
            r#"{"http": {"url": "http://a/", "auth": {"basic": ["u", "p"]}}}"#,
            "invalid_type",
            Some("http.auth.basic"),
            "expected an object",
        ),
        (
            r#"{"schedule": {"cron": "@daily", "dst": ["skip", "both"]}}"#,
            "invalid_type",
            Some("schedule.dst"),
            "expected an object",
        ),
        (r#"{"misfire": ["all"]}"#, "invalid_type", Some("misfire"), "a text or an object"),
        (r#"{"schedule": {"any": [["@daily"]]}}"#, "invalid_type", Some("schedule.any[0]"), "text"),
        (r#"{"labels": {"a": 1}}"#, "invalid_type", Some("labels.a"), "expected a text"),
        (r#"{"delivery": "twice"}"#, "invalid_value", Some("delivery"), "at_most_once"),
        (r#"{"timeout": "soon"}"#, "invalid_value", Some("timeout"), "duration"),
        (r#"{"timeout": 5}"#, "invalid_type", Some("timeout"), "90s"),
        (r#"{"schedule_time": "tomorrow"}"#, "invalid_value", Some("schedule_time"), "2026-12-31"),
        (
            r#"{"success": {"status_codes": [true]}}"#,
            "invalid_type",
            Some("success.status_codes[0]"),
            "not possible",
        ),
        (r#"{"`, expected `": 1}"#, "unknown_field", Some("`, expected `"), "no field"),
    ] {
        let problem = check(body).unwrap_err();
        assert_eq!(problem.code, code, "{body}: {problem:?}");
        assert_eq!(problem.field.as_deref(), field, "{body}: {problem:?}");
        assert!(problem.detail.contains(piece), "{body}: {problem:?}");
        assert_eq!(problem.status, 400, "{body}");
    }
}

#[test]
fn long_input_does_not_come_back() {
    let long = "x".repeat(100_000);
    for body in [
        format!(r#"{{"{long}": 1}}"#),
        format!(r#"{{"timeout": "{long}"}}"#),
        format!(r#"{{"delivery": "{long}"}}"#),
        format!(r#"{{"schedule_time": "{long}"}}"#),
        format!(r#"{{"retries": "{long}"}}"#),
    ] {
        let problem = check(&body).unwrap_err();
        assert!(problem.to_string().len() < 3_000, "{}", problem.to_string().len());
    }
}

#[test]
fn invalid_utf_8_is_invalid_json() {
    for body in [&b"{\"key\": \"\xff\"}"[..], b"\xff", b"{\"payload\": \"\xc3\x28\"}"] {
        let problem = super::from_json::<bellwether_api::JobSpec>(body).unwrap_err();
        assert_eq!(problem.code, "invalid_json", "{problem:?}");
    }
}
