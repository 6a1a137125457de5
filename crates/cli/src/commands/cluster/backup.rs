//! `bellwether cluster backup`: begins one, and follows it if asked to.

use std::time::Duration;

use anyhow::Result;
use bellwether_api::{Backup, BackupSpec, BackupState};
use bellwether_client::Client;
use clap::Args;

use super::bytes_text;
use super::watch::tell;
use crate::commands::patience::Patience;
use crate::context::Context;
use crate::exit::failed;
use crate::show::items_bar;

/// How soon to look again at first, and how rarely at most.
const LOOK_FIRST: Duration = Duration::from_millis(20);
const LOOK_MAX: Duration = Duration::from_millis(500);

#[derive(Args, Debug)]
pub struct BackupArgs {
    /// Where to: a directory on the server's machine, or s3://BUCKET/PREFIX [default: the server's --backup-to]
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    /// Wait until it is complete
    #[arg(long)]
    wait: bool,
}

pub async fn run(context: &mut Context, args: BackupArgs) -> Result<()> {
    let mut backup = context.client.create_backup(&BackupSpec { to: args.to }).await?;
    if args.wait {
        backup = until_over(&context.client, backup).await?;
    }
    if context.json {
        context.print_json(&backup)?;
    } else {
        context.screen.line(&told(&backup))?;
    }
    match backup.state {
        BackupState::Running | BackupState::Complete => Ok(()),
        _ => Err(failed(backup.error.clone().unwrap_or_else(|| interrupted(&backup)))),
    }
}

/// What is told of one that nobody takes any more.
fn interrupted(backup: &Backup) -> String {
    let who =
        backup.node.as_ref().map_or("the server".to_owned(), |node| format!("the node '{node}'"));
    format!("{who} was restarted before the backup was complete; take another")
}

fn told(backup: &Backup) -> String {
    let Backup { name, to, rows, .. } = backup;
    match backup.state {
        BackupState::Running => {
            format!(
                "{name} is being taken to {to}; `bellwether cluster backups` shows how far it is"
            )
        }
        BackupState::Complete => {
            format!("{name} is complete in {to}: {rows} rows, {}", bytes_text(backup.stored_bytes))
        }
        _ => format!("{name} could not be taken"),
    }
}

/// Looks at a backup until it is over, through moments in which the server does not answer. Whichever
/// node is asked, it asks the one that takes it.
async fn until_over(client: &Client, mut backup: Backup) -> Result<Backup> {
    let bar = items_bar(u64::from(backup.shards));
    let mut patience = Patience::default();
    let mut pause = LOOK_FIRST;
    while backup.state == BackupState::Running {
        let shards = (backup.shards_done, backup.shards);
        tell(&bar, "backup", shards, backup.rows, backup.stored_bytes);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LOOK_MAX);
        match client.backup(&backup.name).await {
            Ok(found) => {
                patience.answered("");
                backup = Backup { node: found.node.clone().or(backup.node), ..found };
            }
            Err(error) if error.status() == Some(404) => {
                bar.finish_and_clear();
                return Err(failed(interrupted(&backup)));
            }
            Err(error) => patience.after(error).await?,
        }
    }
    bar.finish_and_clear();
    Ok(backup)
}
