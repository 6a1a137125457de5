//! Writing entries as a crontab.

use std::collections::BTreeMap;

use super::{Entry, Format, percent, setting};
use crate::schedule::parse_expression;

/// How a comment starts that says what could not be written.
pub(super) const NOTE: &str = "not in this crontab:";

/// Writes entries as a crontab that [`super::parse()`] reads back. Settings are written where they
/// change. What a crontab cannot express is written as a comment that says so, with the line it
/// would have been.
#[must_use]
pub fn render(entries: &[Entry], format: Format) -> String {
    let mut writer = Writer { out: String::new(), set: BTreeMap::new() };
    for entry in entries {
        if let Err(reason) = writer.entry(entry, format) {
            let line = format!("{} {}", entry.schedule, entry.command);
            writer.note(&format!("{reason}: {line}"));
        }
    }
    writer.out
}

struct Writer {
    out: String,
    /// The settings in force.
    set: BTreeMap<String, String>,
}

impl Writer {
    fn entry(&mut self, entry: &Entry, format: Format) -> Result<(), String> {
        let schedule = schedule(&entry.schedule)?;
        let command = percent::encode(&entry.command, entry.stdin.as_deref())?;
        let user = match (format, entry.user.as_deref()) {
            (Format::User, _) => String::new(),
            (Format::System, None) => return Err("it has no user".to_owned()),
            (Format::System, Some(user)) if is_word(user) => format!("{user} "),
            (Format::System, Some(_)) => return Err("its user is not a single word".to_owned()),
        };
        let wanted = settings(entry);
        // All must be writable before any is written.
        let mut lines = Vec::new();
        for (name, value) in
            wanted.iter().filter(|(name, value)| self.set.get(*name) != Some(*value))
        {
            let line = setting::encode(name, value)
                .ok_or_else(|| format!("the value of {name} cannot be quoted"))?;
            lines.push(line);
        }
        self.set.extend(wanted.clone());
        for line in lines {
            self.line(&line);
        }
        // A crontab cannot take a setting back.
        let kept: Vec<String> =
            self.set.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect();
        if !kept.is_empty() {
            self.note(&format!("the line below had no {}", kept.join(", ")));
        }
        if let (Format::User, Some(user)) = (format, &entry.user) {
            self.note(&format!("the line below ran as {user}"));
        }
        if let Some(comment) = &entry.comment {
            let comment = comment.replace(['\n', '\r', '\0'], " ");
            self.line(&format!("# {}", comment.trim()));
        }
        self.line(&format!("{schedule} {user}{command}"));
        Ok(())
    }

    fn line(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    fn note(&mut self, text: &str) {
        self.line(&format!("# {NOTE} {}", text.replace(['\n', '\r', '\0'], " ")));
    }
}

/// All settings in force for an entry, by the names a crontab has for them.
fn settings(entry: &Entry) -> BTreeMap<String, String> {
    let special =
        [("CRON_TZ", &entry.timezone), ("SHELL", &entry.shell), ("MAILTO", &entry.mailto)];
    let mut settings = entry.env.clone();
    for (name, value) in special {
        settings.remove(name);
        if let Some(value) = value {
            settings.insert(name.to_owned(), value.clone());
        }
    }
    settings
}

fn schedule(text: &str) -> Result<String, String> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let preset = text.starts_with('@') && fields.len() == 1;
    if !preset && fields.len() != 5 {
        return Err("only five fields or a preset can be written".to_owned());
    }
    if text.contains(['H', 'h', '?', '#', 'L', 'W', 'l', 'w']) && !is_named(&fields) {
        return Err("H, ?, L, W and # are not known to cron".to_owned());
    }
    parse_expression(text).map_err(|error| error.message)?;
    Ok(fields.join(" "))
}

/// Whether the letters in question are part of names such as JUL, WED and @hourly.
fn is_named(fields: &[&str]) -> bool {
    fields.iter().all(|field| {
        let mut words = field.split(|c: char| !c.is_ascii_alphabetic());
        field.starts_with('@')
            || !field.contains(['#', '?']) && words.all(|word| word.is_empty() || word.len() == 3)
    })
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.contains(char::is_whitespace)
}
