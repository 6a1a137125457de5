//! Tables: columns under headings, aligned, and narrowed to fit a terminal.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::Tone;

/// What stands between columns.
const GAP: &str = "  ";
/// A column of text is made no narrower than this.
const TEXT_MIN: usize = 8;
/// A column of names is made no narrower than this, which leaves ids whole.
const NAME_MIN: usize = 24;

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    heading: &'static str,
    right: bool,
    /// How narrow it may become; `None` if it is shown whole.
    least: Option<usize>,
}

impl Column {
    /// A column of words that is shown whole.
    pub fn new(heading: &'static str) -> Column {
        Column { heading, right: false, least: None }
    }

    /// A column of text that may be cut when space is short.
    pub fn text(heading: &'static str) -> Column {
        Column { heading, right: false, least: Some(TEXT_MIN) }
    }

    /// A column of names, which are cut only if cutting text was not enough.
    pub fn name(heading: &'static str) -> Column {
        Column { heading, right: false, least: Some(NAME_MIN) }
    }

    /// A column of numbers.
    pub fn number(heading: &'static str) -> Column {
        Column { heading, right: true, least: None }
    }
}

/// A table. Columns that are empty throughout are left out.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<(String, Tone)>>,
}

impl Table {
    /// An empty table.
    pub fn new(columns: &[Column]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl Into<Vec<(String, Tone)>>) {
        let cells = cells.into();
        debug_assert_eq!(cells.len(), self.columns.len());
        let clean = |text: String| -> String {
            // A cell is one line, and must not be able to steer the terminal.
            text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
        };
        self.rows.push(cells.into_iter().map(|(text, tone)| (clean(text), tone)).collect());
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text, no wider than `width` if that is possible.
    pub fn render(&self, width: Option<usize>, colour: bool) -> String {
        let shown: Vec<usize> = (0..self.columns.len())
            .filter(|at| self.rows.iter().any(|row| !row[*at].0.is_empty()))
            .collect();
        let mut widths: Vec<usize> = shown.iter().map(|at| self.natural_width(*at)).collect();
        if let Some(width) = width {
            self.narrow(&shown, &mut widths, width);
        }
        let mut text = String::new();
        let heading = shown.iter().map(|at| (self.columns[*at].heading, Tone::Strong));
        self.push_line(&mut text, &shown, &widths, heading, colour);
        for row in &self.rows {
            let cells = shown.iter().map(|at| (row[*at].0.as_str(), row[*at].1));
            self.push_line(&mut text, &shown, &widths, cells, colour);
        }
        text
    }

    fn natural_width(&self, at: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[at].0.width());
        cells.max().unwrap_or(0).max(self.columns[at].heading.width())
    }

    /// Takes from the widest column that can give until the line fits; from text before names.
    fn narrow(&self, shown: &[usize], widths: &mut [usize], width: usize) {
        let gaps = GAP.len() * shown.len().saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > width {
            let can_give = |least: usize| {
                let columns = shown.iter().map(|at| self.columns[*at].least).enumerate();
                let of_kind = columns.filter(move |(_, own)| *own == Some(least));
                of_kind
                    .map(|(at, _)| at)
                    .filter(|at| widths[*at] > least)
                    .max_by_key(|at| widths[*at])
            };
            let widest = can_give(TEXT_MIN).or_else(|| can_give(NAME_MIN));
            match widest {
                Some(at) => widths[at] -= 1,
                None => return,
            }
        }
    }

    fn push_line<'a>(
        &self,
        text: &mut String,
        shown: &[usize],
        widths: &[usize],
        cells: impl Iterator<Item = (&'a str, Tone)>,
        colour: bool,
    ) {
        let mut line = String::new();
        for (position, (cell, tone)) in cells.enumerate() {
            if position > 0 {
                line.push_str(GAP);
            }
            let cell = cut(cell, widths[position]);
            let pad = " ".repeat(widths[position].saturating_sub(cell.width()));
            let painted = tone.paint(&cell, colour);
            let right = self.columns[shown[position]].right;
            line.push_str(&if right {
                format!("{pad}{painted}")
            } else {
                format!("{painted}{pad}")
            });
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

/// A text that fits, with a mark where something was cut off.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new(&[
            Column::text("JOB"),
            Column::number("RUNS"),
            Column::new("EMPTY"),
            Column::text("SCHEDULE"),
        ]);
        let plain = |text: &str| (text.to_owned(), Tone::Plain);
        table.row([plain("nightly"), plain("5"), plain(""), plain("At 02:05 on Saturday")]);
        table.row([plain("日本"), plain("1234"), plain(""), plain("Every\n5 minutes")]);
        table
    }

    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        assert_eq!(
            sample().render(None, false),
            "JOB      RUNS  SCHEDULE\n\
             nightly     5  At 02:05 on Saturday\n\
             日本     1234  Every 5 minutes\n"
        );
    }

    #[test]
    fn a_narrow_terminal_cuts_text_and_not_numbers() {
        let text = sample().render(Some(28), false);
        assert_eq!(
            text,
            "JOB      RUNS  SCHEDULE\n\
             nightly     5  At 02:05 on …\n\
             日本     1234  Every 5 minu…\n"
        );
        assert!(text.lines().all(|line| line.width() <= 28));
        // Too narrow for anything: nothing panics, and the least is shown.
        assert!(sample().render(Some(3), false).contains("At 02:0…"));
    }

    #[test]
    fn names_are_cut_last() {
        let mut table = Table::new(&[Column::name("JOB"), Column::text("WHAT")]);
        let plain = |text: &str| (text.to_owned(), Tone::Plain);
        table.row([plain("job_6GXXDQ2NM0400"), plain("a command that is long")]);
        assert!(table.render(Some(27), false).contains("job_6GXXDQ2NM0400  a comma…\n"));
        table.row([plain(&"k".repeat(40)), plain("x")]);
        assert!(table.render(Some(40), false).lines().all(|line| line.width() <= 40));
    }

    #[test]
    fn colours_do_not_disturb_the_columns() {
        let mut table = Table::new(&[Column::new("A"), Column::new("B")]);
        table.row([("x".to_owned(), Tone::Good), ("y".to_owned(), Tone::Plain)]);
        let text = table.render(None, true);
        assert!(text.contains("\u{1b}[32mx\u{1b}[0m  y"), "{text:?}");
        let mut table = Table::new(&[Column::new("A")]);
        table.row([("\u{1b}[31mred".to_owned(), Tone::Plain)]);
        assert!(!table.render(None, false).contains('\u{1b}'), "cells cannot steer the terminal");
    }
}
