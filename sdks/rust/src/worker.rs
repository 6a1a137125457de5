//! A worker inside an application.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bellwether_agent::protocol::{Assignment, HandedBack, Held, Report, capacity, report};
use bellwether_agent::{
    Address, Handle, Identity, Options, Runner, Session, SessionError, StopWhy,
};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use crate::attempt::{Within, perform};
use crate::handlers::{Handlers, handler};
use crate::{Failure, Run, Stopped};

/// Why a worker cannot work.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// What it was told makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// The server does not want it.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// It was ended from outside.
    #[error("the worker was ended from outside")]
    Ended,
}

/// A worker that is being put together.
pub struct Worker {
    servers: Vec<String>,
    token: Option<String>,
    ca_file: Option<PathBuf>,
    name: Option<String>,
    queues: Vec<String>,
    labels: BTreeMap<String, String>,
    slots: u32,
    grace: Duration,
    handlers: Handlers,
}

impl Worker {
    /// A worker for the server at `host:port`; of several nodes of a cluster, with commas between
    /// them, one after the other is dialled. `BELLWETHER_TOKEN` is its token unless another is given.
    pub fn new(server: impl Into<String>) -> Worker {
        Worker {
            servers: vec![server.into()],
            token: std::env::var("BELLWETHER_TOKEN").ok().filter(|token| !token.is_empty()),
            ca_file: None,
            name: None,
            queues: Vec::new(),
            labels: BTreeMap::new(),
            slots: 16,
            grace: Duration::from_secs(30),
            handlers: Handlers::new(),
        }
    }

    /// Another server to dial if the first does not answer.
    #[must_use]
    pub fn or_server(mut self, server: impl Into<String>) -> Worker {
        self.servers.push(server.into());
        self
    }

    /// The token to show.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Worker {
        self.token = Some(token.into());
        self
    }

    /// Certificate authorities (PEM) to trust besides the system's.
    #[must_use]
    pub fn ca_file(mut self, file: impl Into<PathBuf>) -> Worker {
        self.ca_file = Some(file.into());
        self
    }

    /// Its name, unique among the workers of a server; made up if not given.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Worker {
        self.name = Some(name.into());
        self
    }

    /// A queue to take from; repeatable. All if none is given.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Worker {
        self.queues.push(queue.into());
        self
    }

    /// A label, for jobs with `requires`.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Worker {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// How many runs are under way at once; 16 if not given.
    #[must_use]
    pub fn slots(mut self, slots: u32) -> Worker {
        self.slots = slots;
        self
    }

    /// How long [`Worker::run`] waits for what is under way when it is told to end.
    #[must_use]
    pub fn shutdown_grace(mut self, grace: Duration) -> Worker {
        self.grace = grace;
        self
    }

    /// Runs jobs of this type. What it returns is kept with the run.
    #[must_use]
    pub fn handler<F, Fut, T>(mut self, job_type: impl Into<String>, function: F) -> Worker
    where
        F: Fn(Run) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, Failure>> + Send + 'static,
        T: Serialize + 'static,
    {
        self.handlers.insert(job_type.into(), handler(function));
        self
    }

    /// Works until TERM or INT, then finishes what is under way.
    ///
    /// # Errors
    /// When the server does not want it, or what it was told makes no sense.
    pub async fn run(self) -> Result<(), WorkerError> {
        let invalid = |error: std::io::Error| WorkerError::Invalid(error.to_string());
        let mut term = signal(SignalKind::terminate()).map_err(invalid)?;
        let mut int = signal(SignalKind::interrupt()).map_err(invalid)?;
        let grace = self.grace;
        let mut running = self.start()?;
        tokio::select! {
            outcome = running.ended() => return outcome,
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        running.shutdown(grace).await
    }

    /// Works in the background.
    ///
    /// # Errors
    /// When what it was told makes no sense.
    pub fn start(self) -> Result<RunningWorker, WorkerError> {
        if self.handlers.is_empty() {
            return Err(WorkerError::Invalid("a worker needs at least one handler".to_owned()));
        }
        let servers: Result<Vec<Address>, String> =
            self.servers.iter().flat_map(|list| list.split(',')).map(str::parse).collect();
        let identity = Identity {
            name: self.name.unwrap_or_else(made_up_name),
            version: concat!("rust-", env!("CARGO_PKG_VERSION")).to_owned(),
            queues: self.queues,
            labels: self.labels,
            capacity: capacity::Mode::Slots(self.slots),
            commands: false,
            http: false,
            job_types: self.handlers.keys().cloned().collect(),
        };
        let mut options = Options::new(servers.map_err(WorkerError::Invalid)?, identity);
        options.token = self.token;
        options.ca_file = self.ca_file;
        let (session, handle) = Session::new(options)?;
        let runner = Arc::new(HandlerRunner {
            handlers: self.handlers,
            handle: OnceLock::from(handle.clone()),
            under_way: Arc::default(),
        });
        let task = tokio::spawn(session.run(runner.clone()));
        Ok(RunningWorker { handle, runner, task })
    }
}

