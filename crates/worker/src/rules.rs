//! Success rules: what a job's owner counts as a success (R44).
//!
//! Rules are checked when a job is created ([`SuccessRules::validate`]) and compiled once per
//! attempt. What they see:
//! - `exit_codes` and `status_codes`: the exit code or the response status;
//! - the two output patterns: every line of a command's output as it passes, also the lines that
//!   are not kept, and at the end the kept output as a whole, so that a pattern may span lines. Of
//!   a line longer than [`LINE_BYTES_MAX`], stretches of that length are looked at one by one. For
//!   HTTP: the kept part of the body;
//! - `json_path`: the kept body of a response, or the kept standard output of a command.

use regex::bytes::{Regex, RegexBuilder};
use serde_json::Value;
use serde_json_path::JsonPath;

use crate::finished::{Failure, ReasonCode};
use crate::output::Stream;

/// The longest pattern or path.
const PATTERN_CHARS_MAX: usize = 4096;
/// The memory a compiled pattern may take.
const PATTERN_COMPILED_BYTES_MAX: usize = 1 << 20;
/// The most entries in a list of codes.
const CODES_MAX: usize = 256;
/// The longest line that is looked at in one piece.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// What counts as a success. The default is exit code 0, or a 2xx status.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SuccessRules {
    /// Exit codes that are a success; empty means 0 only.
    pub exit_codes: Vec<i32>,
    /// A regular expression the output or body must contain.
    pub output_matches: Option<String>,
    /// A regular expression the output or body must not contain.
    pub output_must_not_match: Option<String>,
    /// Statuses that are a success, written `200`, `2xx` or `200-299`; empty means `2xx`.
    pub status_codes: Vec<String>,
    /// What the JSON that was returned must say.
    pub json_path: Option<JsonRule>,
}

/// A condition on a JSON document.
#[derive(Clone, PartialEq, Debug)]
pub struct JsonRule {
    /// An RFC 9535 path, such as `$.status`. It must select something.
    pub path: String,
    /// If given, something the path selects must equal this.
    pub equals: Option<Value>,
}

impl SuccessRules {
    /// Checks the rules, for use when a job is created.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn validate(&self) -> Result<(), String> {
        self.compile().map(|_| ())
    }

    pub(crate) fn compile(&self) -> Result<Judge, String> {
        if self.exit_codes.len() > CODES_MAX || self.status_codes.len() > CODES_MAX {
            return Err(format!("a list of codes has more than {CODES_MAX} entries"));
        }
        if let Some(code) = self.exit_codes.iter().find(|code| !(0..=255).contains(*code)) {
            return Err(format!("{code} is not an exit code; they go from 0 to 255"));
        }
        let statuses: Result<Vec<_>, _> =
            self.status_codes.iter().map(|text| parse_statuses(text)).collect();
        let json = match &self.json_path {
            None => None,
            Some(rule) => Some((parse_path(&rule.path)?, rule.clone())),
        };
        Ok(Judge {
            exit_codes: self.exit_codes.clone(),
            statuses: statuses?,
            wanted: self.output_matches.as_deref().map(Pattern::new).transpose()?,
            forbidden: self.output_must_not_match.as_deref().map(Pattern::new).transpose()?,
            json,
            lines: [Vec::new(), Vec::new()],
        })
    }
}

fn parse_path(path: &str) -> Result<JsonPath, String> {
    if path.len() > PATTERN_CHARS_MAX {
        return Err(format!("json_path is longer than {PATTERN_CHARS_MAX} characters"));
    }
    JsonPath::parse(path).map_err(|error| format!("json_path is not a JSONPath: {error}"))
}

/// Reads `200`, `2xx` or `200-299` into an inclusive range.
fn parse_statuses(text: &str) -> Result<(u16, u16), String> {
    let bad = || format!("'{text}' is not a status; write it like 200, 2xx or 200-299");
    let number = |text: &str| {
        let digits = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u16>().ok().filter(|code| digits && (100..=599).contains(code)).ok_or_else(bad)
    };
    let text = text.trim();
    if let Some(class) = text.strip_suffix("xx").or_else(|| text.strip_suffix("XX")) {
        let first = number(&format!("{class}00"))?;
        return Ok((first, first + 99));
    }
    match text.split_once('-') {
        None => number(text).map(|code| (code, code)),
        Some((first, last)) => {
            let (first, last) = (number(first.trim())?, number(last.trim())?);
            if first <= last { Ok((first, last)) } else { Err(bad()) }
        }
    }
}

struct Pattern {
    regex: Regex,
    found: bool,
}

