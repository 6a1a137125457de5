//! Structured logs on standard error.

use std::io::IsTerminal;

use anyhow::Result;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::exit::usage;
use crate::settings::{Effective, LogFormat};

/// Starts logging for the whole process.
///
/// # Errors
/// If the level is none.
pub fn start(settings: &Effective) -> Result<()> {
    let mut level = settings.log_level.clone();
    if level.parse::<LevelFilter>().is_ok_and(|level| level == LevelFilter::INFO) {
        // The store's engine tells at this level what concerns only those who look into it.
        level.push_str(",fjall=warn,lsm_tree=warn");
    }
    let filter = EnvFilter::try_new(&level).map_err(|error| {
        usage(format!(
            "'{}' is not a log level: {error}; write error, warn, info, debug or trace",
            settings.log_level
        ))
    })?;
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match settings.log_format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal() && !plain).init(),
        LogFormat::Json => builder.json().init(),
    }
    Ok(())
}
