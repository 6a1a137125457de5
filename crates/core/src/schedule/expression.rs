//! Schedules as people type them on one line.

use super::cron::Pattern;
use super::error::{ScheduleError, quoted};
use super::spec::{After, DayMatch, Rule};
use super::{EXPRESSION_LEN_MAX, PERIOD_MIN_MS};
use crate::time::{Time, parse_duration_ms, too_late};

/// Reads one line: cron in five, six or seven fields, `@daily`, `@every 5m`, `every 5m`,
/// `every 5m after finish`, `rate(5 minutes)`, `at 2026-12-31T23:59:59Z`, a bare RFC 3339 time,
/// `in 30m` or `delay 30m`.
///
/// ```
/// use bellwether_core::schedule::{After, Rule, parse_expression};
///
/// let rule = parse_expression("rate(5 minutes)").unwrap();
/// assert_eq!(rule, Rule::Every { period_ms: 300_000, after: After::Start });
/// ```
///
/// # Errors
/// A [`ScheduleError`] whose message says what may be written.
pub fn parse_expression(text: &str) -> Result<Rule, ScheduleError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(not_understood(text));
    }
    if text.len() > EXPRESSION_LEN_MAX {
        let message = format!("the schedule is longer than {EXPRESSION_LEN_MAX} characters");
        return Err(ScheduleError::new("invalid_expression", message));
    }
    if let Some(every) = go_every(text) {
        return every;
    }
    let (word, rest) = first_word(text);
    match word.as_str() {
        "every" => return every(rest),
        "at" => return at(rest),
        "in" | "delay" => return delay(rest),
        _ => {}
    }
    if word.starts_with("rate(") || word == "rate" {
        return every(text);
    }
    if word.starts_with("cron(") {
        let message = "write the cron fields without cron(…); with six fields the seconds come \
                       first here, not the year last";
        return Err(ScheduleError::new("invalid_cron", message));
    }
    // The date's fourth digit and dash tell a bare time from a cron field such as 10-12.
    if text.as_bytes().get(4) == Some(&b'-') && text.bytes().take(4).all(|b| b.is_ascii_digit()) {
        return at(text);
    }
    if word.starts_with(|c: char| c.is_alphabetic()) && !might_be_cron(text) {
        return Err(not_understood(text));
    }
    // Parsed for its errors; what `H` stands for is decided later, by the job's identity.
    Pattern::compile(text, "", DayMatch::Either)?;
    Ok(Rule::Cron(text.to_owned()))
}

/// Reads a period: `5m`, `5 minutes`, `hour` or `rate(5 minutes)`.
///
/// # Errors
/// `invalid_rate`, with a message that says what may be written.
pub fn parse_period_ms(text: &str) -> Result<u64, ScheduleError> {
    let invalid = |message: String| ScheduleError::new("invalid_rate", message);
    let text = text.trim();
    let lower = text.to_lowercase();
    let inner = match lower.strip_prefix("rate") {
        Some(rest) => {
            rest.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).ok_or_else(
                || invalid(format!("{} is not closed; write rate(5 minutes)", quoted(text))),
            )?
        }
        None => &lower,
    }
    .trim();
    let period_ms = match inner {
        "second" | "minute" | "hour" | "day" | "week" => parse_duration_ms(&format!("1 {inner}")),
        _ => parse_duration_ms(inner),
    }
    .map_err(|_| {
        invalid(format!(
            "{} is not a period; write it like 30s, 5m, 1h30m or rate(5 minutes), at most ten years",
            quoted(inner)
        ))
    })?;
    if period_ms < PERIOD_MIN_MS {
        return Err(invalid(
            "a period shorter than one second is not possible; use 1s or more".into(),
        ));
    }
    Ok(period_ms)
}

/// `@every 5m`, which Go's cron library made popular.
pub(super) fn go_every(text: &str) -> Option<Result<Rule, ScheduleError>> {
    let (word, rest) = first_word(text.trim());
    (word == "@every").then(|| every(rest))
}

fn first_word(text: &str) -> (String, &str) {
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (text[..end].to_lowercase(), text[end..].trim_start())
}

fn every(text: &str) -> Result<Rule, ScheduleError> {
    let lower = text.to_lowercase();
    let (period, after) = match lower.trim().strip_suffix("after finish") {
        Some(period) => (period, After::Finish),
        None => (lower.as_str(), After::Start),
    };
    Ok(Rule::Every { period_ms: parse_period_ms(period)?, after })
}

fn at(text: &str) -> Result<Rule, ScheduleError> {
    Time::parse(text).map(Rule::At).map_err(|_| {
        let message = too_late(text).unwrap_or_else(|| {
            format!(
                "{} is not a time; write it like 2026-12-31T23:59:59Z, with Z or an offset",
                quoted(text)
            )
        });
        ScheduleError::new("invalid_time", message)
    })
}

fn delay(text: &str) -> Result<Rule, ScheduleError> {
    parse_duration_ms(text).map(|ms| Rule::Delay { ms }).map_err(|_| {
        let message = format!(
            "{} is not a delay; write it like 90s, 30m or 1h30m, at most ten years",
            quoted(text)
        );
        ScheduleError::new("invalid_delay", message)
    })
}

/// Whether a line that starts with a letter could be meant as cron: `H H * * *`.
fn might_be_cron(text: &str) -> bool {
    text.split_whitespace().count() >= 5 && (text.contains('*') || text.starts_with(['H', 'h']))
}

fn not_understood(text: &str) -> ScheduleError {
    ScheduleError::new(
        "invalid_expression",
        format!(
            "{} is not a schedule; write cron such as '5 2 * * 6', a preset such as @daily, \
             'every 5m', 'at 2026-12-31T23:59:59Z' or 'in 30m'",
            quoted(text)
        ),
    )
}
