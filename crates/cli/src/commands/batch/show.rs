//! `bellwether batch list | show | cancel | runs`.

use anyhow::Result;
use bellwether_api::{Batch, BatchStatus, CancelRequest, RunStatus};
use bellwether_client::{BatchRunFilter, PageFilter};
use clap::Args;

use super::follow;
use super::pace::{count, ended};
use crate::commands::group::mark_text;
use crate::commands::job::{parse_run_status, target_text};
use crate::commands::listing::{self, Amount};
use crate::commands::run::run_table;
use crate::context::Context;
use crate::show::{Column, Screen, Table, Tone};

/// How many batches to list.
#[derive(Args, Debug)]
pub struct ListArgs {
    #[command(flatten)]
    amount: Amount,
}

/// Which batch to show.
#[derive(Args, Debug)]
pub struct ShowArgs {
    /// Key or id
    batch: String,
    /// Wait for its end and show how far it is meanwhile; exits with 1 unless all succeeded
    #[arg(long, visible_alias = "follow", short = 'w')]
    wait: bool,
}

/// Which batch to cancel, and why.
#[derive(Args, Debug)]
pub struct CancelArgs {
    /// Key or id
    batch: String,
    /// Why, for others
    #[arg(long)]
    note: Option<String>,
}

/// Which runs of a batch to list.
#[derive(Args, Debug)]
pub struct RunsArgs {
    /// Key or id
    batch: String,
    /// Only with this status; several with commas
    #[arg(long, value_parser = parse_run_status, value_delimiter = ',')]
    status: Vec<RunStatus>,
    #[command(flatten)]
    amount: Amount,
}

/// Lists batches.
pub async fn list(context: &mut Context, args: &ListArgs) -> Result<()> {
    let filter = PageFilter { limit: args.amount.page(context.json), cursor: None };
    let batches = context.client.batches_all(filter);
    let none = "there are no batches; make one with `bellwether batch create`";
    listing::print(context, args.amount, batches, none, batch_table).await
}

/// A batch's status as a word in a tone.
fn batch_status(batch: &Batch) -> (String, Tone) {
    let (name, tone) = match batch.status {
        BatchStatus::Scheduled => ("scheduled", Tone::Plain),
        BatchStatus::Running => ("running", Tone::Busy),
        BatchStatus::Canceling => ("canceling", Tone::Busy),
        BatchStatus::Completed if batch.succeeded == batch.total => ("completed", Tone::Good),
        BatchStatus::Completed => ("completed", Tone::Bad),
        BatchStatus::Canceled => ("canceled", Tone::Faint),
    };
    (name.to_owned(), tone)
}

fn batch_table(screen: &Screen, batches: &[Batch]) -> Table {
    let several = batches.iter().any(|batch| batch.namespace != batches[0].namespace);
    let mut table = Table::new(&[
        Column::text("NAMESPACE"),
        Column::new("BATCH"),
        Column::name("KEY"),
        Column::new("STATUS"),
        Column::number("ITEMS"),
        Column::number("OVER"),
        Column::number("RUNNING"),
        Column::number("FAILED"),
        Column::new("CREATED"),
        Column::text("DESCRIPTION"),
    ]);
    for batch in batches {
        let space = if several { batch.namespace.clone() } else { String::new() };
        let bad = batch.failed + batch.lost;
        table.row([
            (space, Tone::Faint),
            (batch.id.clone(), Tone::Plain),
            (batch.key.clone().unwrap_or_default(), Tone::Plain),
            batch_status(batch),
            (count(batch.total), Tone::Plain),
            (count(ended(batch)), Tone::Plain),
            (count(batch.running), Tone::Plain),
            (count(bad), if bad > 0 { Tone::Bad } else { Tone::Plain }),
            (screen.when(batch.created_at.0), Tone::Plain),
            (batch.description.clone().unwrap_or_default(), Tone::Faint),
        ]);
    }
    table
}

/// Shows a batch, or watches it to its end.
pub async fn run(context: &mut Context, args: &ShowArgs) -> Result<()> {
    let batch = context.client.batch(&args.batch).await?;
    if args.wait {
        return follow::wait(context, batch).await;
    }
    if context.json {
        return context.print_json(&batch);
    }
    print(&mut context.screen, &batch)
}

fn print(screen: &mut Screen, batch: &Batch) -> Result<()> {
    let (status, tone) = batch_status(batch);
    let title =
        format!("{}  {}", screen.paint(Tone::Strong, &batch.id), screen.paint(tone, &status));
    screen.line(&title)?;
    screen.field("key", batch.key.as_deref().unwrap_or_default())?;
    screen.field("namespace", &batch.namespace)?;
    screen.field("description", batch.description.as_deref().unwrap_or_default())?;
    if let Some(template) = &batch.template {
        screen.field("what", &target_text(template))?;
    }
    let created = format!("{} by {}", screen.clock_and_when(batch.created_at.0), batch.created_by);
    screen.field("created", &created)?;
    for (name, time) in [("begins", batch.schedule_time), ("ended", batch.finished_at)] {
        let text = time.map(|time| screen.clock_and_when(time.0)).unwrap_or_default();
        screen.field(name, &text)?;
    }
    let percent = ended(batch) * 100 / batch.total.max(1);
    screen.field("items", &count(batch.total))?;
    screen.field("over", &format!("{} ({percent}%)", count(ended(batch))))?;
    for (name, number) in [
        ("waiting", batch.waiting),
        ("retrying", batch.retrying),
        ("running", batch.running),
        ("succeeded", batch.succeeded),
        ("failed", batch.failed),
        ("canceled", batch.canceled),
        ("lost", batch.lost),
        ("skipped", batch.skipped),
    ] {
        screen.field(name, &if number > 0 { count(number) } else { String::new() })?;
    }
    if let Some(mark) = &batch.cancel {
        let text = mark_text(screen, "asked for", mark);
        screen.field("cancellation", &text)?;
    }
    if let Some(after) = &batch.on_complete {
        let became = match (&after.run, &after.error) {
            (Some(run), _) => format!(", triggered: {run}"),
            (None, Some(error)) => format!(", could not be triggered: {error}"),
            (None, None) => String::new(),
        };
        screen.field("then", &format!("{}{became}", after.job))?;
    }
    Ok(())
}

/// Cancels a batch.
pub async fn cancel(context: &mut Context, args: CancelArgs) -> Result<()> {
    let request = CancelRequest { note: args.note };
    let batch = context.client.cancel_batch(&args.batch, &request).await?;
    if context.json {
        return context.print_json(&batch);
    }
    let what = match batch.status {
        BatchStatus::Canceled => "is canceled",
        _ => "is being canceled: what has not begun never does, what runs is stopped",
    };
    context.screen.line(&format!("{} {what}", batch.id))?;
    Ok(())
}

/// Lists a batch's runs.
pub async fn runs(context: &mut Context, args: RunsArgs) -> Result<()> {
    let RunsArgs { batch, status, amount } = args;
    let limit = amount.page(context.json);
    let filter = BatchRunFilter { statuses: status, limit, cursor: None };
    let runs = context.client.batch_runs_all(&batch, filter);
    let none = "there are no such runs; items that have yet to be begun have none";
    listing::print(context, amount, runs, none, run_table).await
}
