//! Backups: `/v1/backups`.

use bellwether_api::{Backup, BackupSpec, Gathered};

use crate::{Client, ClientError};

impl Client {
    /// Begins a backup; it goes on by itself.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached.
    pub async fn create_backup(&self, spec: &BackupSpec) -> Result<Backup, ClientError> {
        self.post(&["v1", "backups"], &Vec::new(), spec).await
    }

    /// Those that are being taken, the newest ones in the server's place for backups, and those that
    /// have failed since the nodes were started; newest first.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached.
    pub async fn backups(&self) -> Result<Gathered<Backup>, ClientError> {
        self.get(&["v1", "backups"], &Vec::new()).await
    }

    /// One of these, by its name.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached, or there is no such backup.
    pub async fn backup(&self, name: &str) -> Result<Backup, ClientError> {
        self.get(&["v1", "backups", name], &Vec::new()).await
    }
}
