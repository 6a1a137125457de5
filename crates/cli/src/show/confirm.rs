//! Asking before something is destroyed.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::Result;

/// Whether somebody is there to be asked.
pub fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Whether to go ahead: yes if `--yes` was given or nobody is there to be asked, else as answered.
pub fn confirmed(question: &str, yes: bool) -> Result<bool> {
    if yes || !can_ask() {
        return Ok(true);
    }
    let mut err = io::stderr();
    write!(err, "{question} [y/N] ")?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
