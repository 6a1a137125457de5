//! Schedules that belong to no job.

use bellwether_api::{PreviewRequest, Problem};
use bellwether_core::schedule::{Rule, ScheduleSpec};

use super::super::{from_json, preview, preview_spec};
use super::NOW;

fn ask(body: &str) -> Result<ScheduleSpec, Problem> {
    let request: PreviewRequest = from_json(body.as_bytes())?;
    preview(&request, NOW)?;
    preview_spec(&request)
}

#[test]
fn r8_a_preview_takes_a_line_or_an_object() {
    let spec = ask(r#"{"cron": "5 2 * * 6", "timezone": "Europe/Berlin", "count": 5,
        "from": "2026-03-28T00:00:00Z"}"#)
    .unwrap();
    assert_eq!(spec.any, [Rule::Cron("5 2 * * 6".into())]);
    assert_eq!(spec.timezone, "Europe/Berlin");
    let spec = ask(r#"{"expression": "in 30m", "timezone": "UTC", "max_runs": 3}"#).unwrap();
    assert_eq!((spec.any, spec.max_runs), (vec![Rule::Delay { ms: 1_800_000 }], Some(3)));
}

#[test]
fn bad_previews_name_the_field() {
    for (body, code, field) in [
        ("{}", "missing_schedule", None),
        (r#"{"cron": "0 0 30 2 *"}"#, "never_fires", Some("cron")),
        (r#"{"cron": "x"}"#, "invalid_cron", Some("cron")),
        (r#"{"expression": "0 0 30 2 *"}"#, "never_fires", Some("expression")),
        (r#"{"expression": "x"}"#, "invalid_expression", Some("expression")),
        (
            r#"{"expression": "@daily", "cron": "@daily"}"#,
            "conflicting_schedules",
            Some("expression"),
        ),
        (
            r#"{"expression": "@daily", "any": ["@daily"]}"#,
            "conflicting_schedules",
            Some("expression"),
        ),
        (
            r#"{"expression": "@daily", "timezone": "Nowhere"}"#,
            "unknown_timezone",
            Some("timezone"),
        ),
        (r#"{"expression": "@daily", "count": 0}"#, "out_of_range", Some("count")),
        (r#"{"expression": "@daily", "count": 1001}"#, "out_of_range", Some("count")),
        (r#"{"any": ["@daily", "99 * * * *"]}"#, "invalid_cron", Some("any[1]")),
        (r#"{"crom": "@daily"}"#, "unknown_field", Some("crom")),
    ] {
        let problem = ask(body).unwrap_err();
        assert_eq!(problem.code, code, "{body}: {problem:?}");
        assert_eq!(problem.field.as_deref(), field, "{body}: {problem:?}");
    }
}
