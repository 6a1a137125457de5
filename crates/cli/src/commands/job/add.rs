//! `bellwether job add`: one job by flags, or as many as a file has.

use std::path::PathBuf;

use anyhow::Result;
use bellwether_api::{BatchResult, Job, JobSpec, JobStatus};
use clap::Args;

use super::list::job_name;
use crate::context::Context;
use crate::exit::{self, Exit, eprint_line, usage};
use crate::show::progress;
use crate::spec::{Described, SpecFlags, name_of, read_specs, read_text};
use crate::words;

/// Jobs sent with one request.
const BATCH: usize = 1_000;

/// Creates a job. With a key, adding the same job again changes nothing.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  bellwether job add --key nightly --cron '5 2 * * 6' --timezone Europe/Berlin -- make-report --full\n  \
                        bellwether job add --every 5m --http https://example.com/ping --retries 3\n  \
                        bellwether job add --delay 30m -- 'echo it is time >> /tmp/log'\n  \
                        bellwether job add -f jobs.yaml"
)]
pub struct AddArgs {
    /// YAML or JSON with one job or many; - for standard input. Flags go over what it says
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Replace the job that has this key
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    flags: SpecFlags,
}

/// Creates it.
pub async fn run(context: &mut Context, args: AddArgs) -> Result<()> {
    let mut specs = match &args.file {
        Some(path) => read_specs(&name_of(path), &read_text(path)?)?,
        None => vec![Described { place: String::new(), spec: JobSpec::default() }],
    };
    for read in &mut specs {
        args.flags.apply(&mut read.spec)?;
    }
    if specs.is_empty() {
        return Err(usage("there is no job in the file"));
    }
    match (specs.len(), specs.pop()) {
        (1, Some(read)) => one(context, read.spec, args.replace).await,
        (_, last) => {
            specs.extend(last);
            many(context, &specs, args.replace).await
        }
    }
}

async fn one(context: &mut Context, spec: JobSpec, replace: bool) -> Result<()> {
    let (job, word) = if replace {
        let key = spec.key.clone().ok_or_else(|| usage("--replace needs a --key"))?;
        let put = context.client.put_job(&key, spec).await?;
        (put.job, if put.new { "created" } else { "replaced" })
    } else {
        let created = context.client.create_job(spec).await?;
        (created.job, if created.new { "created" } else { "exists already, unchanged:" })
    };
    print_job(context, &job, word)
}

/// Tells what became of a job, and when it will run.
pub fn print_job(context: &mut Context, job: &Job, word: &str) -> Result<()> {
    if context.json {
        return context.print_json(job);
    }
    let key = job.spec.key.as_ref().map(|key| format!(" ({key})")).unwrap_or_default();
    context.screen.line(&format!("{word} {}{key}", job.info.id))?;
    context.screen.line(&format!("  {}", job.info.schedule_text))?;
    if job.info.status == JobStatus::Paused {
        let resume =
            format!("  paused: nothing runs until `bellwether job resume {}`", job_name(job));
        context.screen.line(&resume)?;
    } else if let Some(time) = job.info.execution_time {
        let when = context.screen.clock_of_job(time.0, &job.spec);
        context.screen.line(&format!("  next: {when}"))?;
    }
    for warning in &job.info.warnings {
        eprint_line(&format!("warning: {warning}"));
    }
    Ok(())
}

async fn many(context: &mut Context, read: &[Described], replace: bool) -> Result<()> {
    if replace {
        return Err(usage("--replace is for one job; for many use `bellwether apply -f FILE`"));
    }
    let bar = progress(read.len(), "creating");
    let (mut created, mut existing, mut failed) = (0, 0, 0);
    for batch in read.chunks(BATCH) {
        let specs: Vec<JobSpec> = batch.iter().map(|read| read.spec.clone()).collect();
        let answer = context.client.create_jobs(&specs).await?;
        for (read, result) in batch.iter().zip(&answer.results) {
            tell(context, &read.place, result)?;
        }
        created += answer.created;
        existing += answer.existing;
        failed += answer.failed;
        bar.inc(batch.len() as u64);
    }
    bar.finish_and_clear();
    if !context.json {
        let text = format!("{created} created, {existing} existed already, {failed} refused");
        context.screen.line(&text)?;
    }
    context.screen.flush()?;
    if failed > 0 { Err(exit::silent(Exit::Failed)) } else { Ok(()) }
}

fn tell(context: &mut Context, place: &str, result: &BatchResult) -> Result<()> {
    if context.json {
        return context.print_json_line(result);
    }
    if let Some(problem) = &result.error {
        eprint_line(&format!("{place}: {}", words::of_problem(problem)));
    }
    Ok(())
}
