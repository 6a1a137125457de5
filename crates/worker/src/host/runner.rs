//! The runner of a host: takes attempts from a session, and finds those of an earlier process.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use bellwether_agent::protocol::{
    Assignment, HandedBack, Held, Report, Welcome, assignment, report,
};
use bellwether_agent::{Handle, Lease, Runner, StopWhy, boot_id};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use super::attempt_dir::{self, AttemptDir, Meta};
use super::entries::Entries;
use super::follow::{Followed, Settle};
use super::state_dir::StateDir;
use crate::executor::Executor;

/// How a host runs attempts.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// The worker's name.
    pub name: String,
    /// The program that is started as `PROGRAM supervise DIRECTORY` for each command, and must then
    /// call [`super::supervise`].
    pub supervisor: PathBuf,
    /// Bytes of output kept per attempt.
    pub output_limit: usize,
}

/// What all attempts of a host share.
pub(super) struct Host {
    pub(super) options: HostOptions,
    pub(super) state: StateDir,
    pub(super) executor: Executor,
    pub(super) handle: Handle,
    pub(super) entries: Entries,
    /// The mark of processes: the store, and this worker, so that a server on the same machine does
    /// not take them for its own.
    instance: Mutex<String>,
}

/// Runs attempts on this machine.
pub struct HostRunner {
    host: Arc<Host>,
    held: Vec<Held>,
}

impl HostRunner {
    /// A runner for the session that `handle` belongs to. Looks for attempts of an earlier process
    /// and follows them. Must be called within a runtime.
    ///
    /// # Errors
    /// If the state directory cannot be read.
    pub fn new(
        options: HostOptions,
        state: StateDir,
        executor: Executor,
        handle: Handle,
    ) -> io::Result<HostRunner> {
        let notes = pipe::OpenOptions::new().read_write(true).open_receiver(state.notify())?;
        let host = Arc::new(Host {
            options,
            state,
            executor,
            handle,
            entries: Entries::default(),
            instance: Mutex::default(),
        });
        tokio::spawn(listen(notes, Arc::downgrade(&host)));
        let held = find(&host)?;
        Ok(HostRunner { host, held })
    }
}

/// Follows what an earlier process has left.
fn find(host: &Arc<Host>) -> io::Result<Vec<Held>> {
    let mut held = Vec::new();
    for path in host.state.attempts()? {
        let dir = AttemptDir::at(&path);
        let Some(meta) = dir.meta() else {
            // It was never begun.
            dir.remove()?;
            continue;
        };
        held.push(meta.held.clone());
        let entry = host.entries.add(dir.name());
        let followed = Followed { host: host.clone(), held: meta.held.clone(), entry };
        // An attempt from before a restart of the machine has no processes left, whatever the
        // files say, and may have done anything.
        let settle =
            if meta.boot == boot_id() { Settle::WorkerRestarted } else { Settle::Rebooted };
        tracing::info!(run = meta.held.run, "an attempt of an earlier process");
        tokio::spawn(async move { followed.follow(dir, None, settle).await });
    }
    Ok(held)
}

/// Passes on the notes of supervisors.
async fn listen(notes: pipe::Receiver, host: std::sync::Weak<Host>) {
    let mut text = Vec::new();
    let mut buffer = [0; 4_096];
    while notes.readable().await.is_ok() {
        let read = notes.try_read(&mut buffer).unwrap_or(0);
        text.extend_from_slice(&buffer[..read]);
        let Some(host) = host.upgrade() else { return };
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            let name = String::from_utf8_lossy(&line[..end]).into_owned();
            if let Some(entry) = host.entries.get(&name) {
                entry.nudge.notify_one();
            }
        }
        if text.len() > buffer.len() {
            text.clear();
        }
    }
}

impl Host {
    pub(super) fn meta(&self, held: &Held) -> Meta {
        let instance = self.instance.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let output_limit = self.options.output_limit;
        Meta { held: held.clone(), instance, output_limit, boot: boot_id() }
    }

    /// Starts the supervisor of an attempt.
    pub(super) fn spawn(&self, dir: &AttemptDir) -> io::Result<Child> {
        Command::new(&self.options.supervisor)
            .arg0("bellwether")
            .arg("supervise")
            .arg(dir.path())
            .current_dir("/")
            // It speaks to no server, and its environment can be read by its user's processes.
            .env_remove("BELLWETHER_TOKEN")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    }

    pub(super) fn report(&self, held: &Held, what: report::What) {
        let (run, token) = (held.run.clone(), held.token);
        self.handle.report(Report { run, token, what: Some(what) });
    }

    pub(super) fn hand_back(&self, held: &Held) {
        self.report(held, report::What::HandedBack(HandedBack {}));
    }
}

impl Runner for HostRunner {
    fn held(&self) -> Vec<Held> {
        self.held.clone()
    }

    fn welcomed(&self, welcome: &Welcome) {
        let instance = format!("{}/{}", welcome.store, self.host.options.name);
        *self.host.instance.lock().unwrap_or_else(PoisonError::into_inner) = instance;
    }

    fn leased(&self, lease: &Lease) {
        if let Err(error) = self.host.state.write_lease(lease) {
            tracing::error!(%error, "the lease cannot be written: commands will be stopped");
        }
    }

    fn start(&self, assignment: Assignment) {
        let held = Held { run: assignment.run.clone(), token: assignment.token };
        let Ok(name) = attempt_dir::name(&held) else { return self.host.hand_back(&held) };
        let entry = self.host.entries.add(name);
        let followed = Followed { host: self.host.clone(), held, entry };
        match &assignment.target {
            Some(assignment::Target::Command(_)) => {
                tokio::spawn(async move { followed.command(assignment).await });
            }
            _ => {
                tokio::spawn(async move { followed.request(assignment).await });
            }
        }
    }

    fn stop(&self, held: &Held, why: StopWhy) {
        let Ok(name) = attempt_dir::name(held) else { return };
        let Some(entry) = self.host.entries.get(&name) else { return };
        entry.stop.send_if_modified(|stop| {
            // Nothing is left to add to that.
            let changes = *stop != Some(StopWhy::Void);
            if changes {
                *stop = Some(why);
            }
            changes
        });
        if why == StopWhy::Void && *entry.over.borrow() {
            self.stored(held);
        }
    }

    fn stored(&self, held: &Held) {
        let Ok(name) = attempt_dir::name(held) else { return };
        self.host.entries.remove(&name);
        let dir = AttemptDir::at(&self.host.state.runs().join(name));
        let executor = self.host.executor.clone();
        tokio::task::spawn_blocking(move || {
            if let Err(error) = dir.clear(&executor) {
                tracing::warn!(%error, path = %dir.path().display(), "cannot be removed");
            }
        });
    }
}
