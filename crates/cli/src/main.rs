//! `bellwether`: the server, and everything one can ask of it, as one program.
//!
//! ```text
//!  flags ─► cli ─► commands/server ─► settings (flags > environment > file > defaults) ─► server
//!              └─► commands/*      ─► Context (client, screen) ─► HTTP ─► tables or JSON
//! ```
//!
//! A file per command. What is shared between them: `context` (the connection and where to print),
//! `show` (tables, times, colours), `spec` (jobs from flags and files), `exit` (what exit codes
//! mean), `arguments` (what clap does not do by itself), `words` (what the server says, for people with flags). Nothing is decided here: the rules are in `bellwether-core`, the server's.
//!
//! Invariants: only results go to standard output, everything else to standard error; a reader that
//! goes away is no error; every failure says what to do about it.

#![forbid(unsafe_code)]

mod arguments;
mod bench;
mod cli;
mod commands;
mod context;
mod exit;
mod settings;
mod show;
mod spec;
mod sync;
mod words;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use cli::Cli;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // One of these runs beside every command of a worker: it reads no more than it must.
    if let Some(directory) = commands::worker::supervised(std::env::args_os()) {
        return commands::worker::supervise(&directory);
    }
    // And one of these beside a server that runs commands itself.
    if let Some(instance) = commands::server::guarded(std::env::args_os()) {
        return commands::server::guard(&instance);
    }
    let command = Cli::command();
    for remark in arguments::misspelt_variables(&command, std::env::vars_os().map(|(name, _)| name))
    {
        exit::eprint_line(&format!("warning: {remark}"));
    }
    let line = arguments::flags_after_command(&command, std::env::args_os().collect());
    // The matches are kept: they know whether a value came from a flag or the environment.
    let matches = command.get_matches_from(line);
    let outcome = match Cli::from_arg_matches(&matches) {
        Ok(cli) => commands::run(cli, &matches),
        Err(error) => error.exit(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(&error),
    }
}
