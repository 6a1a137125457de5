//! What counts as success.

use bellwether_api::{Problem, StatusCode, Success};
use bellwether_core::record;
use bellwether_worker::{JsonRule, SuccessRules};

use super::json;
use super::limits::{CODES_MAX, JSON_EQUALS_BYTES_MAX, PATTERN_CHARS_MAX};
use super::name::longer_than;
use super::problem::{invalid, not_applicable, out_of_range, sentence, too_long, too_many};

/// The success rules of a job. Rules that say nothing are stored as nothing.
pub(super) fn success(success: Option<Success>) -> Result<Option<record::Success>, Problem> {
    let Some(success) = success else {
        return Ok(None);
    };
    if success.json_equals.is_some() && success.json_path.is_none() {
        return Err(not_applicable("success.json_equals", "success.json_path"));
    }
    let stored = record::Success {
        exit_codes: exit_codes(success.exit_codes)?,
        output_matches: pattern("success.output_matches", success.output_matches)?,
        output_must_not_match: pattern(
            "success.output_must_not_match",
            success.output_must_not_match,
        )?,
        status_codes: status_codes(success.status_codes)?,
        json_path: json_path(success.json_path)?,
        json_equals: json_equals(success.json_equals)?,
    };
    Ok((stored != record::Success::default()).then_some(stored))
}

/// Has the worker's own check look at one rule, so that what is accepted can be executed.
fn check(field: &str, rules: &SuccessRules) -> Result<(), Problem> {
    rules.validate().map_err(|message| invalid("invalid_rule", field, sentence(&message)))
}

fn exit_codes(codes: Vec<i32>) -> Result<Vec<i32>, Problem> {
    if codes.len() > CODES_MAX {
        return Err(too_many("success.exit_codes", codes.len(), CODES_MAX));
    }
    if let Some(code) = codes.iter().find(|code| !(0..=255).contains(*code)) {
        return Err(out_of_range("success.exit_codes", code, "from 0 to 255"));
    }
    Ok(codes)
}

fn pattern(field: &str, text: Option<String>) -> Result<String, Problem> {
    let Some(text) = text else {
        return Ok(String::new());
    };
    if longer_than(&text, PATTERN_CHARS_MAX) {
        return Err(too_long(field, PATTERN_CHARS_MAX, "characters"));
    }
    if text.is_empty() {
        let detail = format!("`{field}` is empty, which matches everything; leave it out");
        return Err(invalid("invalid_rule", field, detail));
    }
    let rules = SuccessRules { output_matches: Some(text), ..SuccessRules::default() };
    check(field, &rules)?;
    Ok(rules.output_matches.unwrap_or_default())
}

/// Status codes as texts, written in one way: `200`, `2xx`, `200-299`.
fn status_codes(codes: Vec<StatusCode>) -> Result<Vec<String>, Problem> {
    if codes.len() > CODES_MAX {
        return Err(too_many("success.status_codes", codes.len(), CODES_MAX));
    }
    let rules = SuccessRules {
        status_codes: codes
            .into_iter()
            .map(|code| match code {
                StatusCode::Number(number) => number.to_string(),
                StatusCode::Text(text) => {
                    text.split_whitespace().collect::<String>().to_ascii_lowercase()
                }
            })
            .collect(),
        ..SuccessRules::default()
    };
    check("success.status_codes", &rules)?;
    Ok(rules.status_codes)
}

fn json_path(path: Option<String>) -> Result<String, Problem> {
    let Some(path) = path else {
        return Ok(String::new());
    };
    if longer_than(&path, PATTERN_CHARS_MAX) {
        return Err(too_long("success.json_path", PATTERN_CHARS_MAX, "characters"));
    }
    let rules = SuccessRules {
        json_path: Some(JsonRule { path: path.clone(), equals: None }),
        ..SuccessRules::default()
    };
    check("success.json_path", &rules)?;
    Ok(path)
}

fn json_equals(value: Option<serde_json::Value>) -> Result<String, Problem> {
    let Some(value) = value else {
        return Ok(String::new());
    };
    let text = value.to_string();
    if text.len() > JSON_EQUALS_BYTES_MAX {
        return Err(too_long("success.json_equals", JSON_EQUALS_BYTES_MAX, "bytes"));
    }
    json::check_stored("success.json_equals", &text)?;
    Ok(text)
}

/// Success rules as a caller would write them.
pub(super) fn back(stored: &record::Success) -> Success {
    let text = |text: &String| (!text.is_empty()).then(|| text.clone());
    Success {
        exit_codes: stored.exit_codes.clone(),
        output_matches: text(&stored.output_matches),
        output_must_not_match: text(&stored.output_must_not_match),
        status_codes: stored
            .status_codes
            .iter()
            .map(|code| {
                let number = code.parse().map(StatusCode::Number);
                number.unwrap_or_else(|_| StatusCode::Text(code.clone()))
            })
            .collect(),
        json_path: text(&stored.json_path),
        json_equals: serde_json::from_str(&stored.json_equals).ok(),
    }
}
