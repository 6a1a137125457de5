//! Success rules against exit codes, statuses and content.

use serde_json::json;

use super::*;

fn judge(rules: &SuccessRules) -> Judge {
    rules.compile().unwrap()
}

fn after(rules: &SuccessRules, pieces: &[&str], kept: &str) -> Result<(), ReasonCode> {
    let mut judge = judge(rules);
    for piece in pieces {
        judge.observe(Stream::Stdout, piece.as_bytes());
    }
    judge
        .content(&[kept.as_bytes().to_vec()], Some(kept.as_bytes()))
        .map_err(|failure| failure.code)
}

#[test]
fn r44_exit_codes_and_statuses() {
    let default = SuccessRules::default();
    assert!(judge(&default).exit_code(0).is_ok());
    assert!(judge(&default).exit_code(1).is_err());
    assert!(judge(&default).status(204).is_ok());
    for status in [199, 301, 404, 500] {
        assert!(judge(&default).status(status).is_err(), "{status}");
    }
    let rules = SuccessRules {
        exit_codes: vec![0, 3],
        status_codes: vec!["404".into(), "3xx".into(), "500-502".into()],
        ..SuccessRules::default()
    };
    assert!(judge(&rules).exit_code(3).is_ok());
    assert!(judge(&rules).exit_code(2).is_err());
    for (status, good) in [(404, true), (301, true), (502, true), (503, false), (200, false)] {
        assert_eq!(judge(&rules).status(status).is_ok(), good, "{status}");
    }
}

#[test]
fn r44_patterns_see_lines_that_are_not_kept() {
    let rules = SuccessRules {
        output_must_not_match: Some("^ERROR".into()),
        output_matches: Some("done$".into()),
        ..SuccessRules::default()
    };
    assert_eq!(after(&rules, &["all done\n", "bye\n"], "bye\n"), Ok(()));
    assert_eq!(
        after(&rules, &["all done\nERR", "OR 7\n", "x\n"], "x\n"),
        Err(ReasonCode::OutputForbidden)
    );
    assert_eq!(after(&rules, &["no ERROR\n"], ""), Err(ReasonCode::OutputMismatch));
    assert_eq!(after(&rules, &["without a newline: done"], ""), Ok(()));
}

#[test]
fn r44_patterns_may_span_lines_of_the_kept_output() {
    let rules =
        SuccessRules { output_matches: Some("(?s)begin.*end".into()), ..SuccessRules::default() };
    assert_eq!(after(&rules, &["begin\n", "end\n"], "begin\nend\n"), Ok(()));
}

#[test]
fn r44_endless_lines_take_no_memory() {
    let rules = SuccessRules { output_matches: Some("needle".into()), ..SuccessRules::default() };
    let mut judge = judge(&rules);
    for _ in 0..1000 {
        judge.observe(Stream::Stdout, &[b'x'; 5000]);
        assert!(judge.lines[0].len() < LINE_BYTES_MAX);
    }
}

#[test]
fn r44_json_paths() {
    let rule = |path: &str, equals: Option<Value>| SuccessRules {
        json_path: Some(JsonRule { path: path.into(), equals }),
        ..SuccessRules::default()
    };
    let body = r#"{"status":"ok","items":[{"n":1},{"n":2}]}"#;
    for (rules, good) in [
        (rule("$.status", Some(json!("ok"))), true),
        (rule("$.status", Some(json!("bad"))), false),
        (rule("$.items[*].n", Some(json!(2))), true),
        (rule("$.missing", None), false),
        (rule("$.items", None), true),
    ] {
        assert_eq!(after(&rules, &[], body).is_ok(), good, "{rules:?}");
    }
    let rules = rule("$.status", None);
    assert_eq!(after(&rules, &[], "<html>"), Err(ReasonCode::JsonMismatch));
    assert!(judge(&rules).content(&[], None).is_err(), "a cut document is not a success");
}

#[test]
fn r44_bad_rules_are_refused_at_creation() {
    let bad = [
        SuccessRules { exit_codes: vec![256], ..SuccessRules::default() },
        SuccessRules { exit_codes: vec![0; CODES_MAX + 1], ..SuccessRules::default() },
        SuccessRules { output_matches: Some("(".into()), ..SuccessRules::default() },
        SuccessRules { output_matches: Some(r"\w{1000}{1000}".into()), ..SuccessRules::default() },
        SuccessRules { output_must_not_match: Some("x".repeat(5000)), ..SuccessRules::default() },
        SuccessRules {
            json_path: Some(JsonRule { path: "status".into(), equals: None }),
            ..SuccessRules::default()
        },
    ];
    for rules in bad {
        assert!(rules.validate().is_err(), "{rules:?}");
    }
    for status in ["", "20", "abc", "2x", "600", "099", "1xxx", "300-200", "200-", "+20", "9xx"] {
        let rules = SuccessRules { status_codes: vec![status.into()], ..SuccessRules::default() };
        assert!(rules.validate().is_err(), "{status}");
    }
}
