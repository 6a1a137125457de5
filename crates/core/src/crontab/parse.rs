//! Reading a crontab line by line, with the settings that hold from each line on.

use std::collections::BTreeMap;

use super::key::Keys;
use super::render::NOTE;
use super::{Crontab, ENV_MAX, Entry, Format, Problem, percent, setting};
use crate::schedule::{check_timezone, parse_expression};

/// Reads a crontab. Never fails: what is not understood is in `problems`, with its line.
///
/// ```
/// use bellwether_core::crontab::{Format, parse};
///
/// let crontab = parse("MAILTO=ana\n# Nightly report\n5 2 * * 6 make-report%full\n", Format::User);
/// let entry = &crontab.entries[0];
/// assert_eq!((entry.line, entry.schedule.as_str()), (3, "5 2 * * 6"));
/// assert_eq!((entry.command.as_str(), entry.stdin.as_deref()), ("make-report", Some("full\n")));
/// assert_eq!(entry.comment.as_deref(), Some("Nightly report"));
/// ```
#[must_use]
pub fn parse(text: &str, format: Format) -> Crontab {
    let mut reader = Reader { format, ..Reader::new() };
    for (index, line) in text.lines().enumerate() {
        reader.line(index + 1, line);
    }
    reader.crontab
}

/// What has been read so far.
struct Reader {
    format: Format,
    crontab: Crontab,
    env: BTreeMap<String, String>,
    shell: Option<String>,
    mailto: Option<String>,
    /// `CRON_TZ` and, if there is no such zone, why.
    timezone: Option<(String, Option<String>)>,
    comment: Option<String>,
    keys: Keys,
}

impl Reader {
    fn new() -> Reader {
        Reader {
            format: Format::User,
            crontab: Crontab::default(),
            env: BTreeMap::new(),
            shell: None,
            mailto: None,
            timezone: None,
            comment: None,
            keys: Keys::default(),
        }
    }

    fn line(&mut self, number: usize, raw: &str) {
        let line = raw.trim_start();
        if let Some(comment) = line.strip_prefix('#') {
            self.comment(comment);
            return;
        }
        let comment = self.comment.take();
        if line.is_empty() {
            return;
        }
        let outcome = match setting::decode(line) {
            Some((name, value)) => self.set(number, raw, name, value),
            None => self.entry(number, raw, line, comment),
        };
        if let Err(reason) = outcome {
            self.crontab.problems.push(Problem { line: number, text: raw.to_owned(), reason });
        }
    }

    /// Keeps a comment as the name of a line right below, unless it is a line commented out, the
    /// usual heading of the columns, or a note of our own.
    fn comment(&mut self, comment: &str) {
        let text = comment.trim_start_matches('#').trim();
        let heading = text.starts_with("m h ") || text.contains("dom mon dow");
        let was_entry = split_schedule(text).is_ok();
        if text.is_empty() || heading || was_entry || text.starts_with(NOTE) {
            self.comment = None;
        } else {
            self.comment = Some(text.to_owned());
        }
    }

    fn set(&mut self, line: usize, raw: &str, name: String, value: String) -> Result<(), String> {
        match name.as_str() {
            "SHELL" => self.shell = Some(value),
            "MAILTO" => self.mailto = Some(value),
            "CRON_TZ" => {
                let refused = check_timezone(&value).err().map(|error| error.message);
                self.timezone = Some((value, refused.clone()));
                return refused.map_or(Ok(()), Err);
            }
            _ => {
                if self.env.len() >= ENV_MAX && !self.env.contains_key(&name) {
                    return Err(format!("more than {ENV_MAX} variables are set"));
                }
                if name == "TZ" {
                    let reason = "TZ is passed to the commands but does not change when they run, \
                                  as in cron; use CRON_TZ for that";
                    self.remark(line, raw, reason);
                }
                self.env.insert(name, value);
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        line: usize,
        raw: &str,
        text: &str,
        comment: Option<String>,
    ) -> Result<(), String> {
        let (text, quiet) = match text.strip_prefix('-') {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (schedule, rest) = split_schedule(text)?;
        if let Some((zone, Some(_))) = &self.timezone {
            return Err(format!("CRON_TZ above is no time zone: '{zone}'"));
        }
        let (user, rest) = match self.format {
            Format::User => (None, rest),
            Format::System => {
                let (user, rest) = split_word(rest);
                (Some(user.to_owned()), rest)
            }
        };
        if rest.is_empty() {
            return Err(match self.format {
                Format::User => "there is no command after the schedule".to_owned(),
                Format::System => {
                    "there must be a user and a command after the schedule".to_owned()
                }
            });
        }
        let (command, stdin) = percent::decode(rest);
        if command.trim().is_empty() {
            return Err("there is no command before the %".to_owned());
        }
        if quiet {
            self.remark(line, raw, "the leading '-', which keeps cron from logging, is ignored");
        }
        let mut entry = Entry {
            line,
            key: String::new(),
            schedule,
            timezone: self.timezone.as_ref().map(|(zone, _)| zone.clone()),
            user,
            command,
            stdin,
            env: self.env.clone(),
            shell: self.shell.clone(),
            mailto: self.mailto.clone(),
            comment,
        };
        entry.key = self.keys.choose(&entry);
        self.crontab.entries.push(entry);
        Ok(())
    }

    fn remark(&mut self, line: usize, raw: &str, reason: &str) {
        let remark = Problem { line, text: raw.to_owned(), reason: reason.to_owned() };
        self.crontab.remarks.push(remark);
    }
}

/// The schedule at the start of a line, checked, and what follows it.
fn split_schedule(line: &str) -> Result<(String, &str), String> {
    let count = if line.starts_with('@') { 1 } else { 5 };
    let mut fields = Vec::with_capacity(count);
    let mut rest = line;
    for _ in 0..count {
        let (field, after) = split_word(rest);
        if field.is_empty() {
            return Err("a line needs five fields for the time, then a command".to_owned());
        }
        fields.push(field);
        rest = after;
    }
    let schedule = fields.join(" ");
    if schedule.starts_with('@') || schedule.contains(|c: char| c.is_ascii_digit() || c == '*') {
        parse_expression(&schedule).map_err(|error| error.message)?;
        Ok((schedule, rest))
    } else {
        Err("this is neither a setting NAME=value nor a schedule with a command".to_owned())
    }
}

/// The first word of a text and what follows it, without the blanks between.
fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim_start_matches([' ', '\t']);
    let end = text.find([' ', '\t']).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start_matches([' ', '\t']))
}
