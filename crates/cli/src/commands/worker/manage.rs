//! `bellwether worker list` and `drain`: the workers of a server or a cluster, from anywhere.

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::commands::cluster::{say_missing, worker_table};
use crate::context::ClientArgs;
use crate::exit::eprint_line;

/// What can be done about the workers of a server.
#[derive(Subcommand, Debug)]
pub enum Action {
    /// List the workers of a server
    List(ListArgs),
    /// Let a worker finish what it has, and then end
    Drain(DrainArgs),
}

/// Lists workers.
#[derive(Args, Debug)]
pub struct ListArgs {
    #[command(flatten)]
    client: ClientArgs,
}

/// Drains a worker.
#[derive(Args, Debug)]
pub struct DrainArgs {
    /// Its name
    worker: String,
    #[command(flatten)]
    client: ClientArgs,
}

/// Does it.
pub async fn run(action: Action) -> Result<()> {
    match action {
        Action::List(args) => list(args).await,
        Action::Drain(args) => {
            let context = args.client.context()?;
            context.client.drain_worker(&args.worker).await?;
            eprint_line(&format!(
                "the worker '{}' takes nothing more, and ends when what it has is done",
                args.worker
            ));
            Ok(())
        }
    }
}

async fn list(args: ListArgs) -> Result<()> {
    let mut context = args.client.context()?;
    let nodes = context.client.cluster().await?.nodes.len();
    let workers = context.client.workers().await?;
    say_missing("workers", &workers.missing_nodes);
    let workers = workers.items;
    if context.json {
        for worker in &workers {
            context.print_json_line(worker)?;
        }
    } else {
        context.screen.table(&worker_table(&workers, nodes > 1))?;
    }
    context.screen.flush()?;
    Ok(())
}
