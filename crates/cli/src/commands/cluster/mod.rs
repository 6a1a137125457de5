//! `bellwether cluster …`: the nodes, their certificates and their backups. A file for each.

mod authority;
mod backup;
mod backups;
mod certs;
mod remove;
mod restore;
mod status;
mod table;
mod verify;
mod watch;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::context::ClientArgs;

pub use status::say_missing;
pub use table::worker_table;

/// The nodes.
#[derive(Args, Debug)]
pub struct ClusterArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Show nodes, shards and workers
    Status(status::StatusArgs),
    /// Take a node out of the cluster, for good
    Remove(remove::RemoveArgs),
    /// Make the certificates with which nodes accept one another (needs no server)
    Certs(certs::CertsArgs),
    /// Take a backup of all shards
    Backup(backup::BackupArgs),
    /// List backups
    Backups,
    /// Read a backup from end to end and say whether it is sound (needs no server)
    Verify(verify::VerifyArgs),
    /// Restore a backup into an empty data directory (needs no server)
    Restore(restore::RestoreArgs),
}

/// Does it.
pub async fn run(args: ClusterArgs) -> Result<()> {
    if let Action::Certs(certs) = &args.action {
        return certs::run(certs, args.client.json);
    }
    let mut context = args.client.context()?;
    match args.action {
        Action::Certs(_) => {}
        Action::Status(args) => status::run(&mut context, &args).await?,
        Action::Remove(args) => remove::run(&mut context, args).await?,
        Action::Backup(args) => backup::run(&mut context, args).await?,
        Action::Backups => backups::run(&mut context).await?,
        Action::Verify(args) => verify::run(&mut context, args).await?,
        Action::Restore(args) => restore::run(&mut context, args).await?,
    }
    context.screen.flush()?;
    Ok(())
}

/// A number of bytes in a unit that keeps it short.
fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::bytes_text;

    #[test]
    fn bytes_are_short() {
        assert_eq!(bytes_text(512), "512 B");
        assert_eq!(bytes_text(1536), "1.5 KiB");
        assert_eq!(bytes_text(3 * 1024 * 1024 * 1024), "3.0 GiB");
    }
}
