//! The directory of a worker: one process at a time, one lease for all it runs.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bellwether_agent::{Lease, boot_id, boot_ms};

use super::files::{self, Durable};

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateDirError {
    /// Another worker uses it.
    #[error(
        "another worker (process {process}) uses the state directory {path}; \
         give each worker one of its own with --state-dir"
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process, as far as it says.
        process: String,
    },
    /// A worker of another name has left attempts in it.
    #[error(
        "the state directory {path} holds attempts of the worker '{name}'; \
         start it under that name to have them reported, or give another directory with --state-dir"
    )]
    OfAnother {
        /// The directory.
        path: PathBuf,
        /// Whose it is.
        name: String,
    },
    /// It cannot be read or written.
    #[error("the state directory {path} cannot be used: {source}")]
    Io {
        /// The directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// The state directory of a worker, locked for as long as this lives.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    lock: File,
}

impl Drop for StateDir {
    fn drop(&mut self) {
        // Closing the file is not enough: a command that is being started has it open as well until
        // it becomes another program, and would hold the lock until then.
        let _ = self.lock.unlock();
    }
}

impl StateDir {
    /// Opens the directory of the worker called `name`, and makes it if it is not there.
    ///
    /// # Errors
    /// If another worker uses it, or it cannot be written.
    pub fn open(path: &Path, name: &str) -> Result<StateDir, StateDirError> {
        let bad = |source: io::Error| StateDirError::Io { path: path.to_owned(), source };
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(path.join("runs")).map_err(bad)?;
        let path = path.canonicalize().map_err(bad)?;
        // Assignments may hold secrets, and the directory may have been made by others.
        let private = fs::Permissions::from_mode(0o700);
        fs::set_permissions(path.join("runs"), private).map_err(bad)?;
        let mut lock =
            files::private().read(true).truncate(false).open(path.join("lock")).map_err(bad)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut process = String::new();
                let _ = lock.read_to_string(&mut process);
                return Err(StateDirError::InUse { path, process: process.trim().to_owned() });
            }
            Err(TryLockError::Error(error)) => return Err(bad(error)),
        }
        lock.set_len(0).and_then(|()| write!(lock, "{}", std::process::id())).map_err(bad)?;
        let state = StateDir { path, lock };
        state.claim_for(name)?;
        files::make_pipe(&state.notify()).map_err(bad)?;
        Ok(state)
    }

    fn claim_for(&self, name: &str) -> Result<(), StateDirError> {
        let bad = |source: io::Error| StateDirError::Io { path: self.path.clone(), source };
        let file = self.path.join("name");
        if let Some(before) = files::read(&file).map_err(bad)? {
            let before = String::from_utf8_lossy(&before).into_owned();
            if before != name && !self.attempts().map_err(bad)?.is_empty() {
                return Err(StateDirError::OfAnother { path: self.path.clone(), name: before });
            }
        }
        files::write(&file, name.as_bytes(), Durable::Yes).map_err(bad)
    }

    /// Where the attempts are.
    pub(super) fn runs(&self) -> PathBuf {
        self.path.join("runs")
    }

    /// The pipe for notes to the worker.
    pub(super) fn notify(&self) -> PathBuf {
        self.path.join("notify")
    }

    /// The directories of attempts.
    pub(super) fn attempts(&self) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(self.runs())?.map(|entry| Ok(entry?.path())).collect()
    }

    /// Writes the lease for all supervisors to see.
    pub(super) fn write_lease(&self, lease: &Lease) -> io::Result<()> {
        let text = format!("{} {} {}\n", lease.until_ms, lease.length_ms, boot_id());
        // A power cut ends all work: what was written before it means nothing after it.
        files::write(&self.path.join("lease"), text.as_bytes(), Durable::No)
    }

    /// How long a server may believe that a worker of this name is still connected which in truth
    /// is gone: the rest of the lease that an earlier process had.
    #[must_use]
    pub fn lease_left(&self) -> Duration {
        let left = match read_lease(&self.path) {
            Some((lease, true)) => lease.until_ms.saturating_sub(boot_ms()),
            // How much of it passed while the machine was down is unknown.
            Some((lease, false)) => lease.length_ms,
            None => 0,
        };
        Duration::from_millis(left)
    }
}

/// The lease that is in force in a state directory.
pub(super) fn lease_of(state: &Path) -> Option<Lease> {
    read_lease(state).filter(|(_, of_this_boot)| *of_this_boot).map(|(lease, _)| lease)
}

/// The lease on file, and whether the machine has not been restarted since.
fn read_lease(state: &Path) -> Option<(Lease, bool)> {
    let text = String::from_utf8(files::read(&state.join("lease")).ok()??).ok()?;
    let mut words = text.split_whitespace();
    let until_ms = words.next()?.parse().ok()?;
    let length_ms = words.next()?.parse().ok()?;
    let boot = words.next().unwrap_or("");
    Some((Lease { length_ms, until_ms }, boot == boot_id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_worker_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let first = StateDir::open(dir.path(), "a").unwrap();
        let error = StateDir::open(dir.path(), "a").unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        drop(first);
        let second = StateDir::open(dir.path(), "b").unwrap();
        fs::create_dir(second.runs().join("run_1-1")).unwrap();
        drop(second);
        let error = StateDir::open(dir.path(), "a").unwrap_err().to_string();
        assert!(error.contains("of the worker 'b'"), "{error}");
    }

    #[test]
    fn a_lease_counts_only_until_the_machine_is_restarted() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path(), "a").unwrap();
        assert_eq!(state.lease_left(), Duration::ZERO);
        let lease = Lease::granted(boot_ms(), 30_000);
        state.write_lease(&lease).unwrap();
        assert_eq!(lease_of(dir.path()), Some(lease));
        assert!(state.lease_left() > Duration::from_secs(20));
        fs::write(dir.path().join("lease"), "99999999999 30000 another-boot\n").unwrap();
        assert_eq!(lease_of(dir.path()), None);
        assert_eq!(state.lease_left(), Duration::from_secs(30));
        fs::write(dir.path().join("lease"), "nonsense").unwrap();
        assert_eq!(lease_of(dir.path()), None);
    }
}
