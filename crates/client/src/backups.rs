//! Backups: `/v1/backups`.

use bellwether_api::{Backup, BackupSpec, Page};

use crate::{Client, ClientError};

impl Client {
    /// Begins a backup; it goes on by itself.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached.
    pub async fn create_backup(&self, spec: &BackupSpec) -> Result<Backup, ClientError> {
        self.post(&["v1", "backups"], &Vec::new(), spec).await
    }

    /// The one that is being taken, the newest ones in the server's place for backups, and those
    /// that have failed since it was started; newest first.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached.
    pub async fn backups(&self) -> Result<Page<Backup>, ClientError> {
        self.get(&["v1", "backups"], &Vec::new()).await
    }
}
