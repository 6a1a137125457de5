//! Small files: written whole or not at all, read by others while they change.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Whether a file must survive a power cut.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Durable {
    No,
    Yes,
}

/// Puts a file in place at one stroke, for its owner's eyes only.
pub(super) fn write(path: &Path, contents: &[u8], durable: Durable) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = private().truncate(true).open(&temporary)?;
    file.write_all(contents)?;
    if durable == Durable::Yes {
        file.sync_all()?;
    }
    fs::rename(&temporary, path)?;
    if durable == Durable::Yes
        && let Some(parent) = path.parent()
    {
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// A file that only its owner may read, made if it is not there.
pub(super) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).write(true).mode(0o600);
    options
}

/// The contents of a file, or nothing if there is none.
pub(super) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(contents) => Ok(Some(contents)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes a pipe with a name, if it is not there.
pub(super) fn make_pipe(path: &Path) -> io::Result<()> {
    use nix::sys::stat::Mode;
    match nix::unistd::mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR) {
        Ok(()) | Err(nix::errno::Errno::EEXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Leaves a note in a pipe, if somebody is there to read it and there is room.
pub(super) fn note(path: &Path, text: &str) {
    let opened = OpenOptions::new().write(true).custom_flags(nix::libc::O_NONBLOCK).open(path);
    if let Ok(mut pipe) = opened {
        // Short enough to be written whole.
        let _ = pipe.write(text.as_bytes());
    }
}
