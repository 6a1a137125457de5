//! Jobs in files: YAML or JSON, one or many.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use bellwether_api::JobSpec;
use bellwether_server::convert;
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

/// What to call a file in messages.
pub fn name_of(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard input".to_owned() } else { path.display().to_string() }
}

/// A job that was read.
#[derive(Clone, Debug)]
pub struct Described {
    /// Where it stands: file, document if there are several, number and key.
    pub place: String,
    /// The job.
    pub spec: JobSpec,
}

/// Reads jobs from a text: YAML documents, JSON documents one after the other (so also one per
/// line), each a job, a list of jobs, or an object whose only field is `jobs`. `name` is what the
/// text is called in messages.
///
/// # Errors
/// A sentence that says which job and field is wrong, and where the text is none of these.
pub fn read_specs(name: &str, text: &str) -> Result<Vec<Described>> {
    let documents = documents(text).map_err(|why| usage(format!("{name}: {why}")))?;
    let several = documents.len() > 1;
    let mut read = Vec::new();
    for (index, document) in documents.into_iter().enumerate() {
        let mut values = Vec::new();
        flatten(document, &mut values);
        let document = if several { format!(", document {}", index + 1) } else { String::new() };
        let alone = values.len() == 1 && several;
        for (index, value) in values.into_iter().enumerate() {
            let number = if alone { String::new() } else { format!(", job {}", index + 1) };
            let key = value.get("key").and_then(Value::as_str).map(|key| format!(" ('{key}')"));
            let place = format!("{name}{document}{number}{}", key.unwrap_or_default());
            let spec = spec(&value).map_err(|why| usage(format!("{place}: {why}")))?;
            read.push(Described { place, spec });
        }
    }
    Ok(read)
}

/// A job, or what is wrong with it in the server's own words.
fn spec(value: &Value) -> Result<JobSpec, String> {
    let text = value.to_string();
    convert::from_json(text.as_bytes()).map_err(|mut problem| {
        // It was read on one line of our own making: only the path of the field means something.
        if let Some(at) = problem.detail.rfind(" (line 1, column ") {
            problem.detail.truncate(at);
        }
        problem.to_string()
    })
}

/// The documents in a text, or why it is none.
fn documents(text: &str) -> Result<Vec<Value>, String> {
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
            (Err(_), Some(error)) => return Err(format!("this is not JSON: {error}")),
            (Err(error), None) => return Err(format!("this is not YAML: {error}")),
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
        read_specs("f", text).unwrap().into_iter().filter_map(|read| read.spec.key).collect()
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
        let second = &read_specs("f", text).unwrap()[1];
        assert_eq!((second.spec.key.as_deref(), second.spec.retries), (Some("b"), Some(3)));
        assert_eq!(second.place, "f, job 2 ('b')");
    }

    #[test]
    fn mistakes_name_file_job_and_field() {
        for (text, part) in [
            (
                "- key: a\n- key: b\n  comand: ls\n",
                "f.yaml, job 2 ('b'): comand: there is no field 'comand'; did you mean `command`? \
                 (unknown_field)",
            ),
            (
                "key: a\n---\nkey: b\nretry: {maxx: 3}\n",
                "f.yaml, document 2 ('b'): retry.maxx: there is no field 'maxx'; did you mean \
                 `max`? (unknown_field)",
            ),
            ("key: a\nretries: lots\n", "f.yaml, job 1 ('a'): retries: found a text, expected"),
            ("{\"key\": \"a\"", "f.yaml: this is not JSON"),
            ("key: [a\n", "f.yaml: this is not YAML"),
            ("just text", "job 1"),
        ] {
            let error = read_specs("f.yaml", text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
            assert!(!error.contains("line 1, column"), "{error}");
        }
    }
}
