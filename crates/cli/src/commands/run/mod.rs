//! `bellwether run …`: executions.

mod follow;
mod logs;
mod show;

use anyhow::Result;
use bellwether_api::{Run, RunStatus};
use bellwether_client::RunFilter;
use clap::{Args, Subcommand};

use crate::commands::job::parse_run_status;
use crate::commands::listing::{self, Amount};
use crate::context::{ClientArgs, Context};
use crate::show::{Column, Screen, Table, Tone, duration_text, run_status};

pub use follow::follow;

/// Runs.
#[derive(Args, Debug)]
pub struct RunArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// List runs across jobs, newest first
    List(ListArgs),
    /// Show a run and its attempts
    Show(RunName),
    /// Show what happened to a run
    Events(RunName),
    /// Print what a run printed
    Logs(logs::LogsArgs),
    /// Cancel a run: it is not started, or its processes are stopped
    Cancel(RunName),
    /// Give a run that ended badly another go
    Retry(RunName),
}

/// Which run.
#[derive(Args, Debug)]
struct RunName {
    /// Id of the run
    run: String,
}

#[derive(Args, Debug)]
struct ListArgs {
    /// Only with this status; `failed` and `lost` are the dead letters
    #[arg(long, value_parser = parse_run_status)]
    status: Option<RunStatus>,
    /// Only of this queue
    #[arg(long)]
    queue: Option<String>,
    /// Only of jobs of this group
    #[arg(long)]
    group: Option<String>,
    #[command(flatten)]
    amount: Amount,
}

/// Does it.
pub async fn run(args: RunArgs) -> Result<()> {
    let mut context = args.client.context()?;
    match args.action {
        Action::List(args) => list(&mut context, args).await?,
        Action::Show(args) => show::run(&mut context, &args.run).await?,
        Action::Events(args) => show::events(&mut context, &args.run).await?,
        Action::Logs(args) => logs::run(&mut context, &args).await?,
        Action::Cancel(args) => {
            let run = context.client.cancel_run(&args.run).await?;
            let what = match context.client.run(&run).await?.status {
                RunStatus::Canceled => "is canceled",
                _ => "is being stopped: its processes get their grace period to end",
            };
            done(&mut context, &run, what)?;
        }
        Action::Retry(args) => {
            let run = context.client.retry_run(&args.run).await?;
            done(&mut context, &run, "is queued again")?;
        }
    }
    context.screen.flush()?;
    Ok(())
}

fn done(context: &mut Context, run: &str, what: &str) -> Result<()> {
    if context.json {
        return context.print_json(&serde_json::json!({ "run_id": run }));
    }
    context.screen.line(&format!("{run} {what}"))?;
    Ok(())
}

async fn list(context: &mut Context, args: ListArgs) -> Result<()> {
    let ListArgs { status, queue, group, amount } = args;
    let limit = amount.page(context.json);
    let filter = RunFilter { namespace: None, status, queue, group, limit, cursor: None };
    let runs = context.client.runs_all(filter);
    listing::print(context, amount, runs, "there are no such runs", run_table).await
}

/// Runs as a table.
pub fn run_table(screen: &Screen, runs: &[Run]) -> Table {
    let mut table = Table::new(&[
        Column::new("RUN"),
        Column::name("JOB"),
        Column::new("STATUS"),
        Column::new("DUE"),
        Column::new("STARTED"),
        Column::number("TOOK"),
        Column::number("EXIT"),
        Column::text("DETAIL"),
    ]);
    for run in runs {
        let started = run.started_at.map(|time| screen.when(time.0)).unwrap_or_default();
        let detail = run.detail.clone().or_else(|| run.reason.clone());
        let held = run.held_by.as_ref().map(|by| format!("waits: {by}"));
        table.row([
            (run.id.clone(), Tone::Plain),
            (run.key.clone().unwrap_or_default(), Tone::Plain),
            run_status(run.status),
            (screen.when(run.scheduled_at.0), Tone::Plain),
            (started, Tone::Plain),
            (run.duration_ms.map(duration_text).unwrap_or_default(), Tone::Plain),
            (run.exit_code.map(|code| code.to_string()).unwrap_or_default(), Tone::Plain),
            (detail.or(held).unwrap_or_default(), Tone::Faint),
        ]);
    }
    table
}
