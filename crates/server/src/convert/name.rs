//! Names, labels and other short texts.

use std::collections::BTreeMap;

use bellwether_api::Problem;
use bellwether_core::id::JobId;

use super::limits::{
    KEY_CHARS_MAX, LABEL_NAME_CHARS_MAX, LABEL_VALUE_CHARS_MAX, LABELS_MAX, NAME_CHARS_MAX,
    TEXT_CHARS_MAX,
};
use super::problem::{invalid, path, quoted, too_long, too_many};

/// What a namespace or queue is called if it has no name. Stored as nothing.
pub(super) const DEFAULT: &str = "default";

/// A name that people choose freely. Absent is empty.
pub(super) fn free(field: &str, name: Option<String>, max: usize) -> Result<String, Problem> {
    let Some(name) = name else {
        return Ok(String::new());
    };
    if longer_than(&name, max) {
        return Err(too_long(field, max, "characters"));
    }
    let wrong = if name.is_empty() {
        "is empty; leave it out or give a name"
    } else if name.starts_with(char::is_whitespace) || name.ends_with(char::is_whitespace) {
        "starts or ends with a space"
    } else if name.chars().any(char::is_control) {
        "contains control characters"
    } else {
        return Ok(name);
    };
    Err(invalid("invalid_name", field, format!("`{field}` {wrong}")))
}

/// A namespace or queue: a word that can stand in paths, metrics and flags.
pub(super) fn tenant(field: &str, name: Option<String>) -> Result<String, Problem> {
    let name = free(field, name, NAME_CHARS_MAX)?;
    if name == DEFAULT {
        return Ok(String::new());
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
        let detail = format!(
            "`{field}` is {}; only letters, digits, '.', '_' and '-' are possible",
            quoted(&name)
        );
        return Err(invalid("invalid_name", field, detail));
    }
    Ok(name)
}

/// The caller's own name for a job.
pub(super) fn key(name: Option<String>) -> Result<String, Problem> {
    let name = free("key", name, KEY_CHARS_MAX)?;
    if matches!(name.as_str(), "." | "..") {
        let detail = "`key` cannot be '.' or '..': it would be lost in a path";
        return Err(invalid("invalid_name", "key", detail));
    }
    if name.starts_with("job_") && name.parse::<JobId>().is_ok() {
        let detail =
            format!("`key` is {}, which looks like a job's id; choose another name", quoted(&name));
        return Err(invalid("key_like_id", "key", detail));
    }
    Ok(name)
}

/// Labels of a job, or those it asks of workers.
pub(super) fn labels(
    field: &str,
    labels: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, Problem> {
    if labels.len() > LABELS_MAX {
        return Err(too_many(field, labels.len(), LABELS_MAX));
    }
    for (name, value) in &labels {
        let wrong = |detail: &str| invalid("invalid_label", path(field, name), detail);
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
        if name.is_empty() || name.len() > LABEL_NAME_CHARS_MAX || !name.bytes().all(allowed) {
            return Err(wrong("a label's name has 1 to 63 letters, digits, '.', '_', '/' or '-'"));
        }
        if longer_than(value, LABEL_VALUE_CHARS_MAX) {
            return Err(too_long(path(field, name), LABEL_VALUE_CHARS_MAX, "characters"));
        }
        if value.chars().any(char::is_control) {
            return Err(wrong("a label's value cannot contain control characters"));
        }
    }
    Ok(labels)
}

/// Text for people, of any number of lines.
pub(super) fn description(text: Option<String>) -> Result<String, Problem> {
    let text = text.unwrap_or_default();
    if longer_than(&text, TEXT_CHARS_MAX) {
        return Err(too_long("description", TEXT_CHARS_MAX, "characters"));
    }
    if text.contains('\0') {
        let detail = "`description` contains a NUL character";
        return Err(invalid("invalid_text", "description", detail));
    }
    Ok(text)
}

/// Whether a text has more than so many characters. Most are seen to be short by their bytes.
pub(super) fn longer_than(text: &str, chars_max: usize) -> bool {
    text.len() > chars_max && text.chars().nth(chars_max).is_some()
}
