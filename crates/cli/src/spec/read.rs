//! Jobs in files: YAML or JSON, one or many.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use bellwether_api::JobSpec;
use serde::Deserialize;
use serde_json::Value;

use crate::exit::usage;

/// The content of a file; `-` is standard input.
pub fn read_text(path: &Path) -> Result<String> {
    if path.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(path)
        .map_err(|error| usage(format!("cannot read '{}': {error}", path.display())))
}

/// Reads jobs from a text: YAML documents, JSON documents one after the other (so also one per
/// line), each a job, a list of jobs, or an object whose only field is `jobs`.
///
/// # Errors
/// A sentence that says which job is wrong, and where the text is none of these.
pub fn read_specs(text: &str) -> Result<Vec<JobSpec>> {
    let mut values = Vec::new();
    for document in documents(text)? {
        flatten(document, &mut values);
    }
    let mut specs = Vec::with_capacity(values.len());
    for (index, value) in values.into_iter().enumerate() {
        let name = value.get("key").and_then(Value::as_str).map(|key| format!(" ('{key}')"));
        let spec = JobSpec::deserialize(value).map_err(|error| {
            usage(format!("job {}{}: {error}", index + 1, name.unwrap_or_default()))
        })?;
        specs.push(spec);
    }
    Ok(specs)
}

/// The documents in a text.
fn documents(text: &str) -> Result<Vec<Value>> {
    let json = text.trim_start().starts_with(['{', '[']);
    let mut json_error = None;
    if json {
        let stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        match stream.collect::<Result<Vec<_>, _>>() {
            Ok(documents) => return Ok(documents),
            // YAML may start with a brace, too.
            Err(error) => json_error = Some(error),
        }
    }
    let mut documents = Vec::new();
    for document in serde_yaml_ng::Deserializer::from_str(text) {
        let value = serde_yaml_ng::Value::deserialize(document).and_then(|mut value| {
            value.apply_merge()?;
            serde_yaml_ng::from_value::<Value>(value)
        });
        match (value, &json_error) {
            (Ok(value), _) => documents.push(value),
            (Err(_), Some(error)) => return Err(usage(format!("this is not JSON: {error}"))),
            (Err(error), None) => return Err(usage(format!("this is not YAML: {error}"))),
        }
    }
    Ok(documents)
}

fn flatten(document: Value, values: &mut Vec<Value>) {
    match document {
        Value::Null => {}
        Value::Array(list) => list.into_iter().for_each(|value| flatten(value, values)),
        Value::Object(mut object) if object.len() == 1 && object.contains_key("jobs") => {
            flatten(object.remove("jobs").unwrap_or_default(), values);
        }
        other => values.push(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<String> {
        read_specs(text).unwrap().into_iter().filter_map(|spec| spec.key).collect()
    }

    #[test]
    fn jobs_come_in_many_forms() {
        for text in [
            "key: a\n---\nkey: b\n",
            "- key: a\n- key: b\n",
            "jobs:\n  - key: a\n  - key: b\n",
            r#"[{"key": "a"}, {"key": "b"}]"#,
            r#"{"jobs": [{"key": "a"}, {"key": "b"}]}"#,
            "{\"key\": \"a\"}\n{\"key\": \"b\"}\n",
            "{key: a}\n---\n{key: b}\n",
            "# only a comment\n---\nkey: a\n---\n---\nkey: b\n",
        ] {
            assert_eq!(keys(text), ["a", "b"], "{text}");
        }
        assert!(keys("").is_empty());
    }

    #[test]
    fn anchors_save_repetition() {
        let text = "- &base\n  key: a\n  retries: 3\n- <<: *base\n  key: b\n";
        let specs = read_specs(text).unwrap();
        assert_eq!((specs[1].key.as_deref(), specs[1].retries), (Some("b"), Some(3)));
    }

    #[test]
    fn mistakes_name_the_job() {
        for (text, part) in [
            ("- key: a\n- key: b\n  comand: ls\n", "job 2 ('b'): unknown field `comand`"),
            ("{\"key\": \"a\"", "this is not JSON"),
            ("key: [a\n", "this is not YAML"),
            ("just text", "job 1"),
        ] {
            let error = read_specs(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
