//! `bellwether job pause | resume | trigger | maintenance`.

use anyhow::Result;
use bellwether_api::{Job, JobStatus, PauseRequest, Run, RunStatus};
use clap::Args;

use super::list::{job_name, next_text};
use crate::commands::group::MaintenanceFlags;
use crate::commands::run::follow;
use crate::context::Context;
use crate::exit::{self, Exit, eprint_line};
use crate::show::{Screen, now};
use crate::spec::is_once;

/// Which job to pause, and why.
#[derive(Args, Debug)]
pub struct PauseArgs {
    /// Key or id
    job: String,
    /// Why, for others
    #[arg(long)]
    note: Option<String>,
}

/// Which job.
#[derive(Args, Debug)]
pub struct JobName {
    /// Key or id
    job: String,
}

/// Which job to put into maintenance.
#[derive(Args, Debug)]
pub struct MaintenanceArgs {
    /// Key or id
    job: String,
    #[command(flatten)]
    how: MaintenanceFlags,
}

/// Which job to run now.
#[derive(Args, Debug)]
pub struct TriggerArgs {
    /// Key or id
    job: String,
    /// Print its output and wait for its end; exits with 1 if it does not succeed
    #[arg(long)]
    wait: bool,
}

/// Pauses it.
pub async fn pause(context: &mut Context, args: PauseArgs) -> Result<()> {
    let job = context.client.pause_job(&args.job, &PauseRequest { note: args.note }).await?;
    done(context, &job, "is paused")
}

/// Resumes it.
pub async fn resume(context: &mut Context, args: &JobName) -> Result<()> {
    let job = context.client.resume_job(&args.job).await?;
    let next = next_text(&context.screen, &job);
    let next = if next.is_empty() { next } else { format!(", next {next}") };
    done(context, &job, &format!("is resumed{next}"))
}

/// Puts it into maintenance.
pub async fn maintenance(context: &mut Context, args: &MaintenanceArgs) -> Result<()> {
    let job = context.client.maintain_job(&args.job, &args.how.request()?).await?;
    done(context, &job, "is in maintenance")
}

fn done(context: &mut Context, job: &Job, what: &str) -> Result<()> {
    if context.json {
        return context.print_json(job);
    }
    context.screen.line(&format!("{} {what}", job_name(job)))?;
    Ok(())
}

/// Runs it now.
pub async fn trigger(context: &mut Context, args: &TriggerArgs) -> Result<()> {
    let job = context.client.job(&args.job).await?;
    let runs = context.client.trigger_job_runs(&job.info.id).await?;
    let forward = brought_forward(&context.screen, &job);
    if args.wait {
        if !context.json {
            forward.iter().for_each(|text| eprint_line(text));
        }
        return wait(context, &runs).await;
    }
    if context.json {
        let answer = match runs.as_slice() {
            [run] => serde_json::json!({ "run_id": run }),
            runs => serde_json::json!({ "run_id": runs.first(), "run_ids": runs }),
        };
        return context.print_json(&answer);
    }
    for run in &runs {
        context.screen.line(run)?;
    }
    context.screen.flush()?;
    forward.iter().for_each(|text| eprint_line(text));
    if let Some(run) = runs.first() {
        eprint_line(&format!("started; see `bellwether run logs -f {run}`"));
    }
    Ok(())
}

/// What becomes of the time of a job that runs once and was waiting for it.
fn brought_forward(screen: &Screen, job: &Job) -> Option<String> {
    let due = job.info.execution_time.filter(|due| due.0 > now())?;
    if job.info.status != JobStatus::Scheduled || !is_once(&job.spec) {
        return None;
    }
    let name = job_name(job);
    Some(format!(
        "{name} was due {}; it is brought forward and will not run then",
        screen.when(due.0)
    ))
}

/// Prints the output of runs as it comes, one after another, and says how each ended.
async fn wait(context: &mut Context, ids: &[String]) -> Result<()> {
    let mut succeeded = true;
    for id in ids {
        let run = follow(context, id, None).await?;
        if context.json {
            context.print_json(&run)?;
        } else {
            tell_ending(context, &run);
        }
        context.screen.flush()?;
        succeeded &= run.status == RunStatus::Succeeded;
    }
    if succeeded { Ok(()) } else { Err(exit::silent(Exit::Failed)) }
}

/// Says how a run ended, below what it printed.
pub fn tell_ending(context: &Context, run: &Run) {
    let (status, _) = crate::show::run_status(run.status);
    let took = run.duration_ms.map(crate::show::duration_text);
    let took = took.map(|took| format!(" after {took}")).unwrap_or_default();
    let detail = run.detail.as_ref().or(run.reason.as_ref());
    let detail = detail.map(|detail| format!(": {detail}")).unwrap_or_default();
    let before = if context.screen.is_mid_line() { "\n" } else { "" };
    eprint_line(&format!("{before}{} {status}{took}{detail}", run.id));
}
