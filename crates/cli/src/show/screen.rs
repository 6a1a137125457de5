//! Standard output: how wide it is, whether it takes colours, and which zone its reader lives in.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use bellwether_api::{JobSpec, TextOr};
use bellwether_core::time::Time;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{Table, when};

/// A colour with a meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tone {
    /// As it is.
    Plain,
    /// Went well.
    Good,
    /// Needs a look.
    Bad,
    /// Under way, or on hold.
    Busy,
    /// Less important.
    Faint,
    /// A heading.
    Strong,
}

impl Tone {
    fn code(self) -> Option<&'static str> {
        match self {
            Tone::Plain => None,
            Tone::Good => Some("32"),
            Tone::Bad => Some("31"),
            Tone::Busy => Some("33"),
            Tone::Faint => Some("2"),
            Tone::Strong => Some("1"),
        }
    }

    /// Text in this tone, if colours are wanted.
    pub fn paint(self, text: &str, colour: bool) -> String {
        match self.code().filter(|_| colour && !text.is_empty()) {
            Some(code) => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            None => text.to_owned(),
        }
    }
}

/// Standard output.
pub struct Screen {
    out: BufWriter<Stdout>,
    colour: bool,
    /// Columns of the terminal; `None` if it is none.
    width: Option<usize>,
    zone: TimeZone,
    /// Whether the last bytes ended within a line.
    mid_line: bool,
}

impl Screen {
    /// What is known of standard output.
    pub fn stdout() -> Screen {
        let terminal = io::stdout().is_terminal();
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        let width = terminal.then(terminal_size::terminal_size).flatten();
        Screen {
            out: BufWriter::new(io::stdout()),
            colour: terminal && !plain,
            width: width.map(|(width, _)| usize::from(width.0)),
            zone: TimeZone::system(),
            mid_line: false,
        }
    }

    /// Writes a line.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{text}")
    }

    /// Writes bytes as they are, at once.
    pub fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(last) = bytes.last() {
            self.mid_line = *last != b'\n';
        }
        self.out.write_all(bytes)?;
        self.out.flush()
    }

    /// Whether what was written byte by byte ended within a line. What is said next on standard
    /// error should then begin with a line's end; standard output gets the bytes and no more.
    pub fn is_mid_line(&self) -> bool {
        self.mid_line
    }

    /// Lets out what has been written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes a table.
    pub fn table(&mut self, table: &Table) -> io::Result<()> {
        self.out.write_all(table.render(self.width, self.colour).as_bytes())
    }

    /// Writes a name and what it stands for, as in the answers of `show`.
    pub fn field(&mut self, name: &str, value: &str) -> io::Result<()> {
        if value.is_empty() {
            return Ok(());
        }
        let name = Tone::Faint.paint(&format!("{name:<14}"), self.colour);
        // Further lines of a value stand under its first.
        let value = value.replace('\n', &format!("\n{:14} ", ""));
        writeln!(self.out, "{name} {value}")
    }

    /// Text in a tone, if this screen has colours.
    pub fn paint(&self, tone: Tone, text: &str) -> String {
        tone.paint(text, self.colour)
    }

    /// An instant as seen from now: `in 5m`, `3s ago`.
    pub fn when(&self, time: Time) -> String {
        when::relative_text(now(), time)
    }

    /// An instant on the clock of whoever reads this: `2026-12-31 23:59:59 +01:00`.
    pub fn clock(&self, time: Time) -> String {
        when::clock_text(&self.zone, time)
    }

    /// Both: `2026-12-31 23:59:59 +01:00 (in 5m)`.
    pub fn clock_and_when(&self, time: Time) -> String {
        format!("{} ({})", self.clock(time), self.when(time))
    }

    /// The same of a time of a job; with the time on the clock of the job's zone, if that shows
    /// another: `2026-12-31 23:59:59 +00:00 (in 5m; 00:59:59 in Europe/Berlin)`.
    pub fn clock_of_job(&self, time: Time, spec: &JobSpec) -> String {
        let there = job_zone(spec).and_then(|name| when::clock_elsewhere(&self.zone, &name, time));
        let there = there.map(|there| format!("; {there}")).unwrap_or_default();
        format!("{} ({}{there})", self.clock(time), self.when(time))
    }
}

/// The zone a job's schedule names.
fn job_zone(spec: &JobSpec) -> Option<String> {
    match &spec.schedule {
        Some(TextOr::Object(schedule)) => schedule.timezone.clone(),
        _ => None,
    }
}

/// The present.
pub fn now() -> Time {
    Time(Timestamp::now().as_millisecond())
}
