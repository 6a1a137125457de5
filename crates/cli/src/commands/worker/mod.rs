//! `bellwether worker`: runs work on this machine for a server elsewhere, until it is told to stop.
//!
//! The first TERM or INT makes it leave: it takes nothing more, finishes what it has and ends. A
//! second one ends it at once; its commands go on under their supervisors as long as the lease
//! lasts, and a worker that is started within that time goes on with them.

mod capacity;
mod manage;
mod place;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use bellwether_agent::{Address, Handle, Identity, Options, Session};
use bellwether_client::DEFAULT_SERVER;
use bellwether_worker::host::{HostOptions, HostRunner, StateDir};
use bellwether_worker::{Executor, ExecutorOptions};
use clap::Args;

use crate::commands::server::{Signals, logs};
use crate::exit::{eprint_line, usage};
use crate::settings::LogFormat;

/// Bytes of output kept per attempt: as many as a server keeps.
const OUTPUT_LIMIT: usize = 1024 * 1024;
/// The least time to insist on a name that the server believes to be taken.
const NAME_PATIENCE_MIN: Duration = Duration::from_secs(3);

/// Runs work on this machine for a server elsewhere; or shows and drains the workers of a server.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct WorkerArgs {
    #[command(subcommand)]
    action: Option<manage::Action>,
    #[command(flatten)]
    work: WorkArgs,
}

#[derive(Args, Debug)]
struct WorkArgs {
    /// Where the server is; several are tried in turn
    #[arg(long, env = "BELLWETHER_SERVER", value_name = "HOST:PORT", default_value = DEFAULT_SERVER, value_delimiter = ',')]
    server: Vec<String>,
    /// The token to send
    #[arg(long, env = "BELLWETHER_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Certificate authorities (PEM) to trust besides the system's
    #[arg(long, env = "BELLWETHER_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Its name, unique among the workers of a server [default: this machine's]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// A queue to take work from; may be given several times [default: all]
    #[arg(long = "queue", value_name = "NAME", value_delimiter = ',')]
    queues: Vec<String>,
    /// What jobs can require of it; may be given several times
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    #[command(flatten)]
    capacity: capacity::CapacityArgs,
    /// Run no commands
    #[arg(long)]
    no_commands: bool,
    /// Make no HTTP requests
    #[arg(long, conflicts_with = "no_commands")]
    no_http: bool,
    /// Where to keep what runs and what is not reported yet
    #[arg(long, env = "BELLWETHER_STATE_DIR", value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Stop work when the lease ends even if connections are refused: for a server behind something
    /// that refuses them in its place
    #[arg(long)]
    strict_lease: bool,
    /// What to log: a level, or a filter such as warn,bellwether_agent=debug
    #[arg(long, env = "BELLWETHER_LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    log_level: String,
    /// How to log
    #[arg(long, env = "BELLWETHER_LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it as KEY=VALUE, such as gpu=yes".to_owned()),
    }
}

/// The directory, if this process was started to supervise one.
pub fn supervised(mut line: impl Iterator<Item = OsString>) -> Option<PathBuf> {
    let (_, command, directory) = (line.next()?, line.next()?, line.next()?);
    (command == "supervise" && line.next().is_none()).then(|| directory.into())
}

/// Supervises the attempt in a directory.
pub fn supervise(directory: &Path) -> ExitCode {
    match bellwether_worker::host::supervise(directory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprint_line(&format!("error: {}: {error}", directory.display()));
            ExitCode::FAILURE
        }
    }
}

/// Runs it.
pub fn run(args: WorkerArgs) -> Result<()> {
    if let Some(action) = args.action {
        return super::client_runtime()?.block_on(manage::run(action));
    }
    let args = args.work;
    logs::check(&args.log_level)?;
    logs::start(&args.log_level, args.log_format)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(work(args))
}

/// Sees to it that the kernel keeps memory limits if it can, and says what they are worth.
pub fn prepare_memory_limits() {
    match bellwether_worker::prepare_memory_limits() {
        Ok(group) => tracing::info!(group = %group.display(), "the kernel keeps memory limits"),
        Err(why) => tracing::info!(why, "memory limits are kept by looking at processes"),
    }
}

async fn work(args: WorkArgs) -> Result<()> {
    prepare_memory_limits();
    let signals = Signals::new()?;
    let name = args.name.clone().map_or_else(place::machine_name, Ok)?;
    let path = args.state_dir.clone().map_or_else(|| place::state_dir(&name), Ok)?;
    let mut options = options(&args, &name)?;
    let state = StateDir::open(&path, &name)?;
    options.name_patience = NAME_PATIENCE_MIN.max(state.lease_left() + NAME_PATIENCE_MIN);
    let (session, handle) = Session::new(options)?;
    let executor = Executor::new(ExecutorOptions::default())?;
    let host = HostOptions {
        name: name.clone(),
        // The program as it is now, also when a newer one has been put in its place.
        supervisor: "/proc/self/exe".into(),
        output_limit: OUTPUT_LIMIT,
    };
    let runner = HostRunner::new(host, state, executor, handle.clone())
        .with_context(|| format!("cannot use the state directory {}", path.display()))?;
    eprint_line(&format!("worker '{name}', state in {}", path.display()));
    tokio::spawn(leave_on_signal(signals, handle));
    session.run(Arc::new(runner)).await?;
    eprint_line("everything is finished and reported: the worker has left");
    Ok(())
}

fn options(args: &WorkArgs, name: &str) -> Result<Options> {
    let servers: Result<Vec<Address>, String> = args.server.iter().map(|s| s.parse()).collect();
    let identity = Identity {
        name: name.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        queues: args.queues.clone(),
        labels: BTreeMap::from_iter(args.labels.clone()),
        capacity: args.capacity.mode().map_err(usage)?,
        commands: !args.no_commands,
        http: !args.no_http,
        job_types: Vec::new(),
    };
    let mut options = Options::new(servers.map_err(usage)?, identity);
    options.token = args.token.clone().filter(|token| !token.is_empty());
    options.ca_file = args.ca_file.clone();
    options.strict_lease = args.strict_lease;
    Ok(options)
}

/// Leaves at the first signal, and ends the process at the second.
async fn leave_on_signal(mut signals: Signals, handle: Handle) {
    signals.next().await;
    eprint_line(
        "leaving: takes nothing more and finishes what it has; signal again to end at once, and \
         leave commands to their supervisors",
    );
    handle.leave();
    let code = signals.next_after(Instant::now()).await;
    std::process::exit(code);
}
