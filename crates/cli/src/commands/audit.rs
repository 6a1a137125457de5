//! `bellwether audit`: who changed what, newest first.

use anyhow::Result;
use bellwether_client::PageFilter;
use clap::Args;
use futures::{StreamExt, TryStreamExt};

use crate::context::ClientArgs;
use crate::show::{Column, Table, Tone};

/// Shows the audit log.
#[derive(Args, Debug)]
pub struct AuditArgs {
    /// At most so many entries
    #[arg(long, default_value_t = 50)]
    limit: usize,
    #[command(flatten)]
    client: ClientArgs,
}

/// Shows it.
pub async fn run(args: AuditArgs) -> Result<()> {
    let mut context = args.client.context()?;
    let limit = Some(u32::try_from(args.limit.clamp(1, 1_000))?);
    let filter = PageFilter { limit, cursor: None };
    let entries: Vec<_> = context.client.audit_all(filter).take(args.limit).try_collect().await?;
    if context.json {
        entries.iter().try_for_each(|entry| context.print_json_line(entry))?;
    } else if entries.is_empty() {
        context.screen.line("nothing has been changed")?;
    } else {
        let mut table = Table::new(&[
            Column::new("WHEN"),
            Column::text("WHO"),
            Column::new("WHAT"),
            Column::name("SUBJECT"),
            Column::text("NAMESPACE"),
            Column::text("DETAIL"),
        ]);
        for entry in entries {
            table.row([
                (context.screen.when(entry.at.0), Tone::Faint),
                (entry.actor, Tone::Plain),
                (entry.action, Tone::Plain),
                (entry.subject, Tone::Plain),
                (entry.namespace.unwrap_or_default(), Tone::Faint),
                (entry.detail.unwrap_or_default(), Tone::Plain),
            ]);
        }
        context.screen.table(&table)?;
    }
    context.screen.flush()?;
    Ok(())
}
