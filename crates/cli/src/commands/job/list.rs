//! `bellwether job list` and `job runs`.

use anyhow::Result;
use bellwether_api::{Job, JobSpec, JobStatus, PublishTarget, RunStatus, TextOrList};
use bellwether_client::{JobFilter, PageFilter};
use clap::Args;
use futures::TryStreamExt;

use crate::commands::listing::{self, Amount};
use crate::commands::run::run_table;
use crate::context::Context;
use crate::show::{Column, Screen, Table, Tone, job_status, run_status};

/// Who has paused what a restore holds.
const HELD_BY: &str = "restore";

/// Which jobs to list.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// Only of this group
    #[arg(long)]
    group: Option<String>,
    /// Only of this owner
    #[arg(long)]
    owner: Option<String>,
    /// Only with this status: scheduled, running, paused, completed, failed, canceled
    #[arg(long, value_parser = parse_job_status)]
    status: Option<JobStatus>,
    /// Only those that a restore has paused because they may have run since the backup
    #[arg(long, conflicts_with = "status")]
    held: bool,
    /// Only with this label
    #[arg(long, value_name = "NAME=VALUE")]
    label: Option<String>,
    /// Only with a key that starts like this
    #[arg(long, value_name = "START")]
    key_prefix: Option<String>,
    #[command(flatten)]
    amount: Amount,
}

/// Reads a job's status.
fn parse_job_status(text: &str) -> Result<JobStatus, String> {
    serde_json::from_value(serde_json::Value::String(text.to_owned())).map_err(|_| {
        "a status is scheduled, running, paused, completed, failed or canceled".to_owned()
    })
}

/// Reads a run's status.
pub fn parse_run_status(text: &str) -> Result<RunStatus, String> {
    serde_json::from_value(serde_json::Value::String(text.to_owned())).map_err(|_| {
        "a status is scheduled, queued, claimed, running, retrying, succeeded, failed, canceled, \
         lost or skipped"
            .to_owned()
    })
}

/// Lists jobs.
pub async fn run(context: &mut Context, args: ListArgs) -> Result<()> {
    let ListArgs { group, owner, status, held, label, key_prefix, amount } = args;
    let limit = amount.page(context.json);
    let status = if held { Some(JobStatus::Paused) } else { status };
    let filter =
        JobFilter { namespace: None, group, owner, status, label, key_prefix, limit, cursor: None };
    let jobs = context.client.jobs_all(filter);
    let jobs = jobs.try_filter(|job| futures::future::ready(!held || is_held(job)));
    let none = if held {
        "no job is held by a restore"
    } else {
        "there are no such jobs; add one with `bellwether job add`"
    };
    listing::print(context, amount, jobs, none, job_table).await
}

/// Whether a restore has paused it, and nobody has let it go on since.
fn is_held(job: &Job) -> bool {
    job.info.paused.as_ref().is_some_and(|mark| mark.by == HELD_BY)
}

fn job_table(screen: &Screen, jobs: &[Job]) -> Table {
    let first = jobs.first().map(namespace);
    let several = jobs.iter().any(|job| Some(namespace(job)) != first);
    let mut table = Table::new(&[
        Column::text("NAMESPACE"),
        Column::name("JOB"),
        Column::new("STATUS"),
        Column::new("NEXT"),
        Column::new("LAST"),
        Column::text("SCHEDULE"),
        Column::text("WHAT"),
    ]);
    for job in jobs {
        let space = if several { namespace(job).to_owned() } else { String::new() };
        let (last, tone) = match &job.info.last_run {
            Some(last) => {
                let (status, tone) = run_status(last.status);
                (format!("{status} {}", screen.when(last.finished_at.0)), tone)
            }
            None => (String::new(), Tone::Faint),
        };
        table.row([
            (space, Tone::Faint),
            (job_name(job).to_owned(), Tone::Plain),
            job_status(&job.info),
            (next_text(screen, job), Tone::Plain),
            (last, tone),
            (job.info.schedule_text.clone(), Tone::Plain),
            (target_text(&job.spec), Tone::Faint),
        ]);
    }
    table
}

fn namespace(job: &Job) -> &str {
    job.spec.namespace.as_deref().unwrap_or("default")
}

/// When a job is next due, if it will be launched then.
pub fn next_text(screen: &Screen, job: &Job) -> String {
    match (job.info.status, job.info.execution_time) {
        (JobStatus::Scheduled | JobStatus::Running, Some(time)) => screen.when(time.0),
        _ => String::new(),
    }
}

/// What to call a job: its key, else its id.
pub fn job_name(job: &Job) -> &str {
    job.spec.key.as_deref().unwrap_or(&job.info.id)
}

/// What a job does, in a line.
pub fn target_text(spec: &JobSpec) -> String {
    if let Some(command) = &spec.command {
        return match command {
            TextOrList::Text(line) => line.clone(),
            TextOrList::List(argv) => argv.join(" "),
        };
    }
    if let Some(http) = &spec.http {
        let method =
            http.method.as_deref().unwrap_or(if http.body.is_some() { "POST" } else { "GET" });
        return format!("{method} {}", http.url);
    }
    if let Some(publish) = &spec.publish {
        return publish_text(publish);
    }
    match &spec.job_type {
        Some(name) => format!("handler {name}"),
        None => String::new(),
    }
}

fn publish_text(publish: &PublishTarget) -> String {
    if let Some(nats) = &publish.nats {
        return format!("publish {} to {}", nats.subject, nats.url);
    }
    if let Some(amqp) = &publish.amqp {
        let names = [&amqp.exchange, &amqp.routing_key];
        let names: Vec<&str> = names.into_iter().flatten().map(String::as_str).collect();
        return format!("publish {} to {}", names.join("/"), amqp.url);
    }
    match &publish.kafka {
        Some(kafka) => format!("publish {} to {}", kafka.topic, kafka.brokers.join(",")),
        None => String::new(),
    }
}

/// Which runs of a job to list.
#[derive(Args, Debug)]
pub struct RunsArgs {
    /// Key or id
    job: String,
    /// Only with this status
    #[arg(long, value_parser = parse_run_status)]
    status: Option<RunStatus>,
    #[command(flatten)]
    amount: Amount,
}

/// Lists a job's runs.
pub async fn runs(context: &mut Context, args: RunsArgs) -> Result<()> {
    let RunsArgs { job, status, amount } = args;
    let filter = PageFilter { limit: amount.page(context.json), cursor: None };
    let runs = context.client.job_runs_all(&job, filter);
    let runs = runs
        .try_filter(|run| futures::future::ready(status.is_none_or(|status| run.status == status)));
    let none = "there are no such runs yet; `bellwether job trigger` starts one now";
    listing::print(context, amount, runs, none, run_table).await
}
