//! Why a schedule was refused, in words that say what to write instead.

/// A schedule that cannot be used. Always the caller's doing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ScheduleError {
    /// Stable, for programs: `invalid_cron`, `invalid_expression`, `invalid_rate`, `invalid_time`,
    /// `invalid_delay`, `unknown_timezone`, `never_fires`, `no_rules`, `too_many_rules`,
    /// `invalid_max_runs`, `invalid_jitter`, `unsupported_reboot` or `unsupported_rule`.
    pub code: &'static str,
    /// Where: `any[0]`, `except[2]`, `timezone`, `end`, `max_runs`, `jitter`; empty if the text
    /// itself is at fault or the schedule as a whole is.
    pub field: String,
    /// For people: what is wrong and what to do.
    pub message: String,
}

impl ScheduleError {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        ScheduleError { code, field: String::new(), message: message.into() }
    }

    pub(crate) fn at(mut self, field: impl Into<String>) -> Self {
        self.field = field.into();
        self
    }
}

/// User text for an error message: shortened, and without control characters.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN_MAX: usize = 60;
    let mut shown: String =
        text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(SHOWN_MAX).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    format!("'{shown}'")
}
