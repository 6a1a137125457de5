//! A consistent view of the database: a snapshot and the keyspaces it is read through.

use std::sync::Arc;

use bellwether_core::waist::{Family, Rows, StoreError, View};
use bytes::Bytes;
use fjall::{Guard, Readable, Snapshot};

use super::database::Database;

/// The database as it was after one commit.
///
/// It keeps the snapshot, and with it the old versions it needs, and the database itself, so
/// that it can be read even after the engine was closed.
pub(super) struct DiskView {
    snapshot: Snapshot,
    database: Arc<Database>,
}

impl DiskView {
    /// The state of this moment. Only the writer calls this, between commits: then everything
    /// the snapshot shows has been synced.
    pub(super) fn now(database: &Arc<Database>) -> Self {
        Self { snapshot: database.fjall().snapshot(), database: Arc::clone(database) }
    }

    fn range(
        &self,
        family: Family,
        from: &[u8],
        to: &[u8],
    ) -> Option<impl DoubleEndedIterator<Item = Guard> + use<>> {
        // The tree would refuse an inverted range; it holds nothing.
        (from < to).then(|| self.snapshot.range(self.database.keyspace(family), from..to))
    }
}

impl View for DiskView {
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let value = self.snapshot.get(self.database.keyspace(family), key);
        Ok(value.map_err(read_error)?.map(Bytes::from))
    }

    fn scan<'a>(&'a self, family: Family, from: &[u8], to: &[u8]) -> Rows<'a> {
        match self.range(family, from, to) {
            Some(rows) => Box::new(rows.map(row)),
            None => Box::new(std::iter::empty()),
        }
    }

    fn scan_back<'a>(&'a self, family: Family, from: &[u8], to: &[u8]) -> Rows<'a> {
        match self.range(family, from, to) {
            Some(rows) => Box::new(rows.rev().map(row)),
            None => Box::new(std::iter::empty()),
        }
    }
}

fn row(guard: Guard) -> Result<(Bytes, Bytes), StoreError> {
    let (key, value) = guard.into_inner().map_err(read_error)?;
    Ok((Bytes::from(key), Bytes::from(value)))
}

/// Tells a disk that cannot be read from data that cannot be understood.
pub(super) fn read_error(error: fjall::Error) -> StoreError {
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(lsm_tree::Error::Io(error)) => {
            StoreError::Failed(format!("reading failed: {error}"))
        }
        fjall::Error::Poisoned => StoreError::Failed("an earlier write failed".to_owned()),
        other => StoreError::Corrupt(other.to_string()),
    }
}
