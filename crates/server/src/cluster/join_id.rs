//! By what a cluster knows that a node which asks to join has asked before.
//!
//! The answer may be lost, or the process may end before it has noted who it is. It asks again then, and
//! must not become a second node while the first stays a member for ever. So it makes an id before it
//! asks, keeps it in the data directory, and asks with it until it knows its number.

use std::io;
use std::path::Path;

use super::kept;

const NAME: &str = "JOINING";

/// The id with which the node of this data directory asks: what it asked with before, or a new one. It
/// is on disk when this returns.
///
/// # Errors
/// When it can be neither read nor written.
pub fn keep(data_dir: &Path) -> io::Result<String> {
    // One that was cut short was never asked with.
    let said = kept::read(data_dir, NAME)?.and_then(|said| String::from_utf8(said).ok());
    if let Some(id) = said.as_ref().and_then(|said| said.strip_suffix('\n')) {
        return Ok(id.to_owned());
    }
    let id = format!("{:016x}{:016x}", rand::random::<u64>(), rand::random::<u64>());
    kept::replace(data_dir, NAME, format!("{id}\n").as_bytes())?;
    Ok(id)
}

/// Forgets it, once the node knows who it is. Another that joins with this directory is another node.
///
/// # Errors
/// When it is there and cannot be removed.
pub fn forget(data_dir: &Path) -> io::Result<()> {
    kept::remove(data_dir, NAME)
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
        assert_eq!(kept::read(dir.path(), NAME).unwrap(), None);
        assert_ne!(keep(dir.path()).unwrap(), first);
    }

    #[test]
    fn an_id_that_was_cut_short_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        for cut in ["", "0123"] {
            kept::replace(dir.path(), NAME, cut.as_bytes()).unwrap();
            let made = keep(dir.path()).unwrap();
            assert_eq!((made.len(), keep(dir.path()).unwrap()), (32, made.clone()), "{cut}");
        }
    }
}
