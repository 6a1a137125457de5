//! A command that was started, and how its exit is noticed.

use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;

use tokio::io::unix::AsyncFd;
use tokio::process::Child;

use crate::os::{self, Spent};
use crate::tree::{self, ProcessId};

/// A started command. Dropping it before its exit was noticed kills its process group: this
/// happens only if the future that runs it is dropped.
pub(super) struct Running {
    pub(super) child: Child,
    pub(super) root: Option<ProcessId>,
    /// What it used, once it has exited.
    pub(super) spent: Option<Spent>,
    /// Becomes readable when the command exits. It is asked before the command is waited for, since
    /// what it used is forgotten with that.
    exit: Option<AsyncFd<OwnedFd>>,
    reaped: bool,
}

impl Running {
    pub(super) fn new(child: Child) -> Running {
        let root = child.id().and_then(|pid| ProcessId::of(i32::try_from(pid).ok()?));
        let exit = root.and_then(|root| os::exit_of(root.pid));
        Running { child, root, spent: None, exit, reaped: false }
    }

    /// Waits for the exit. May be dropped and called again.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        while let (Some(exit), Some(root)) = (&self.exit, self.root) {
            let Ok(mut ready) = exit.readable().await else { break };
            match os::spent(root.pid) {
                Ok(None) => ready.clear_ready(),
                spent => {
                    self.spent = spent.ok().flatten();
                    self.exit = None;
                }
            }
        }
        let status = self.child.wait().await;
        self.reaped = true;
        status
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let (false, Some(root)) = (self.reaped, self.root) {
            tree::kill_group(root.pid);
        }
    }
}
