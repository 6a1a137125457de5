//! What a node was told when it was let in: the nodes of the cluster, and its own name among them.
//!
//! That stands in shard 0, of which it has yet to get a replica. A node that is started again before it has one
//! would know nobody, be found by nobody if it has moved, and take another's name. So it is kept in the data
//! directory until the own replica says it.

use std::io;
use std::path::Path;

use bellwether_core::record::{self, NodeRow};
use bellwether_protocol::node::v1;
use prost::Message;

use super::kept;

const NAME: &str = "WELCOME";

/// Keeps it. It is on disk when this returns.
///
/// # Errors
/// When it cannot be written.
pub fn keep(data_dir: &Path, nodes: &[NodeRow]) -> io::Result<()> {
    let nodes = nodes.iter().map(record::encode).collect();
    let welcome = v1::Welcome { nodes, ..v1::Welcome::default() };
    kept::replace(data_dir, NAME, &welcome.encode_to_vec())
}

/// What is kept: nothing, if the node was never let in or has a replica of shard 0 that names it.
///
/// # Errors
/// When it cannot be read.
pub fn read(data_dir: &Path) -> io::Result<Vec<NodeRow>> {
    let Some(bytes) = kept::read(data_dir, NAME)? else { return Ok(Vec::new()) };
    let welcome = v1::Welcome::decode(&*bytes)?;
    let rows = welcome.nodes.into_iter().map(|row| record::decode("node", row));
    rows.collect::<Result<_, _>>().map_err(io::Error::other)
}

/// Forgets it.
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
    fn it_is_kept_until_it_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()).unwrap(), []);
        let row = |node, name: &str| NodeRow { node, name: name.into(), ..NodeRow::default() };
        let nodes = vec![row(1, "a"), row(2, "a-2")];
        keep(dir.path(), &nodes).unwrap();
        assert_eq!(read(dir.path()).unwrap(), nodes);
        forget(dir.path()).unwrap();
        forget(dir.path()).unwrap();
        assert_eq!(read(dir.path()).unwrap(), []);
        kept::replace(dir.path(), NAME, &[0xff]).unwrap();
        assert!(read(dir.path()).is_err());
    }
}
