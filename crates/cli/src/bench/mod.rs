//! `bellwether bench`: measures a real server of this program, from outside.
//!
//! The server is a child process on a data directory of its own; jobs are created through the
//! HTTP API and run by its built-in worker (a handler that does nothing) or by worker processes that
//! dial in, so what is measured is
//! scheduling: committed before launch, completed durably. Every run also measures the disk's own
//! limit, because single figures from one machine say little and ratios more.
//!
//! It is a program and not a test: it passes no verdict.

mod batch;
mod child;
mod cluster;
mod figures;
mod load;
mod phases;
pub mod puppet;
mod remote;
mod report;

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use figures::Figures;

/// What to measure.
#[derive(Clone, Debug, Args)]
pub struct BenchArgs {
    /// Jobs that are stored besides those that are launched
    #[arg(long, default_value_t = 5_000_000)]
    pub jobs: u64,
    /// Jobs stored for the small end of the comparison
    #[arg(long, default_value_t = 100_000)]
    pub few_jobs: u64,
    /// How long launches are sustained, in seconds
    #[arg(long, default_value_t = 60)]
    pub seconds: u64,
    /// Launches a second for the measurement of lag
    #[arg(long, default_value_t = 10_000)]
    pub rate: u64,
    /// Jobs that are due at one instant
    #[arg(long, default_value_t = 100_000)]
    pub burst: u64,
    /// Items of the batch
    #[arg(long, default_value_t = 1_000_000)]
    pub items: u64,
    /// Items of the small batch it is compared with
    #[arg(long, default_value_t = 100_000)]
    pub few_items: u64,
    /// Where the server's data goes; a directory under the system's temporary one if absent
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Shards of the clusters that are measured
    #[arg(long, default_value_t = 16)]
    pub shards: u16,
    /// Jobs that three nodes are to launch as fast as they can
    #[arg(long, default_value_t = 600_000)]
    pub backlog: u64,
    /// How often a node of three is killed
    #[arg(long, default_value_t = 12)]
    pub kills: u64,
    /// How often one is stopped in order
    #[arg(long, default_value_t = 6)]
    pub stops: u64,
    /// Have nodes of three go just before a minute begins
    #[arg(long)]
    pub at_minute: bool,
    /// Jobs of a cluster that others join
    #[arg(long, default_value_t = 2_000_000)]
    pub join_jobs: u64,
    /// Runs that a node misses before it catches up: more than the log keeps, and it gets copies
    #[arg(long, default_value_t = 300_000)]
    pub missed_runs: u64,
    /// How long the log of a cluster is watched, in seconds
    #[arg(long, default_value_t = 300)]
    pub log_seconds: u64,
    /// Only these phases: idle, create, single, cost, restart, sustain, lag, burst,
    /// remote, batch, cluster, failover, join, log
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Print figures as JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the measurements and prints them.
///
/// # Errors
/// When the server cannot be started or does not answer.
pub async fn run(args: BenchArgs) -> anyhow::Result<()> {
    let base = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let dir = base.join(format!("bellwether-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let mut figures = Figures::default();
    // Whichever comes first: what is left of the phases is dropped, and the processes they started end with it.
    let outcome = tokio::select! {
        outcome = phases::run_all(&mut figures, &args, &dir) => outcome,
        outcome = told_to_end() => outcome,
    };
    std::fs::remove_dir_all(&dir).ok();
    if args.json {
        println!("{}", figures.json());
    } else {
        print!("{}", figures.table());
    }
    outcome.context("the figures above are all that was measured until then")
}

/// An error, once this process is told to end.
async fn told_to_end() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen to signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen to signals")?;
    let by = tokio::select! {
        _ = terminate.recv() => "TERM",
        _ = interrupt.recv() => "INT",
    };
    bail!("ended by {by}")
}
