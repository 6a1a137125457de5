//! Structured logs on standard error.

use std::io::IsTerminal;

use anyhow::Result;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt, registry};

use crate::exit::usage;
use crate::settings::LogFormat;

/// The levels there are.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Libraries that write down at the finest level what they send, secrets included.
const INDISCREET: [&str; 3] = ["async_nats", "lapin", "rskafka"];

/// Checks what is to be logged: a level, or a filter such as `warn,bellwether_server=debug`.
///
/// # Errors
/// If it is neither. A word alone would be taken for the name of a module, and log nothing.
pub fn check(level: &str) -> Result<()> {
    let bad = |why: &str| {
        usage(format!(
            "'{level}' is not a log level{why}; write {}, or a filter such as \
             warn,bellwether_server=debug",
            LEVELS.join(", ")
        ))
    };
    let is_level = |word: &str| !word.is_empty() && word.parse::<LevelFilter>().is_ok();
    for part in level.split(',').map(str::trim) {
        if !is_level(part) && !part.contains(['=', '[']) {
            let why = if part == level { String::new() } else { format!(": '{part}' is none") };
            return Err(bad(&why));
        }
    }
    EnvFilter::try_new(level).map(|_| ()).map_err(|error| bad(&format!(" ({error})")))
}

/// Starts logging for the whole process.
///
/// # Errors
/// If the level is none.
pub fn start(level: &str, format: LogFormat) -> Result<()> {
    let mut level = level.to_owned();
    // The libraries below tell also at the common levels what concerns only those who look into
    // them; openraft warns of every vote that was overtaken and calls its own end an error, h2 warns
    // of requests that others gave up while a node was starting. What of it an operator must know,
    // the server says itself.
    match level.parse::<LevelFilter>() {
        Ok(LevelFilter::INFO) => level.push_str(",fjall=warn,lsm_tree=warn,h2=error,openraft=off"),
        Ok(LevelFilter::WARN) => level.push_str(",h2=error,openraft=off"),
        Ok(LevelFilter::ERROR) => level.push_str(",openraft=off"),
        _ => {}
    }
    let filter = EnvFilter::try_new(&level).map_err(|error| usage(error.to_string()))?;
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let discreet = filter_fn(|event| {
        let theirs = INDISCREET.iter().any(|library| event.target().starts_with(library));
        *event.level() != LevelFilter::TRACE || !theirs
    });
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal() && !plain).boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    registry().with(filter).with(lines.with_filter(discreet)).init();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn a_level_that_is_none_is_refused() {
        for level in ["info", "WARN", "off", "warn,bellwether_server=debug", "a[span]=trace"] {
            check(level).unwrap();
        }
        for level in ["loud", "info,loud", "", "a=loud", "a=b=c"] {
            let error = check(level).unwrap_err().to_string();
            assert!(error.contains("error, warn, info, debug, trace"), "{level}: {error}");
        }
    }
}
