//! Standard output: how wide it is, whether it takes colours, and which zone its reader lives in.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

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
        }
    }

    /// Writes a line.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{text}")
    }

    /// Writes bytes as they are, at once.
    pub fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.out.flush()
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
}

/// The present.
pub fn now() -> Time {
    Time(Timestamp::now().as_millisecond())
}
