//! What differs between a job as it is and as it should be.
//!
//! The same job can be written in several ways (`retries: 3`, `retry: {max: 3}`). Both sides are
//! brought into the server's canonical form before they are compared, by the same code the server
//! uses, so that applying a file twice changes nothing.

use std::fmt;

use anyhow::Result;
use bellwether_api::{Job, JobSpec, MASK};
use bellwether_core::time::Time;
use bellwether_server::convert;
use serde_json::{Map, Value};

use crate::exit::usage;

/// How a wanted job stands to what is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Difference {
    /// There is no such job.
    New,
    /// These fields differ.
    Changed(Vec<Change>),
    /// Nothing differs that can be seen; secrets cannot, so it may have to be sent all the same.
    SameButSecrets,
    /// Nothing differs.
    Same,
}

/// A field that differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// Its path, such as `schedule.cron`.
    pub field: String,
    /// What is there.
    pub from: Option<Value>,
    /// What is wanted.
    pub to: Option<Value>,
}

/// How much of a value is shown.
const SHOWN_CHARS_MAX: usize = 60;

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<Value>| {
            let text = match value {
                None => return "not set".to_owned(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            };
            match text.char_indices().nth(SHOWN_CHARS_MAX) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            }
        };
        write!(f, "{}: {} → {}", self.field, shown(&self.from), shown(&self.to))
    }
}

/// A spec in canonical form, with its secrets masked.
///
/// # Errors
/// What the server would say against it.
pub fn canonical(spec: &JobSpec, now: Time) -> Result<JobSpec> {
    let checked =
        convert::definition(spec.clone(), now).map_err(|problem| usage(problem.to_string()))?;
    let mut canonical = convert::spec(&checked.definition, checked.enabled.unwrap_or(true));
    // Whether it runs is compared only if the wanted job says so: pausing is not undone by a file.
    canonical.enabled = checked.enabled;
    Ok(canonical)
}

/// Compares a wanted job in canonical form with the one that is there.
pub fn difference(wanted: &JobSpec, there: Option<&Job>) -> Result<Difference> {
    let Some(there) = there else { return Ok(Difference::New) };
    let mut old = there.spec.clone();
    if wanted.enabled.is_none() {
        old.enabled = None;
    }
    let (old, new) = (object(&old)?, object(wanted)?);
    let mut changed = Vec::new();
    changes("", &old, &new, &mut changed);
    if !changed.is_empty() {
        return Ok(Difference::Changed(changed));
    }
    let secrets = Value::Object(new).to_string().contains(MASK);
    Ok(if secrets { Difference::SameButSecrets } else { Difference::Same })
}

/// What differs between two objects, by the path of each field, in their order.
fn changes(path: &str, old: &Map<String, Value>, new: &Map<String, Value>, into: &mut Vec<Change>) {
    let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let field = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match (old.get(name), new.get(name)) {
            (from, to) if from == to => {}
            (Some(Value::Object(from)), Some(Value::Object(to))) => {
                changes(&field, from, to, into);
            }
            (from, to) => into.push(Change { field, from: from.cloned(), to: to.cloned() }),
        }
    }
}

fn object(spec: &JobSpec) -> Result<Map<String, Value>> {
    match serde_json::to_value(spec)? {
        Value::Object(object) => Ok(object),
        _ => Ok(Map::new()),
    }
}

/// The JSON merge patch (RFC 7396) that turns one value into another.
pub fn merge_patch(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return new.clone() };
    let mut patch = Map::new();
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in new {
        match old.get(name) {
            Some(before) if before == value => {}
            Some(before) => {
                patch.insert(name.clone(), merge_patch(before, value));
            }
            None => {
                patch.insert(name.clone(), value.clone());
            }
        }
    }
    Value::Object(patch)
}

