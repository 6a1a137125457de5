//! Reads the fixture tables in `tests/fixtures/schedule`.
//!
//! A line is `expression | options | …`, columns apart by `|`, empty lines and `#` comments skipped.
//! Options, apart by spaces: `zone=Europe/Berlin days=both gap=skip fold=both start=… end=…
//! anchor=… id=… max_runs=3 jitter=5m any=[0 9 * * *] except=[* 2 * * *]`, the last two repeatable.

use bellwether_core::schedule::{
    DayMatch, Fold, Gap, Schedule, ScheduleError, ScheduleSpec, parse_expression,
};
use bellwether_core::time::{Time, parse_duration_ms};

/// One line of a table.
pub struct Line {
    pub number: usize,
    pub columns: Vec<String>,
}

/// The lines of a table, each with exactly `columns` columns.
pub fn lines(text: &str, columns: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    for (index, text) in text.lines().enumerate() {
        if text.trim().is_empty() || text.starts_with('#') {
            continue;
        }
        let found: Vec<String> = text.split('|').map(|part| part.trim().to_owned()).collect();
        assert_eq!(found.len(), columns, "line {}: {text}", index + 1);
        lines.push(Line { number: index + 1, columns: found });
    }
    lines
}

/// An instant, with or without seconds.
pub fn time(text: &str) -> Time {
    Time::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

/// What a schedule is compiled from.
pub struct Input {
    pub spec: ScheduleSpec,
    pub identity: String,
    pub anchor: Time,
}

impl Input {
    pub fn compile(&self) -> Result<Schedule, ScheduleError> {
        Schedule::compile(&self.spec, &self.identity, self.anchor)
    }
}

/// Compiles an expression with options.
pub fn compile(expression: &str, options: &str) -> Result<Schedule, ScheduleError> {
    input(expression, options)?.compile()
}

/// Reads an expression with options. Schedules are created at the start of 2020 unless `anchor`
/// says otherwise.
pub fn input(expression: &str, options: &str) -> Result<Input, ScheduleError> {
    let mut spec = ScheduleSpec::default();
    if !expression.is_empty() {
        spec.any.push(parse_expression(expression)?);
    }
    let (mut identity, mut anchor) = ("default/job".to_owned(), time("2020-01-01T00:00Z"));
    for (name, value) in split_options(options) {
        match name.as_str() {
            "zone" => spec.timezone = value,
            "days" => spec.day_match = read(&value, &[("both", DayMatch::Both)]),
            "gap" => {
                spec.dst.gap =
                    Some(read(&value, &[("skip", Gap::Skip), ("run_after", Gap::RunAfter)]));
            }
            "fold" => {
                let known =
                    [("first", Fold::First), ("second", Fold::Second), ("both", Fold::Both)];
                spec.dst.fold = Some(read(&value, &known));
            }
            "start" => spec.start = Some(time(&value)),
            "end" => spec.end = Some(time(&value)),
            "anchor" => anchor = time(&value),
            "id" => identity = value,
            "max_runs" => spec.max_runs = Some(value.parse().unwrap()),
            "jitter" => spec.jitter_ms = parse_duration_ms(&value).unwrap(),
            "any" => spec.any.push(parse_expression(&value)?),
            "except" => spec.except.push(parse_expression(&value)?),
            _ => panic!("unknown option {name}"),
        }
    }
    Ok(Input { spec, identity, anchor })
}

fn read<T: Copy>(value: &str, known: &[(&str, T)]) -> T {
    let found = known.iter().find(|(name, _)| *name == value);
    found.unwrap_or_else(|| panic!("unknown value {value}")).1
}

fn split_options(text: &str) -> Vec<(String, String)> {
    let mut options = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=').unwrap();
        let (value, after) = match after.strip_prefix('[') {
            Some(inner) => inner.split_once(']').unwrap(),
            None => after.split_once(' ').unwrap_or((after, "")),
        };
        options.push((name.to_owned(), value.to_owned()));
        rest = after.trim_start();
    }
    options
}
