//! A process beside a server that ends the commands of its built-in worker when the server cannot.
//!
//! A server that is killed, or stands still, leaves its commands running. In a cluster their runs
//! are resolved by others once the lease has ended, and another attempt may begin. So every command
//! is told to a **guard** before it is started, and until when it may go on:
//!
//! ```text
//!  server ── hold ATTEMPT DEADLINE, release ATTEMPT ──► guard: `PROGRAM guard INSTANCE`
//!     │       (a pipe; its end says that the server is gone)      │
//!     └── command ◄──────── TERM, KILL: all of it, by its marks ──┘
//! ```
//!
//! - The server is gone: everything that is held is ended at once. Nobody can report it any more.
//! - A deadline has come and was not put off before: what it is for is ended, and ended again if it begins after
//!   all, until it is released. The server does so itself a little earlier, unless it stands still.
//! - The guard is gone: the server starts another, and tells it all that is held.
//!
//! There is one guard for all commands of a server, started with the first of them. It knows no
//! outcome and keeps no output: what a command's own supervisor does for a worker elsewhere
//! ([`crate::host`]) costs a process for each, which a server on which everything runs would pay for
//! every command. Nor does it outlive what it guards.
//!
//! What it cannot do: if server and guard are killed together, nobody is left until the server is
//! started again and ends what was left behind. If the whole machine stands still, so does it.

mod notes;
mod watch;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

pub use bellwether_agent::boot_ms;
use tokio::process::{Child, Command};

pub use notes::Deadline;
use notes::{Hold, Note, Ward};
pub use watch::watch;

/// How long to wait before a guard that ended is followed by another, so that one that cannot live
/// does not keep the server busy.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The room of the pipe: as much as anybody may have by default.
const PIPE_BYTES: usize = 1 << 20;

/// The server's end of it.
pub struct Guard {
    /// Started as `PROGRAM guard INSTANCE`; it must then call [`watch()`].
    program: PathBuf,
    instance: String,
    state: Mutex<State>,
    own: Weak<Guard>,
}

#[derive(Default)]
struct State {
    held: BTreeMap<Ward, Option<Deadline>>,
    process: Option<Process>,
    /// When it was last tried in vain to start one.
    failed: Option<Instant>,
}

/// A guard that runs.
struct Process {
    id: Option<u32>,
    /// Where it is told things. A write never waits: a guard that does not read is of no use.
    notes: OwnedFd,
}

impl Guard {
    /// A guard of the commands that carry the mark `instance`. No process is started before there is
    /// something to guard.
    #[must_use]
    pub fn new(program: PathBuf, instance: String) -> Arc<Guard> {
        let state = Mutex::default();
        Arc::new_cyclic(|own| Guard { program, instance, state, own: own.clone() })
    }

    /// Takes an attempt under guard, until what it gives back is dropped. Call this before its command
    /// is started, and within a runtime. Without a deadline it is guarded only against the end of this
    /// process.
    #[must_use]
    pub fn hold(
        self: &Arc<Self>,
        run_id: &str,
        attempt: u32,
        token: u64,
        deadline: Option<Deadline>,
    ) -> Guarded {
        let ward = Ward { run_id: run_id.to_owned(), attempt, token };
        let mut state = self.state();
        state.held.insert(ward.clone(), deadline);
        self.tell(&mut state, &held(&ward, boot_ms(), deadline));
        drop(state);
        Guarded { guard: self.clone(), ward }
    }

    fn put_off(&self, ward: &Ward, now_ms: u64, deadline: Option<Deadline>) {
        let mut state = self.state();
        if let Some(until) = state.held.get_mut(ward)
            && *until != deadline
        {
            *until = deadline;
            self.tell(&mut state, &held(ward, now_ms, deadline));
        }
    }