/// Puts a JSON merge patch into a value.
pub fn apply_patch(value: &mut Value, patch: &Map<String, Value>) {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(fields) = value else { return };
    for (name, change) in patch {
        match change {
            Value::Null => {
                fields.remove(name);
            }
            Value::Object(inner) => {
                apply_patch(fields.entry(name.clone()).or_insert(Value::Null), inner);
            }
            other => {
                fields.insert(name.clone(), other.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Time = Time(1_800_000_000_000);

    fn job(spec: Value) -> Job {
        let mut value = json!({
            "id": "job_06D1R3M0G0400", "status": "scheduled", "shard": 3, "schedule_text": "",
            "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-01T00:00:00.000Z",
            "revision": 1, "runs": 0,
        });
        let stored = canonical(&serde_json::from_value(spec).unwrap(), NOW).unwrap();
        let Value::Object(fields) = serde_json::to_value(stored).unwrap() else { unreachable!() };
        value.as_object_mut().unwrap().extend(fields);
        value["enabled"] = json!(true);
        serde_json::from_value(value).unwrap()
    }

    fn compared(wanted: Value, there: Value) -> Difference {
        let wanted = canonical(&serde_json::from_value(wanted).unwrap(), NOW).unwrap();
        difference(&wanted, Some(&job(there))).unwrap()
    }

    #[track_caller]
    fn check_changes(wanted: Value, there: Value, expected: &[&str]) {
        let Difference::Changed(changes) = compared(wanted, there) else {
            panic!("nothing differs");
        };
        let changes: Vec<String> = changes.iter().map(Change::to_string).collect();
        assert_eq!(changes, expected);
    }

    #[test]
    fn the_same_job_written_otherwise_is_the_same() {
        let difference = compared(
            json!({"key": "a", "schedule": "5 2 * * 6", "command": "x", "retries": 3, "overlap": "skip"}),
            json!({"key": "a", "schedule": {"cron": "5 2 * * 6"}, "command": "x",
                   "retry": {"max": 3}, "overlap": "skip", "namespace": "default"}),
        );
        assert_eq!(difference, Difference::Same);
        let difference = compared(
            json!({"key": "a", "schedule": "@daily", "command": "x", "target_workers": "any",
                   "resources": {"cpu": "1.50", "memory": 1_048_576}}),
            json!({"key": "a", "schedule": "@daily", "command": "x",
                   "resources": {"cpu": 1.5, "memory": "1024K"}}),
        );
        assert_eq!(difference, Difference::Same);
    }

    #[test]
    fn what_differs_is_named_with_its_values() {
        check_changes(
            json!({"key": "a", "schedule": "5 2 * * 6", "command": "y", "retries": 2}),
            json!({"key": "a", "schedule": "5 3 * * 6", "command": "x", "timeout": "1m"}),
            &[
                "command: x → y",
                "retries: not set → 2",
                "schedule.cron: 5 3 * * 6 → 5 2 * * 6",
                "timeout: 1m → not set",
            ],
        );
        check_changes(
            json!({"key": "a", "schedule": "@daily", "command": "y", "enabled": false}),
            json!({"key": "a", "schedule": "@daily", "command": "y"}),
            &["enabled: true → false"],
        );
    }

    #[test]
    fn secrets_cannot_be_compared() {
        let spec = json!({"key": "a", "schedule": "@daily",
            "http": {"url": "http://h", "auth": {"bearer": "s3cret"}}});
        assert_eq!(compared(spec.clone(), spec), Difference::SameButSecrets);
    }

    #[test]
    fn a_patch_sets_removes_and_goes_deep() {
        let old = json!({"a": 1, "b": {"c": 2, "d": 3}, "e": [1, 2], "f": 4});
        let new = json!({"a": 1, "b": {"c": 5}, "e": [1], "g": 6});
        let patch = merge_patch(&old, &new);
        assert_eq!(patch, json!({"b": {"c": 5, "d": null}, "e": [1], "f": null, "g": 6}));
        assert_eq!(merge_patch(&old, &old), json!({}));
        let mut patched = old.clone();
        apply_patch(&mut patched, patch.as_object().unwrap());
        assert_eq!(patched, new);
    }
}