impl Pattern {
    fn new(text: &str) -> Result<Pattern, String> {
        if text.len() > PATTERN_CHARS_MAX {
            return Err(format!("a pattern is longer than {PATTERN_CHARS_MAX} characters"));
        }
        let regex = RegexBuilder::new(text)
            .size_limit(PATTERN_COMPILED_BYTES_MAX)
            .dfa_size_limit(PATTERN_COMPILED_BYTES_MAX)
            .build()
            .map_err(|error| format!("'{text}' is not a usable regular expression: {error}"))?;
        Ok(Pattern { regex, found: false })
    }

    fn look(&mut self, text: &[u8]) {
        self.found = self.found || self.regex.is_match(text);
    }
}

/// Compiled rules of one attempt, and what they have seen of its output.
pub(crate) struct Judge {
    exit_codes: Vec<i32>,
    statuses: Vec<(u16, u16)>,
    wanted: Option<Pattern>,
    forbidden: Option<Pattern>,
    json: Option<(JsonPath, JsonRule)>,
    /// The unfinished lines of standard output and standard error.
    lines: [Vec<u8>; 2],
}

impl Judge {
    /// Looks at a piece of output as it passes.
    pub(crate) fn observe(&mut self, stream: Stream, bytes: &[u8]) {
        if self.wanted.is_none() && self.forbidden.is_none() {
            return;
        }
        let slot = usize::from(stream == Stream::Stderr);
        let mut line = std::mem::take(&mut self.lines[slot]);
        let mut rest = bytes;
        while !rest.is_empty() {
            let newline = rest.iter().position(|byte| *byte == b'\n');
            let room = LINE_BYTES_MAX - line.len();
            let take = newline.unwrap_or(rest.len()).min(room);
            let complete = newline == Some(take);
            line.extend_from_slice(&rest[..take]);
            rest = &rest[take + usize::from(complete)..];
            if complete || line.len() == LINE_BYTES_MAX {
                self.look(&line);
                line.clear();
            }
        }
        self.lines[slot] = line;
    }

    fn look(&mut self, text: &[u8]) {
        for pattern in [&mut self.wanted, &mut self.forbidden].into_iter().flatten() {
            pattern.look(text);
        }
    }

    /// Whether an exit code is a success.
    pub(crate) fn exit_code(&self, code: i32) -> Result<(), Failure> {
        let good =
            if self.exit_codes.is_empty() { code == 0 } else { self.exit_codes.contains(&code) };
        if good {
            return Ok(());
        }
        let hint = match code {
            127 => " (a shell says so when it did not find a command)",
            126 => " (a shell says so when a command could not be executed)",
            129..=159 => " (a shell says so when a signal ended a command)",
            _ => "",
        };
        Err(Failure::new(ReasonCode::ExitCode, format!("the command exited with {code}{hint}")))
    }

    /// Whether a response status is a success.
    pub(crate) fn status(&self, status: u16) -> Result<(), Failure> {
        let good = if self.statuses.is_empty() {
            (200..300).contains(&status)
        } else {
            self.statuses.iter().any(|(first, last)| (*first..=*last).contains(&status))
        };
        if good {
            return Ok(());
        }
        Err(Failure::new(ReasonCode::HttpStatus, format!("the response's status is {status}")))
    }

    /// Applies the rules on content, after everything has passed. `stretches` is the kept output
    /// without gaps inside each; `document` what the JSON rule looks at, if it is complete.
    pub(crate) fn content(
        mut self,
        stretches: &[Vec<u8>],
        document: Option<&[u8]>,
    ) -> Result<(), Failure> {
        for line in std::mem::take(&mut self.lines) {
            if !line.is_empty() {
                self.look(&line);
            }
        }
        if self.wanted.is_some() || self.forbidden.is_some() {
            for stretch in stretches {
                self.look(stretch);
            }
        }
        if let Some(pattern) = self.forbidden.filter(|pattern| pattern.found) {
            let message = format!("the output contains '{}', which it must not", pattern.regex);
            return Err(Failure::new(ReasonCode::OutputForbidden, message));
        }
        if let Some(pattern) = self.wanted.filter(|pattern| !pattern.found) {
            let message = format!("the output does not contain '{}'", pattern.regex);
            return Err(Failure::new(ReasonCode::OutputMismatch, message));
        }
        match self.json {
            None => Ok(()),
            Some((path, rule)) => check_json(&path, &rule, document)
                .map_err(|message| Failure::new(ReasonCode::JsonMismatch, message)),
        }
    }
}

fn check_json(path: &JsonPath, rule: &JsonRule, document: Option<&[u8]>) -> Result<(), String> {
    let document = document.ok_or("the output is too long to be checked by json_path")?;
    let value: Value = serde_json::from_slice(document)
        .map_err(|_| "the output is not JSON, so json_path cannot hold".to_owned())?;
    let found = path.query(&value).all();
    match &rule.equals {
        _ if found.is_empty() => Err(format!("json_path {} selects nothing", rule.path)),
        Some(wanted) if !found.contains(&wanted) => {
            Err(format!("what json_path {} selects does not equal {wanted}", rule.path))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
