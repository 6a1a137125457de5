//! Values of flags.

use std::io::Read;

use anyhow::{Context, Result};
use bellwether_api::Span;
use bellwether_core::time::{Time, parse_duration_ms};
use jiff::tz::TimeZone;

use crate::exit::usage;
use crate::show::{now, parse_time};

/// Reads a duration such as `90s`.
pub fn parse_span(text: &str) -> Result<Span, String> {
    parse_duration_ms(text).map(Span)
}

/// Reads a duration that is not nothing.
pub fn parse_lasting(text: &str) -> Result<Span, String> {
    match parse_span(text)? {
        Span(0) => Err("it must last longer than nothing".to_owned()),
        span => Ok(span),
    }
}

/// Reads a number of things of which there must be one at least.
pub fn parse_count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1".to_owned()),
        Ok(count) => Ok(count),
        Err(_) => Err("a whole number, at least 1".to_owned()),
    }
}

/// Reads `name=value`.
pub fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE".to_owned()),
    }
}

/// Reads `Name: value`, as a header is written.
pub fn parse_header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("write it as 'Name: value'".to_owned()),
    }
}

/// Reads a time as people type it, on the clock of this machine.
pub fn typed_time(text: &str) -> Result<Time> {
    parse_time(text, &TimeZone::system(), now()).map_err(usage)
}

/// A text as it is, or with `@` before it the content of a file; `@-` is standard input.
pub fn text_or_file(text: &str) -> Result<String> {
    match text.strip_prefix('@') {
        None => Ok(text.to_owned()),
        Some("-") => {
            let mut content = String::new();
            std::io::stdin().read_to_string(&mut content).context("cannot read standard input")?;
            Ok(content)
        }
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| usage(format!("cannot read the file '{path}': {error}"))),
    }
}
