//! Small files in the data directory by which a node knows who it is: written whole or not at all, and
//! on disk, or gone from it, when a call returns.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// What a file says; `None` if there is none.
///
/// # Errors
/// When it cannot be read.
pub fn read(data_dir: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
    match fs::read(data_dir.join(name)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Puts a file in place of the one that may be there.
///
/// # Errors
/// When it cannot be written.
pub fn replace(data_dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let new = data_dir.join(format!("{name}.new"));
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(new, data_dir.join(name))?;
    File::open(data_dir)?.sync_all()
}

/// Removes a file, if it is there.
///
/// # Errors
/// When it cannot be removed.
pub fn remove(data_dir: &Path, name: &str) -> io::Result<()> {
    match fs::remove_file(data_dir.join(name)) {
        Ok(()) => File::open(data_dir)?.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
