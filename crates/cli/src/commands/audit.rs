//! `bellwether audit`: who changed what, newest first.

use anyhow::Result;
use bellwether_api::AuditEntry;
use bellwether_client::{Client, ClientError, PageFilter};
use clap::Args;
use futures::TryStreamExt;

use super::listing::{self, Amount};
use crate::context::ClientArgs;
use crate::show::{Column, Screen, Table, Tone};

/// Jobs asked for at once.
const LOOKUPS_AT_ONCE: usize = 16;

/// Shows the audit log.
#[derive(Args, Debug)]
pub struct AuditArgs {
    #[command(flatten)]
    amount: Amount,
    #[command(flatten)]
    client: ClientArgs,
}

/// Shows it.
pub async fn run(args: AuditArgs) -> Result<()> {
    let mut context = args.client.context()?;
    let filter = PageFilter { limit: args.amount.page(context.json), cursor: None };
    let entries = context.client.audit_all(filter);
    if context.json {
        listing::print(&mut context, args.amount, entries, "", rows).await?;
    } else {
        let client = context.client.clone();
        let named = entries.map_ok(move |entry| with_key(client.clone(), entry));
        let named = named.try_buffered(LOOKUPS_AT_ONCE);
        let none = "nothing has been changed";
        listing::print(&mut context, args.amount, named, none, rows).await?;
    }
    context.screen.flush()?;
    Ok(())
}

/// Puts a job's key before its id, as long as the job is there.
async fn with_key(client: Client, mut entry: AuditEntry) -> Result<AuditEntry, ClientError> {
    if !entry.subject.starts_with("job_") {
        return Ok(entry);
    }
    match client.job(&entry.subject).await {
        Ok(job) => {
            if let Some(key) = job.spec.key {
                entry.subject = format!("{key} ({})", entry.subject);
            }
            Ok(entry)
        }
        Err(error) if error.is_not_found() => Ok(entry),
        Err(error) => Err(error),
    }
}

fn table() -> Table {
    Table::new(&[
        Column::new("WHEN"),
        Column::text("WHO"),
        Column::new("WHAT"),
        Column::name("SUBJECT"),
        Column::text("NAMESPACE"),
        Column::text("DETAIL"),
    ])
}

fn rows(screen: &Screen, entries: &[AuditEntry]) -> Table {
    let mut table = table();
    for entry in entries {
        table.row([
            (screen.when(entry.at.0), Tone::Faint),
            (entry.actor.clone(), Tone::Plain),
            (entry.action.clone(), Tone::Plain),
            (entry.subject.clone(), Tone::Plain),
            (entry.namespace.clone().unwrap_or_default(), Tone::Faint),
            (entry.detail.clone().unwrap_or_default(), Tone::Plain),
        ]);
    }
    table
}
