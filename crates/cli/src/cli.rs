//! The command line: which commands there are. Their flags are in their own files.

use clap::{Parser, Subcommand};

use crate::commands::{
    apply, audit, batch, cluster, completions, crontab, events, group, health, job, queue, run,
    schedule, server, token, why, worker,
};

/// A cron and job scheduler: runs commands, HTTP calls and handlers at the right time, once.
#[derive(Parser, Debug)]
#[command(
    name = "bellwether",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "--server, --token, --ca-file, --namespace and --json may stand before or after the \
                  command.\nExit codes: 0 done, 1 failed, 2 not valid, 3 not found, 4 in conflict, \
                  5 server not reachable or not ready, 6 not allowed."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// What can be asked for.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run the server, with a worker in it
    Server(Box<server::ServerArgs>),
    /// Run work on this machine for a server elsewhere
    Worker(Box<worker::WorkerArgs>),
    /// Jobs: add, list, show, edit, pause, trigger, …
    Job(Box<job::JobArgs>),
    /// Batches: run something for each item of a list, and follow it as one
    Batch(batch::BatchArgs),
    /// Runs: list, show, logs, cancel, retry
    Run(run::RunArgs),
    /// Groups of jobs: list, pause, resume, maintenance
    Group(group::GroupArgs),
    /// Queues: what waits, what is under way, and how much may be
    Queue(queue::QueueArgs),
    /// Schedules: what an expression means (needs no server)
    Schedule(schedule::ScheduleArgs),
    /// Crontabs: import and export
    Crontab(crontab::CrontabArgs),
    /// Make the server's jobs what a file says
    Apply(apply::ApplyArgs),
    /// Why a job did or did not run
    Why(why::WhyArgs),
    /// Tokens: create, list, revoke
    Token(token::TokenArgs),
    /// Who changed what
    Audit(audit::AuditArgs),
    /// What happens, as it happens
    Events(events::EventsArgs),
    /// The nodes and their shards
    Cluster(cluster::ClusterArgs),
    /// Whether the server is alive and ready
    Health(health::HealthArgs),
    /// Completions for a shell
    Completions(completions::CompletionsArgs),
    /// The OpenAPI document of the HTTP API (needs no server)
    Openapi,
    /// Measure a server of this program on this machine (starts its own)
    Bench(crate::bench::BenchArgs),
    #[command(hide = true)]
    BenchWorker(crate::bench::puppet::PuppetArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
