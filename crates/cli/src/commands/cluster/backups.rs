//! `bellwether cluster backups`: which there are.

use anyhow::Result;
use bellwether_api::{Backup, BackupState};

use super::{bytes_text, say_missing};
use crate::context::Context;
use crate::exit::eprint_line;
use crate::show::{Column, Table, Tone};

pub async fn run(context: &mut Context) -> Result<()> {
    let listed = context.client.backups().await?;
    let backups = listed.items;
    say_missing("backups that are being taken", &listed.missing_nodes);
    if context.json {
        for backup in &backups {
            context.print_json_line(backup)?;
        }
        return Ok(());
    }
    if backups.is_empty() {
        eprint_line("there are no backups; `bellwether cluster backup --to URL` takes one");
        return Ok(());
    }
    let mut table = Table::new(&[
        Column::name("BACKUP"),
        Column::new("STATE"),
        Column::new("BEGUN"),
        Column::number("SHARDS"),
        Column::number("ROWS"),
        Column::number("SIZE"),
        Column::text("WHERE"),
    ]);
    for backup in backups {
        let begun = backup.begun_at.map(|at| context.screen.when(at.0)).unwrap_or_default();
        let (state, tone) = state(&backup);
        let place = place(&backup);
        table.row([
            (backup.name, Tone::Plain),
            (state.to_owned(), tone),
            (begun, Tone::Plain),
            (format!("{}/{}", backup.shards_done, backup.shards), Tone::Plain),
            (backup.rows.to_string(), Tone::Plain),
            (bytes_text(backup.stored_bytes), Tone::Plain),
            (place, Tone::Faint),
        ]);
    }
    context.screen.table(&table)?;
    Ok(())
}

/// Where it is and who takes it, or why it is not there.
fn place(backup: &Backup) -> String {
    match (&backup.error, &backup.node) {
        (Some(error), _) => error.clone(),
        (None, Some(node)) => format!("{} (by {node})", backup.to),
        (None, None) => backup.to.clone(),
    }
}

fn state(backup: &Backup) -> (&'static str, Tone) {
    match backup.state {
        BackupState::Running => ("running", Tone::Busy),
        BackupState::Complete => ("complete", Tone::Good),
        BackupState::Failed => ("failed", Tone::Bad),
        BackupState::Incomplete => ("incomplete", Tone::Faint),
        BackupState::Damaged => ("damaged", Tone::Bad),
    }
}
