//! A worker process that does nothing, for measuring: `bellwether bench-worker`, hidden.
//!
//! It speaks the protocol of all workers. Every attempt is finished at once; how late each was
//! started is written to standard output when the process is told to end, and each of them to a
//! file while it works, if one is named.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use bellwether_agent::protocol::{Assignment, Ending, Finished, Held, Report, capacity, report};
use bellwether_agent::{Address, Handle, Identity, Options, Runner, Session, StopWhy, now_ms};
use bellwether_core::time::Time;
use clap::Args;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use tokio::signal::unix::{SignalKind, signal};

/// What the worker's jobs are called.
pub const JOB_TYPE: &str = "bench.remote";

/// What to be.
#[derive(Args, Debug)]
pub struct PuppetArgs {
    /// The server
    #[arg(long)]
    server: String,
    /// Name, or the beginning of the names
    #[arg(long)]
    name: String,
    /// Slots of each
    #[arg(long, default_value_t = 4_000)]
    slots: u32,
    /// Workers in this process, each with a connection of its own
    #[arg(long, default_value_t = 1)]
    workers: u32,
    /// Where every start is written to: when, when it was due, its run
    #[arg(long)]
    starts: Option<PathBuf>,
}

/// Finishes everything at once.
struct Nothing {
    handle: OnceLock<Handle>,
    lateness: Arc<Mutex<Histogram<u64>>>,
    starts: Option<Arc<File>>,
}

impl Runner for Nothing {
    fn start(&self, assignment: Assignment) {
        let (started, due) = (micros(), scheduled_micros(&assignment));
        self.lateness.lock().saturating_record(started.saturating_sub(due).max(1));
        if let Some(mut starts) = self.starts.as_deref() {
            // A line that is missing is missed by whoever reads them.
            let _ = starts.write_all(format!("{started} {due} {}\n", assignment.run).as_bytes());
        }
        let now = now_ms();
        let finished = Finished {
            started_ms: Some(now),
            finished_ms: now,
            ending: Ending::Succeeded.into(),
            ..Finished::default()
        };
        if let Some(handle) = self.handle.get() {
            handle.report(Report {
                run: assignment.run,
                token: assignment.token,
                what: Some(report::What::Finished(finished)),
            });
        }
    }

    fn stop(&self, _: &Held, _: StopWhy) {}
}

fn micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

fn scheduled_micros(assignment: &Assignment) -> u64 {
    let time = Time::parse(&assignment.scheduled_at).unwrap_or(Time(0));
    u64::try_from(time.0).unwrap_or(0) * 1_000
}

/// Works until it is told to end.
///
/// # Errors
/// When a server does not want it.
pub async fn run(args: PuppetArgs) -> anyhow::Result<()> {
    let address: Address = args.server.parse().map_err(anyhow::Error::msg)?;
    let lateness = Arc::new(Mutex::new(Histogram::new(3)?));
    let starts = match &args.starts {
        Some(path) => Some(Arc::new(File::options().create(true).append(true).open(path)?)),
        None => None,
    };
    let mut sessions = Vec::new();
    for number in 0..args.workers {
        let identity = Identity {
            name: format!("{}-{number}", args.name),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            queues: Vec::new(),
            labels: Default::default(),
            capacity: capacity::Mode::Slots(args.slots),
            commands: false,
            http: false,
            job_types: vec![JOB_TYPE.to_owned()],
        };
        let (session, handle) = Session::new(Options::new(vec![address.clone()], identity))?;
        let runner = Nothing {
            handle: OnceLock::from(handle),
            lateness: lateness.clone(),
            starts: starts.clone(),
        };
        sessions.push(tokio::spawn(session.run(Arc::new(runner))));
    }
    let mut end = signal(SignalKind::terminate()).context("cannot listen to signals")?;
    end.recv().await;
    sessions.iter().for_each(tokio::task::JoinHandle::abort);
    let lateness = lateness.lock();
    let at = |part: f64| lateness.value_at_quantile(part);
    println!("{} {} {} {}", lateness.len(), at(0.5), at(0.99), lateness.max());
    Ok(())
}
