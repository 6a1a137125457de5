//! `bellwether crontab …`: from cron and back.
//!
//! ```text
//!  crontab ─parse─► entries, marks ─convert, mark─► jobs ─sync─► server     import
//!  crontab ◄─render─ entries, marks ◄─convert, mark─ jobs ◄────── server     export
//! ```
//!
//! The format itself is read and written by `bellwether_core::crontab`. Importing what was exported
//! changes nothing: `mark` keeps in comments what a crontab has no place for.

mod convert;
mod export;
mod import;
mod mark;
mod shell;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::context::ClientArgs;

/// Crontabs.
#[derive(Args, Debug)]
pub struct CrontabArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Make jobs of a crontab's lines; a second import of the same changes nothing
    Import(import::ImportArgs),
    /// Write jobs as a crontab
    Export(export::ExportArgs),
}

/// Does it.
pub async fn run(args: CrontabArgs) -> Result<()> {
    let mut context = args.client.context()?;
    match args.action {
        Action::Import(args) => import::run(&mut context, args).await?,
        Action::Export(args) => export::run(&mut context, args).await?,
    }
    context.screen.flush()?;
    Ok(())
}
