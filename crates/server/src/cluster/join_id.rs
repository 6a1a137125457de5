//! By what a cluster knows that a node which asks to join has asked before.
//!
//! The answer may be lost, or the process may end before it has noted who it is. It asks again then, and
//! must not become a second node while the first stays a member for ever. So it makes an id before it
//! asks, keeps it in the data directory, and asks with it until it knows its number.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("JOINING")
}

/// The id with which the node of this data directory asks: what it asked with before, or a new one. It
/// is on disk when this returns.
///
/// # Errors
/// When it can be neither read nor written.
pub fn keep(data_dir: &Path) -> io::Result<String> {
    match fs::read_to_string(path(data_dir)) {
        // One that was cut short was never asked with.
        Ok(text) if text.ends_with('\n') => return Ok(text.trim_end().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let id = format!("{:016x}{:016x}", rand::random::<u64>(), rand::random::<u64>());
    let mut file = File::create(path(data_dir))?;
    writeln!(file, "{id}")?;
    file.sync_all()?;
    File::open(data_dir)?.sync_all()?;
    Ok(id)
}

/// Forgets it, once the node knows who it is. Another that joins with this directory is another node.
///
/// # Errors
/// When it is there and cannot be removed.
pub fn forget(data_dir: &Path) -> io::Result<()> {
    match fs::remove_file(path(data_dir)) {
        Ok(()) => File::open(data_dir)?.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn r126_a_node_asks_with_the_same_id_until_it_knows_who_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let first = keep(dir.path()).unwrap();
        assert_eq!(first.len(), 32);
        assert_eq!(keep(dir.path()).unwrap(), first, "asked again after a crash");
        forget(dir.path()).unwrap();
        forget(dir.path()).unwrap();
        assert!(!path(dir.path()).exists());
        assert_ne!(keep(dir.path()).unwrap(), first);
    }

    #[test]
    fn an_id_that_was_cut_short_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        for cut in ["", "0123"] {
            fs::write(path(dir.path()), cut).unwrap();
            let made = keep(dir.path()).unwrap();
            assert_eq!((made.len(), keep(dir.path()).unwrap()), (32, made.clone()), "{cut}");
        }
    }
}
