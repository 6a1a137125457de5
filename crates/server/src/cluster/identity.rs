//! Who this node is: which cluster it belongs to, and under which number.
//!
//! Kept in the data directory in a file of its own, since it must be known before anything that is
//! stored can be read. After the node has been made it changes once at most: when the node is
//! removed from its cluster.

use std::io;
use std::path::Path;

use bellwether_core::record::StoreRow;
use bellwether_core::time::Time;
use serde::{Deserialize, Serialize};

use super::kept;

const NAME: &str = "NODE";

/// Which node of which cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeIdentity {
    /// The cluster's id.
    pub cluster: String,
    /// The node's number.
    pub node: u64,
    /// How many shards the cluster has.
    pub shards: u16,
    /// Whether its groups have begun. The first node of a cluster begins all of them; after that
    /// nobody ever does again.
    pub founded: bool,
    /// Whether the node was removed from the cluster. That is for good.
    #[serde(default)]
    pub removed: bool,
}

impl NodeIdentity {
    /// By what processes that this node starts are known as its own.
    #[must_use]
    pub fn instance(&self) -> String {
        match self.node {
            1 => self.cluster.clone(),
            node => format!("{}.{node}", self.cluster),
        }
    }

    /// What a new store says about itself.
    #[must_use]
    pub fn store_row(&self, now: Time) -> StoreRow {
        let (id, shards) = (self.cluster.clone(), u32::from(self.shards));
        StoreRow { id, shards, created_ms: now.0 }
    }

    /// What a data directory says; `None` if it says nothing.
    ///
    /// # Errors
    /// When the file cannot be read or makes no sense.
    pub fn read(data_dir: &Path) -> io::Result<Option<NodeIdentity>> {
        let bytes = kept::read(data_dir, NAME)?;
        Ok(bytes.map(|bytes| serde_json::from_slice(&bytes)).transpose()?)
    }

    /// Notes it in a data directory, for good.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, data_dir: &Path) -> io::Result<()> {
        kept::replace(data_dir, NAME, format!("{}\n", serde_json::to_string(self)?).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn it_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(NodeIdentity::read(dir.path()).unwrap(), None);
        let identity = NodeIdentity {
            cluster: "c1".to_owned(),
            node: 2,
            shards: 16,
            founded: true,
            removed: false,
        };
        identity.write(dir.path()).unwrap();
        assert_eq!(NodeIdentity::read(dir.path()).unwrap(), Some(identity));
        let older = r#"{"cluster":"c1","node":2,"shards":16,"founded":true}"#;
        kept::replace(dir.path(), NAME, older.as_bytes()).unwrap();
        assert_eq!(NodeIdentity::read(dir.path()).unwrap().map(|read| read.removed), Some(false));
        kept::replace(dir.path(), NAME, b"{").unwrap();
        assert!(NodeIdentity::read(dir.path()).is_err());
    }
}
