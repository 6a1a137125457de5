//! `bellwether batch …`: many runs of one kind, made from items.

mod create;
mod follow;
mod lines;
mod pace;
mod show;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::context::ClientArgs;

/// Batches.
#[derive(Args, Debug)]
pub struct BatchArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Run something for each item of a list, and wait until all is over
    Create(Box<create::CreateArgs>),
    /// List batches, newest first
    List(show::ListArgs),
    /// Show a batch and how far it is
    Show(show::ShowArgs),
    /// Cancel a batch: what has not begun never does, what runs is stopped
    Cancel(show::CancelArgs),
    /// List the runs of a batch, newest first
    Runs(show::RunsArgs),
}

/// Does it.
pub async fn run(args: BatchArgs) -> Result<()> {
    let mut context = args.client.context()?;
    match args.action {
        Action::Create(args) => create::run(&mut context, *args).await?,
        Action::List(args) => show::list(&mut context, &args).await?,
        Action::Show(args) => show::run(&mut context, &args).await?,
        Action::Cancel(args) => show::cancel(&mut context, args).await?,
        Action::Runs(args) => show::runs(&mut context, args).await?,
    }
    context.screen.flush()?;
    Ok(())
}
