//! A `bellwether worker` on a machine of its own, which knows all nodes.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Its name, and that of its log.
pub const NAME: &str = "worker";

/// A worker that can be killed and started again. Its commands have supervisors that go on without it.
pub struct Worker {
    servers: String,
    dir: PathBuf,
    process: Option<Child>,
}

impl Worker {
    /// One for nodes that take workers at some addresses; it is yet to be started.
    pub fn new(dir: &Path, servers: &[String]) -> Worker {
        Worker { servers: servers.join(","), dir: dir.to_owned(), process: None }
    }

    /// Starts it, or starts it again, by a command that runs the program where it is to be.
    pub fn start(&mut self, mut command: Command) {
        let log = self.dir.join(format!("{NAME}.log"));
        let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
        command.args(["worker", "--name", NAME, "--slots", "16", "--server", &self.servers]);
        command.arg("--state-dir").arg(self.dir.join(NAME));
        command.env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.process = Some(command.spawn().unwrap());
    }

    /// Sends it a signal, if it is there.
    pub fn signal(&self, signal: Signal) {
        if let Some(process) = &self.process {
            // It may have ended by itself.
            let _ = kill(Pid::from_raw(process.id().cast_signed()), signal);
        }
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        if let Some(mut process) = self.process.take() {
            let _ = process.wait();
        }
    }

    /// How it ended, if it has by itself.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.as_mut()?.try_wait().unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}
