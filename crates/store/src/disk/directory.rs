//! The data directory: who may use it, and which format it holds.
//!
//! ```text
//! DIR/LOCK     locked while a server uses the directory
//! DIR/FORMAT   "bellwether store 2": written once the database has been created in full
//! DIR/db/      the database
//! ```
//! Format 1 is a database whose journal is the truth. In format 2 the truth is a log beside it, and
//! the database what that has been applied to; a program that knows format 1 alone must not open it,
//! for it would miss what is in the log alone. A database of format 1 becomes one of format 2 by
//! having nothing in its log.
//!
//! While the database is being created, `FORMAT.new` stands in for `FORMAT`. A directory with
//! `FORMAT.new` alone is one whose creation was cut short: nothing was ever stored in it, so it
//! is created anew. A database without either is not ours to touch.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::journal::{self, Finding};

/// The journal is the truth.
const FORMAT_JOURNAL: &str = "1";
/// A log beside the database is.
const FORMAT_LOG: &str = "2";
const FORMAT_PREFIX: &str = "bellwether store ";
/// How long a directory that is in use is waited for. A server that was killed while it started a command
/// leaves its lock to that for the moment until it has become another program, which may be long on a
/// machine with too much to do.
const LOCK_WITHIN: Duration = Duration::from_secs(3);
const LOCK_AGAIN: Duration = Duration::from_millis(20);

/// Why a data directory could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("another bellwether server uses this data directory: {}", .0.display())]
    InUse(PathBuf),
    /// It was written by a version this program does not know.
    #[error(
        "the data directory {} has format {found:?}, which this program does not know; \
         use the version of bellwether that wrote it",
        .dir.display()
    )]
    Format {
        /// The directory.
        dir: PathBuf,
        /// What its `FORMAT` file says.
        found: String,
    },
    /// There is a database without a `FORMAT` file beside it.
    #[error(
        "{} holds a database but no FORMAT file, so it may not be bellwether's; \
         restore the file, or choose another data directory",
        .0.display()
    )]
    Foreign(PathBuf),
    /// What is stored cannot be understood.
    #[error("the data in {} is damaged ({reason}); restore it from a backup", .dir.display())]
    Damaged {
        /// The directory.
        dir: PathBuf,
        /// What was found.
        reason: String,
    },
    /// The operating system refused.
    #[error("cannot open the data directory {}", .dir.display())]
    Io {
        /// The directory.
        dir: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

/// A data directory that this process has to itself.
pub(super) struct Directory {
    root: PathBuf,
    /// The format it is to have.
    format: &'static str,
    /// Holds the lock until this is dropped or the process ends.
    lock: File,
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that is being started has it open as well until
        // it becomes another program, and would hold the lock until then.
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(dir = %self.root.display(), %error, "cannot unlock the data directory");
        }
    }
}

impl Directory {
    /// Creates the directory if need be, locks it and checks its format.
    /// A log beside it is the truth if it is not `synced` by itself.
    pub(super) fn prepare(root: &Path, synced: bool) -> Result<Self, OpenError> {
        let io_error = |source| OpenError::Io { dir: root.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(root).map_err(io_error)?;
        let lock = lock(root)?;
        let format = if synced { FORMAT_JOURNAL } else { FORMAT_LOG };
        let directory = Self { root: root.to_owned(), format, lock };
        directory.check_format()?;
        Ok(directory)
    }

    /// Where the database is.
    pub(super) fn database(&self) -> PathBuf {
        self.root.join("db")
    }

    /// Looks at the journals, which the storage library is about to recover from.
    pub(super) fn check_journals(&self, synced: bool) -> Result<(), OpenError> {
        match journal::check(&self.database(), synced).map_err(|e| self.io_error(e))? {
            Finding::Sound => Ok(()),
            Finding::Cut { path, bytes } => {
                tracing::warn!(
                    journal = %path.display(), bytes,
                    "cut off a write that was interrupted; it had not been acknowledged"
                );
                Ok(())
            }
            Finding::Damaged(reason) => Err(OpenError::Damaged { dir: self.root.clone(), reason }),
        }
    }

    /// Says that the database now exists in full.
    pub(super) fn seal(&self) -> Result<(), OpenError> {
        if self.format().exists() {
            return Ok(());
        }
        self.rename_format()
    }

    fn check_format(&self) -> Result<(), OpenError> {
        match fs::read_to_string(self.format()) {
            Ok(found) if found.trim_end() == self.format_text() => Ok(()),
            Ok(found) if self.can_become_ours(found.trim_end()) => {
                tracing::info!(dir = %self.root.display(), "the store gets a log of its own");
                self.write_format_new()?;
                self.rename_format()
            }
            Ok(found) => Err(OpenError::Format {
                dir: self.root.clone(),
                found: found.trim_end().chars().take(100).collect(),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.begin(),
            Err(error) => Err(self.io_error(error)),
        }
    }

    /// Prepares for a database to be created.
    fn begin(&self) -> Result<(), OpenError> {
        let database = self.database();
        if database.exists() {
            if !self.format_new().exists() {
                return Err(OpenError::Foreign(self.root.clone()));
            }
            tracing::warn!(dir = %self.root.display(), "creating the store was interrupted; starting over");
            fs::remove_dir_all(&database).map_err(|e| self.io_error(e))?;
        }
        self.write_format_new()
    }

    fn format_text(&self) -> String {
        format!("{FORMAT_PREFIX}{}", self.format)
    }

    /// Whether a store of another format can be turned into one of ours by saying so.
    fn can_become_ours(&self, found: &str) -> bool {
        self.format == FORMAT_LOG && found == format!("{FORMAT_PREFIX}{FORMAT_JOURNAL}")
    }

    fn write_format_new(&self) -> Result<(), OpenError> {
        let write = || -> io::Result<()> {
            let mut file = File::create(self.format_new())?;
            writeln!(file, "{}", self.format_text())?;
            file.sync_all()
        };
        write().map_err(|e| self.io_error(e))?;
        self.sync()
    }

    fn rename_format(&self) -> Result<(), OpenError> {
        fs::rename(self.format_new(), self.format()).map_err(|e| self.io_error(e))?;
        self.sync()
    }

    fn sync(&self) -> Result<(), OpenError> {
        File::open(&self.root).and_then(|dir| dir.sync_all()).map_err(|e| self.io_error(e))
    }

    fn format(&self) -> PathBuf {
        self.root.join("FORMAT")
    }

    fn format_new(&self) -> PathBuf {
        self.root.join("FORMAT.new")
    }

    fn io_error(&self, source: io::Error) -> OpenError {
        OpenError::Io { dir: self.root.clone(), source }
    }

    /// Turns an error of the storage library into one that says what to do.
    pub(super) fn database_error(&self, error: fjall::Error) -> OpenError {
        let dir = self.root.clone();
        match error {
            fjall::Error::Locked => OpenError::InUse(dir),
            fjall::Error::Io(source) => OpenError::Io { dir, source },
            fjall::Error::Storage(lsm_tree::Error::Io(source)) => OpenError::Io { dir, source },
            other => OpenError::Damaged { dir, reason: other.to_string() },
        }
    }
}

fn lock(root: &Path) -> Result<File, OpenError> {
    let io_error = |source| OpenError::Io { dir: root.to_owned(), source };
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(root.join("LOCK"))
        .map_err(io_error)?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if begun.elapsed() < LOCK_WITHIN => {
                std::thread::sleep(LOCK_AGAIN);
            }
            Err(TryLockError::WouldBlock) => return Err(OpenError::InUse(root.to_owned())),
            Err(TryLockError::Error(source)) => return Err(io_error(source)),
        }
    }
}
