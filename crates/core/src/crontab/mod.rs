//! Crontabs: reading them without losing a line, and writing them back.
//!
//! [`parse()`] follows Debian's cron: the user and the system format, environment lines and their
//! quoting, `%` for standard input, presets and names. [`render()`] writes entries as a crontab and
//! says in comments what a crontab cannot express. Reading back what was written gives the same
//! entries.
//!
//! Every line of the text becomes an entry, a setting, a comment or a [`Problem`]: nothing is
//! dropped in silence. What this deliberately does not do: decide what becomes of an entry (its
//! queue, its policies), expand variables, or read files.
//!
//! Start reading at `parse.rs`; `percent.rs` has the `%` rules, `setting.rs` the quoting.

mod key;
mod parse;
mod percent;
mod render;
mod setting;

use std::collections::BTreeMap;

pub use parse::parse;
pub use render::render;

/// The most environment variables a crontab may set.
pub const ENV_MAX: usize = 256;

/// Which columns a line has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// `crontab -l`: schedule, command.
    User,
    /// `/etc/crontab` and `/etc/cron.d`: schedule, user, command.
    System,
}

/// What a crontab says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Crontab {
    /// The lines that run something, in order.
    pub entries: Vec<Entry>,
    /// The lines that could not be understood or cannot be imported.
    pub problems: Vec<Problem>,
    /// The lines that were understood but will not behave quite as they did.
    pub remarks: Vec<Problem>,
}

/// One line that runs something, with the settings in force at that line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Entry {
    /// The line's number, from 1.
    pub line: usize,
    /// A name for the job that stays the same when the line moves or its times change; unique in
    /// the file.
    pub key: String,
    /// Five fields apart by single spaces, or a preset.
    pub schedule: String,
    /// From `CRON_TZ`; without it the machine's zone counts, which the caller knows.
    pub timezone: Option<String>,
    /// The user, in the system format.
    pub user: Option<String>,
    /// The command for the shell.
    pub command: String,
    /// What the command reads, from after the first `%`.
    pub stdin: Option<String>,
    /// Variables for the command, apart from those below.
    pub env: BTreeMap<String, String>,
    /// From `SHELL`.
    pub shell: Option<String>,
    /// From `MAILTO`; empty means that nobody gets mail.
    pub mailto: Option<String>,
    /// The comment directly above the line.
    pub comment: Option<String>,
}

/// A line and what is the matter with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The line's number, from 1.
    pub line: usize,
    /// The line as it stands.
    pub text: String,
    /// What is the matter, and what to do.
    pub reason: String,
}
