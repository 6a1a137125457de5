//! The comment above an exported line that keeps what cron has no place for.
//!
//! ```text
//! # bellwether: {"key":"nightly","retries":3}
//! 5 2 * * 6 make-report
//! ```
//!
//! It is the JSON merge patch (RFC 7396) from the job that the line alone would become to the job
//! that it is, and so the key at least. Cron passes over it. Reading line and mark gives the same
//! job; what was edited in the line counts, and the mark adds the rest.

use anyhow::{Context as _, Result};
use bellwether_api::{Job, JobSpec};
use bellwether_core::crontab::{Entry, Format, parse};
use serde_json::{Map, Value};

use super::shell;
use crate::exit::usage;
use crate::spec::{apply_patch, merge_patch};

/// How the comment starts.
const MARK: &str = "bellwether:";
/// The id of a job without a key.
const ID: &str = "id";

/// What a mark says.
#[derive(Clone, PartialEq, Debug)]
pub struct Mark(Map<String, Value>);

impl Mark {
    /// What makes the job of the line it is written as; both in the server's form.
    pub fn new(job: &Job, line: &JobSpec) -> Result<Mark> {
        let mut wanted = serde_json::to_value(&job.spec)?;
        if let Value::Object(fields) = &mut wanted {
            fields.remove("enabled");
        }
        let mut patch = match merge_patch(&serde_json::to_value(line)?, &wanted) {
            Value::Object(patch) => patch,
            _ => Map::new(),
        };
        // The key that a line would get depends on its neighbours, so it is always said.
        match &job.spec.key {
            Some(key) => patch.insert("key".to_owned(), Value::String(key.clone())),
            None => {
                patch.remove("key");
                patch.insert(ID.to_owned(), Value::String(job.info.id.clone()))
            }
        };
        Ok(Mark(patch))
    }

    /// As a line of a crontab.
    pub fn comment(&self) -> String {
        format!("# {MARK} {}", Value::Object(self.0.clone()))
    }

    /// What it says that means nothing to cron, in words.
    pub fn beyond_cron(&self) -> Vec<String> {
        // What the line or another comment says as well.
        const SAID: [&str; 8] =
            [ID, "key", "namespace", "command", "env", "cwd", "user", "description"];
        let beyond = self.0.iter().filter(|(name, _)| !SAID.contains(&name.as_str()));
        beyond
            .map(|(name, value)| match value {
                Value::String(text) => format!("{name} {text}"),
                other => format!("{name} {other}"),
            })
            .collect()
    }

    /// The id of the job, if it has no key.
    pub fn id(&self) -> Option<&str> {
        self.0.get(ID).and_then(Value::as_str)
    }

    /// The mark above a line, if there is one.
    ///
    /// # Errors
    /// If it is not understood. Without it the line would become another job.
    pub fn above(lines: &[&str], entry: &Entry, format: Format) -> Result<Option<Mark>, String> {
        let above = lines.get(..entry.line.saturating_sub(1)).unwrap_or_default();
        for line in above.iter().rev() {
            let Some(comment) = line.trim_start().strip_prefix('#') else { return Ok(None) };
            if let Some(mark) = marked(comment) {
                let fields = serde_json::from_str(mark).map_err(|error| {
                    format!("the comment '# {MARK} …' above it is not understood: {error}")
                })?;
                return Ok(Some(Mark(fields)));
            }
            // A line that was commented out keeps its mark to itself.
            if !parse(comment, format).entries.is_empty() {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// The job that a line and its mark stand for; `line` is what it is without. Only a mark that
    /// names a namespace says one.
    ///
    /// # Errors
    /// If the mark does not fit a job.
    pub fn apply(&self, line: &JobSpec, entry: &Entry) -> Result<JobSpec> {
        let mut patch = self.0.clone();
        patch.remove(ID);
        let whole = patched(line, &patch)?;
        if shell::line(&whole, &entry.env).is_ok_and(|command| command == entry.command) {
            return Ok(whole);
        }
        // The command was edited since, and says directory and variables itself.
        for name in ["command", "env", "cwd"] {
            patch.remove(name);
        }
        patched(line, &patch)
    }
}

/// The comment directly above a line that describes it; a mark does not.
pub fn description(entry: &Entry) -> Option<String> {
    entry.comment.clone().filter(|comment| !is_mark(comment))
}

/// Whether a comment would be taken for a mark.
pub fn is_mark(comment: &str) -> bool {
    marked(comment).is_some()
}

fn marked(comment: &str) -> Option<&str> {
    comment.trim_start_matches('#').trim().strip_prefix(MARK)
}

fn patched(line: &JobSpec, patch: &Map<String, Value>) -> Result<JobSpec> {
    let mut value = serde_json::to_value(JobSpec { namespace: None, ..line.clone() })?;
    apply_patch(&mut value, patch);
    serde_json::from_value(value)
        .map_err(|error| usage(error.to_string()))
        .with_context(|| format!("the comment '# {MARK} …' above it does not fit a job"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark_of(text: &str) -> Result<Option<Mark>, String> {
        let crontab = parse(text, Format::User);
        let lines: Vec<&str> = text.lines().collect();
        Mark::above(&lines, &crontab.entries[0], Format::User)
    }

    #[test]
    fn a_mark_belongs_to_the_line_below_it() {
        let mark = "# bellwether: {\"key\":\"k\"}\n";
        for text in [
            format!("{mark}@daily a\n"),
            format!("{mark}# words\n@daily a\n"),
            format!("# words\n{mark}# 5 apples\n@daily a\n"),
        ] {
            let mark = mark_of(&text).unwrap().unwrap();
            assert_eq!(mark.comment(), "# bellwether: {\"key\":\"k\"}", "{text}");
        }
        for text in [
            "@daily a\n".to_owned(),
            format!("{mark}\n@daily a\n"),
            format!("{mark}A=b\n@daily a\n"),
            format!("{mark}#@hourly b\n@daily a\n"),
        ] {
            assert_eq!(mark_of(&text).unwrap(), None, "{text}");
        }
        assert!(mark_of("# bellwether: key=k\n@daily a\n").unwrap_err().contains("not understood"));
    }

    #[test]
    fn a_mark_is_no_description() {
        let text = "# bellwether: {\"key\":\"k\"}\n@daily a\n# words\n@daily b\n";
        let entries = parse(text, Format::User).entries;
        assert_eq!(description(&entries[0]), None);
        assert_eq!(description(&entries[1]).as_deref(), Some("words"));
    }
}
