//! `bellwether server`: runs until it is told to stop, or something fails for good.
//!
//! The first TERM or INT stops it in order: no new work, running work finished or handed back,
//! everything stored. A second one ends it at once, as a crash would; nothing acknowledged is lost.
//! One that comes right after the first is the same wish told twice (a shell and `make` both pass on
//! what was typed), and changes nothing.

mod banner;
pub mod logs;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use bellwether_server::RunningServer;
use clap::{ArgMatches, Args};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::worker::prepare_memory_limits;
use crate::exit::{eprint_line, exit_of, report};
use crate::settings::{Effective, Values, effective};

/// Runs the server. Every flag can also be set by a variable of the environment, or in a file.
#[derive(Args, Debug)]
pub struct ServerArgs {
    /// Settings from this file [default: ./bellwether.toml, /etc/bellwether/bellwether.toml]
    #[arg(long, env = "BELLWETHER_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Show all settings and where each comes from, and do nothing
    #[arg(long)]
    print_config: bool,
    #[command(flatten)]
    values: Values,
}

/// Whose commands are guarded, if this process was started for that.
pub fn guarded(mut line: impl Iterator<Item = OsString>) -> Option<String> {
    let (_, command, instance) = (line.next()?, line.next()?, line.next()?);
    (command == "guard" && line.next().is_none()).then(|| instance.into_string().ok()).flatten()
}

/// Guards the commands of a server.
pub fn guard(instance: &str) -> ExitCode {
    match bellwether_worker::guard::watch(instance) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprint_line(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs it.
pub fn run(args: ServerArgs, matches: &ArgMatches) -> Result<()> {
    let settings = effective(args.values, matches, args.config.as_deref())?;
    logs::check(&settings.log_level)?;
    if args.print_config {
        use std::io::Write;
        std::io::stdout().write_all(settings.print().as_bytes())?;
        return Ok(());
    }
    logs::start(&settings.log_level, settings.log_format)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let outcome = runtime.block_on(serve(settings));
    if outcome.is_err() {
        // Whatever still waits for a store that has failed is not waited for.
        runtime.shutdown_background();
    }
    outcome
}

/// The signals that stop a server, or a worker.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Waits for them from here on.
    pub fn new() -> Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for one; the exit code of a process that it ended.
    pub async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => 128 + 15,
            _ = self.interrupt.recv() => 128 + 2,
        }
    }

    /// Waits for one that is not an echo of the first.
    pub async fn next_after(&mut self, first: Instant) -> i32 {
        loop {
            let code = self.next().await;
            if first.elapsed() >= ECHO_MAX {
                return code;
            }
            eprint_line("stopping already; signal again in a second to stop at once");
        }
    }
}

async fn serve(settings: Effective) -> Result<()> {
    if settings.config.worker {
        prepare_memory_limits();
    }
    let mut signals = Signals::new()?;
    let fresh = banner::is_fresh(&settings.config.data_dir);
    let begun = Instant::now();
    let mut server = tokio::select! {
        started = bellwether_server::start(settings.config.clone()) => started?,
        code = signals.next() => std::process::exit(code),
    };
    banner::print(&settings.config, &server, fresh, begun.elapsed());
    let removal = server.removal();
    tokio::select! {
        error = server.wait_for_failure() => {
            // Nothing more can be stored, so there is nothing to finish, and nobody to wait for.
            let error = error.context("the server has to stop; nothing acknowledged is lost");
            report(&error);
            std::process::exit(exit_of(&error) as i32);
        }
        removed = removal => {
            removed?;
            eprint_line(
                "this node was removed from its cluster; to join again, start it with an empty \
                 data directory",
            );
        }
        _ = signals.next() => {}
    }
    stop(server, &settings, signals).await
}

/// A signal that comes sooner than this after the first is the same one again.
const ECHO_MAX: Duration = Duration::from_secs(1);

async fn stop(server: RunningServer, settings: &Effective, mut signals: Signals) -> Result<()> {
    let begun = Instant::now();
    eprint_line(&format!(
        "stopping: no new work is started, running work gets {:?} to finish; \
         signal again to stop at once",
        settings.config.shutdown_grace
    ));
    tokio::select! {
        stopped = server.shutdown() => stopped?,
        code = signals.next_after(begun) => {
            eprint_line("stopped at once; work that was running is resolved at the next start");
            std::process::exit(code);
        }
    }
    eprint_line("stopped");
    Ok(())
}
