//! Editing a job by a JSON merge patch (RFC 7396).
//!
//! A field that is given replaces the stored one, null removes it, objects are merged. What the
//! patch does not touch stays byte for byte as it was, so numbers in a payload keep their digits.
//!
//! Beyond the standard, a patch that chooses one of several alternatives lets go of the others,
//! where the standard's result could only be refused: a new `cron` takes the place of `every`,
//! `http` or `publish` that of `command` with everything that goes only with it, `schedule_time` that of the
//! schedule, `retries` that of `retry.max`.

use std::collections::BTreeMap;

use bellwether_api::{JobSpec, Problem, TextOr};
use bellwether_core::record::Definition;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::json::{from_merged, json_problem_without_place};
use super::schedule::FORMS;
use super::{policy, spec};

/// How deep null is looked for in a patch; nothing with fixed names is nested deeper.
const NULL_DEPTH_MAX: usize = 8;

/// The spec that a patch makes of a stored definition. Secrets it does not touch are masked;
/// [`super::unmask()`] puts them back. `enabled` is set only if the patch says so, so that an edit
/// does not undo a pause that came a moment before it.
///
/// # Errors
/// A problem that names the field: for a field nobody knows, also if it is null, and for a value
/// of the wrong kind.
pub fn patched(old: &Definition, enabled: bool, patch: Value) -> Result<JobSpec, Problem> {
    let Value::Object(mut patch) = patch else {
        let detail = "a patch is an object with the fields to change; null removes one";
        return Err(Problem::new(400, "invalid_type", detail));
    };
    check_nulls(&patch)?;
    let mut base = base(old, enabled, &patch);
    if let (Some(retries), false, Some(_)) =
        (patch.get("retries").cloned(), patch.contains_key("retry"), &base.retry)
    {
        patch.remove("retries");
        match retries {
            Value::Null => base.retry = None,
            max => drop(patch.insert("retry".to_owned(), serde_json::json!({ "max": max }))),
        }
    }
    let broken = |_| Problem::new(500, "bug", "the job could not be written as JSON");
    let base = to_raw_value(&base).map_err(broken)?;
    let merged = merge(Some(&base), Value::Object(patch)).map_err(broken)?;
    // Read as a value, a wrong text would be called by the type it was wanted for.
    from_merged(merged.get())
}

/// What the patch is applied to: policies written out, and without what the patch displaces.
fn base(old: &Definition, enabled: bool, patch: &Map<String, Value>) -> JobSpec {
    let mut base = spec(old, enabled);
    base.enabled = None;
    base.misfire = old.misfire.as_ref().map(|m| TextOr::Object(policy::misfire_back(m)));
    base.overlap = old.overlap.as_ref().map(|o| TextOr::Object(policy::overlap_back(o)));
    displace_schedule(&mut base, patch);
    let gives = |field: &str| patch.get(field).is_some_and(|value| !value.is_null());
    let http_or_publish = gives("http") || gives("publish");
    if http_or_publish || gives("job_type") {
        base.command = None;
        base.env = BTreeMap::new();
        (base.cwd, base.user, base.stdin, base.shell, base.grace) = (None, None, None, None, None);
        base.memory_limit = None;
    }
    if gives("command") || gives("job_type") || gives("publish") {
        base.http = None;
    }
    if gives("command") || http_or_publish {
        // What is left of a message's payload stays with the message.
        if base.job_type.take().is_some() || !gives("publish") {
            base.payload = None;
        }
    }
    displace_publish(&mut base, patch);
    if gives("retry") {
        base.retries = None;
    }
    base
}

/// A message that goes elsewhere leaves its broker, and one with a `body` the job's `payload`.
fn displace_publish(base: &mut JobSpec, patch: &Map<String, Value>) {
    let gives = |field: &str| patch.get(field).is_some_and(|value| !value.is_null());
    if gives("command") || gives("http") || gives("job_type") {
        if base.publish.take().is_some() {
            base.payload = None;
        }
        return;
    }
    let Some(publish) = &mut base.publish else {
        return;
    };
    if gives("payload") {
        publish.body = None;
    }
    let Some(Value::Object(new)) = patch.get("publish") else {
        return;
    };
    let gives = |field: &str| new.get(field).is_some_and(|value| !value.is_null());
    if gives("body") {
        base.payload = None;
    }
    for field in ["nats", "amqp", "kafka"] {
        if gives(field) {
            publish.nats = publish.nats.take().filter(|_| field == "nats");
            publish.amqp = publish.amqp.take().filter(|_| field == "amqp");
            publish.kafka = publish.kafka.take().filter(|_| field == "kafka");
        }
    }
}

fn displace_schedule(base: &mut JobSpec, patch: &Map<String, Value>) {
    let plain_at = base.schedule_time.take().is_some();
    match patch.get("schedule_time") {
        Some(Value::Null) if plain_at => base.schedule = None,
        Some(Value::Null) | None => {}
        Some(_) => base.schedule = None,
    }
    let (Some(TextOr::Object(old)), Some(Value::Object(new))) =
        (&mut base.schedule, patch.get("schedule"))
    else {
        return;
    };
    let gives = |form: &&str| new.get(*form).is_some_and(|value| !value.is_null());
    let Some(form) = FORMS.into_iter().find(gives) else {
        return;
    };
    if !matches!(form, "every" | "rate") {
        old.after = None;
    }
    (old.cron, old.every, old.rate) = (None, None, None);
    (old.at, old.delay) = (None, None);
    old.any = None;
}

/// Merges a patch into JSON text and leaves what it does not name as it is written.
fn merge(old: Option<&RawValue>, patch: Value) -> Result<Box<RawValue>, serde_json::Error> {
    let Value::Object(patch) = patch else {
        return to_raw_value(&patch);
    };
    // What is not an object is replaced by one.
    let mut fields: BTreeMap<String, Box<RawValue>> =
        old.and_then(|old| serde_json::from_str(old.get()).ok()).unwrap_or_default();
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(&name);
        } else {
            let merged = merge(fields.get(&name).map(AsRef::as_ref), value)?;
            fields.insert(name, merged);
        }
    }
    to_raw_value(&fields)
}

/// Removing a field that does not exist is a mistake too, and would go unnoticed.
fn check_nulls(patch: &Map<String, Value>) -> Result<(), Problem> {
    let mut path = Vec::new();
    check_nulls_in(patch, &mut path)
}

fn check_nulls_in<'a>(
    fields: &'a Map<String, Value>,
    path: &mut Vec<&'a str>,
) -> Result<(), Problem> {
    for (name, value) in fields {
        path.push(name);
        match value {
            Value::Null => check_null(path)?,
            Value::Object(inner) if path.len() < NULL_DEPTH_MAX => check_nulls_in(inner, path)?,
            _ => {}
        }
        path.pop();
    }
    Ok(())
}

/// Has the types say whether they know the field: nothing else keeps a list of names.
fn check_null(path: &[&str]) -> Result<(), Problem> {
    if matches!(path, ["payload" | "labels" | "env" | "notify" | "requires", ..]) {
        return Ok(());
    }
    let alone = path.iter().rev().fold(Value::Null, |inner, name| {
        Value::Object(Map::from_iter([((*name).to_owned(), inner)]))
    });
    let Err(error) = serde_json::from_str::<JobSpec>(&alone.to_string()) else {
        return Ok(());
    };
    let problem = json_problem_without_place(&error);
    if problem.code == "unknown_field" { Err(problem.at(path.join("."))) } else { Ok(()) }
}