fn made_up_name() -> String {
    let program = std::env::current_exe().ok();
    let program = program.as_ref().and_then(|path| path.file_name()?.to_str());
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let program: String = program.unwrap_or("worker").chars().take(64).map(plain).collect();
    format!("{program}-{}-{:x}", std::process::id(), bellwether_agent::boot_ms())
}

/// A worker that works in the background. Dropping it ends nothing.
pub struct RunningWorker {
    handle: Handle,
    runner: Arc<HandlerRunner>,
    task: JoinHandle<Result<(), SessionError>>,
}

impl RunningWorker {
    /// Waits until it has ended: the server drained it, or does not want it.
    ///
    /// # Errors
    /// When the server does not want it.
    pub async fn ended(&mut self) -> Result<(), WorkerError> {
        match (&mut self.task).await {
            Ok(outcome) => Ok(outcome?),
            Err(_) => Err(WorkerError::Ended),
        }
    }

    /// Takes nothing more and waits for what is under way, up to `grace`; then that is stopped.
    ///
    /// # Errors
    /// When it ended otherwise before.
    pub async fn shutdown(mut self, grace: Duration) -> Result<(), WorkerError> {
        self.handle.leave();
        if let Ok(outcome) = tokio::time::timeout(grace, self.ended()).await {
            return outcome;
        }
        self.runner.stop_all();
        self.ended().await
    }

    /// How many runs are under way.
    #[must_use]
    pub fn running(&self) -> usize {
        self.runner.under_way.lock().len()
    }
}

/// An attempt that is under way, by run and token.
type UnderWay = BTreeMap<(String, u64), (Run, Within)>;

struct HandlerRunner {
    handlers: Handlers,
    handle: OnceLock<Handle>,
    under_way: Arc<Mutex<UnderWay>>,
}

impl HandlerRunner {
    fn stop_all(&self) {
        for (run, _) in self.under_way.lock().values() {
            run.stop(Stopped::Shutdown);
        }
    }
}

impl Runner for HandlerRunner {
    fn start(&self, assignment: Assignment) {
        let Some(handle) = self.handle.get().cloned() else { return };
        let (id, token, timeout_ms) =
            (assignment.run.clone(), assignment.token, assignment.timeout_ms);
        let run = Run::new(assignment, handle.clone());
        let work = run.and_then(|run| Some((self.handlers.get(&run.job_type)?.clone(), run)));
        let Some((handler, run)) = work else {
            let what = Some(report::What::HandedBack(HandedBack {}));
            return handle.report(Report { run: id, token, what });
        };
        let within = Within::new();
        let under_way = self.under_way.clone();
        under_way.lock().insert((id.clone(), token), (run.clone(), within.clone()));
        tokio::spawn(async move {
            perform(run, handler, timeout_ms, within).await;
            under_way.lock().remove(&(id, token));
        });
    }

    fn stop(&self, held: &Held, why: StopWhy) {
        let under_way = self.under_way.lock();
        let Some((run, within)) = under_way.get(&(held.run.clone(), held.token)) else { return };
        match why {
            StopWhy::Canceled => run.stop(Stopped::Canceled),
            StopWhy::LeaseLost { within: most } => {
                within.shorten(most);
                run.stop(Stopped::LeaseLost);
            }
            StopWhy::Void => {
                within.set_void();
                run.stop(Stopped::LeaseLost);
            }
        }
    }
}