    fn release(&self, ward: &Ward) {
        let mut state = self.state();
        if state.held.remove(ward).is_some() && state.process.is_some() {
            self.tell(&mut state, &Note::Release(ward.clone()).line());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the guard something, or starts one and tells it everything.
    fn tell(&self, state: &mut State, line: &str) {
        let told = state.process.as_ref().map(|process| write(&process.notes, line));
        match told {
            Some(Ok(())) => {}
            // One that ended is followed by another, as soon as that has been noticed.
            Some(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Some(Err(error)) => {
                tracing::warn!(%error, "the guard of commands does not listen");
                // Closing the pipe would be an order to end everything that it knows of.
                if let Some(id) = state.process.as_ref().and_then(|process| process.id) {
                    end(id);
                }
            }
            None => self.start(state),
        }
    }

    /// Starts a guard that knows all that is held.
    fn start(&self, state: &mut State) {
        if state.failed.is_some_and(|at| at.elapsed() < AGAIN_AFTER) {
            return; // What is held is told to the next one.
        }
        match self.spawn(&state.held) {
            Ok((mut child, notes)) => {
                let id = child.id();
                tracing::debug!(id, "a guard of commands");
                state.process = Some(Process { id, notes });
                let own = self.own.clone();
                tokio::spawn(async move {
                    let _ = child.wait().await;
                    if let Some(guard) = own.upgrade() {
                        guard.ended().await;
                    }
                });
            }
            Err(error) => {
                state.failed = Some(Instant::now());
                tracing::error!(%error, "no guard can be started: should this server be killed, its commands go on");
                let own = self.own.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(AGAIN_AFTER).await;
                    if let Some(guard) = own.upgrade() {
                        guard.start_if_needed(&mut guard.state());
                    }
                });
            }
        }
    }

    /// The notes are in the pipe before there is anybody to read them: should this process be killed
    /// meanwhile, the guard does not take an end without notes for one with nothing to do.
    fn spawn(&self, held: &BTreeMap<Ward, Option<Deadline>>) -> io::Result<(Child, OwnedFd)> {
        let (read, notes) = io::pipe()?;
        let notes = OwnedFd::from(notes);
        // Enough for some ten thousand commands. Who may not have as much has what there is.
        let _ = rustix::pipe::fcntl_setpipe_size(&notes, PIPE_BYTES);
        rustix::io::ioctl_fionbio(&notes, true)?;
        let now_ms = boot_ms();
        let all = held.iter().map(|(ward, until)| self::held(ward, now_ms, *until));
        write(&notes, &all.collect::<String>())?;
        let child = Command::new(&self.program)
            .arg0("bellwether")
            .arg("guard")
            .arg(&self.instance)
            .current_dir("/")
            // Neither secrets, nor marks by which it could be taken for what it guards.
            .env_clear()
            .stdin(read)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok((child, notes))
    }

    /// The guard has ended, which it does only if somebody killed it.
    async fn ended(self: Arc<Self>) {
        tracing::warn!("the guard of commands has ended");
        tokio::time::sleep(AGAIN_AFTER).await;
        let mut state = self.state();
        state.process = None;
        self.start_if_needed(&mut state);
    }

    fn start_if_needed(&self, state: &mut State) {
        if state.process.is_none() && !state.held.is_empty() {
            self.start(state);
        }
    }
}

/// The line that says that an attempt may go on.
fn held(ward: &Ward, said_ms: u64, until: Option<Deadline>) -> String {
    Note::Hold(Hold { ward: ward.clone(), said_ms, until }).line()
}

/// An attempt under guard.
pub struct Guarded {
    guard: Arc<Guard>,
    ward: Ward,
}

impl Guarded {
    /// Says until when it may go on, as of an instant of [`boot_ms`]: what should have ended by then is
    /// ended all the same.
    pub fn put_off(&self, now_ms: u64, deadline: Option<Deadline>) {
        self.guard.put_off(&self.ward, now_ms, deadline);
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.guard.release(&self.ward);
    }
}

/// Writes all of it or fails. Nobody else writes to the pipe, and a line that is torn is the last.
fn write(notes: &OwnedFd, lines: &str) -> io::Result<()> {
    let mut left = lines.as_bytes();
    while !left.is_empty() {
        let written = nix::unistd::write(notes, left)?;
        left = &left[written..];
    }
    Ok(())
}

/// Ends a guard, which is a child of this process that has not been waited for.
fn end(id: u32) {
    let id = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(id) = id {
        let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
    }
}
