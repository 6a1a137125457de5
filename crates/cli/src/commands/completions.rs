//! `bellwether completions SHELL`.

use std::io::Write;

use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;

/// Prints a script that completes commands and flags.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// Prints the script.
pub fn run(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "bellwether", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(())
}
