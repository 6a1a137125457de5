//! A file per command. Each has its flags as a struct and `run`, which does it. What lists have in
//! common is in `listing`, what those have that follow something in `patience`.

pub mod apply;
pub mod audit;
pub mod batch;
pub mod cluster;
pub mod completions;
pub mod crontab;
pub mod events;
pub mod group;
pub mod health;
pub mod job;
pub mod listing;
pub mod patience;
pub mod queue;
pub mod run;
pub mod schedule;
pub mod server;
pub mod token;
pub mod why;
pub mod worker;

use std::io::Write as _;

use anyhow::{Context as _, Result};
use clap::ArgMatches;

use crate::cli::{Cli, Command};

/// Does what the command line says.
pub fn run(cli: Cli, matches: &ArgMatches) -> Result<()> {
    match cli.command {
        Command::Server(args) => {
            let matches = matches.subcommand_matches("server").context("no such command")?;
            server::run(*args, matches)
        }
        Command::Worker(args) => worker::run(*args),
        Command::Schedule(args) => schedule::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Openapi => {
            std::io::stdout().write_all(bellwether_server::openapi().as_bytes())?;
            Ok(())
        }
        Command::Bench(args) => {
            let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
            runtime.block_on(crate::bench::run(args))
        }
        Command::BenchWorker(args) => {
            let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
            runtime.block_on(crate::bench::puppet::run(args))
        }
        command => client_runtime()?.block_on(client_command(command)),
    }
}

/// Commands that talk to a server wait more than they work: one thread does.
fn client_runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")
}

async fn client_command(command: Command) -> Result<()> {
    match command {
        Command::Job(args) => job::run(*args).await,
        Command::Batch(args) => batch::run(args).await,
        Command::Run(args) => run::run(args).await,
        Command::Group(args) => group::run(args).await,
        Command::Queue(args) => queue::run(args).await,
        Command::Crontab(args) => crontab::run(args).await,
        Command::Apply(args) => apply::run(args).await,
        Command::Why(args) => why::run(args).await,
        Command::Token(args) => token::run(args).await,
        Command::Audit(args) => audit::run(args).await,
        Command::Events(args) => events::run(args).await,
        Command::Cluster(args) => cluster::run(args).await,
        Command::Health(args) => health::run(args).await,
        Command::Server(_)
        | Command::Worker(_)
        | Command::Schedule(_)
        | Command::Completions(_)
        | Command::Openapi
        | Command::Bench(_)
        | Command::BenchWorker(_) => Ok(()),
    }
}
