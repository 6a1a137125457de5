//! `bellwether crontab export`.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use bellwether_api::Job;
use bellwether_client::JobFilter;
use bellwether_core::crontab::{Entry, Format, render};
use clap::Args;
use futures::TryStreamExt;

use super::convert::entry_of_job;
use crate::commands::job::target_text;
use crate::context::Context;

/// Writes jobs as a crontab. What a crontab cannot say becomes a comment that says so.
#[derive(Args, Debug)]
pub struct ExportArgs {
    /// Only of this group
    #[arg(long)]
    group: Option<String>,
    /// Only with a key that starts like this
    #[arg(long, value_name = "START")]
    key_prefix: Option<String>,
    /// With a user after the schedule, as in /etc/crontab
    #[arg(long)]
    system: bool,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes it.
pub async fn run(context: &mut Context, args: ExportArgs) -> Result<()> {
    let ExportArgs { group, key_prefix, system, output } = args;
    let filter = JobFilter { group, key_prefix, limit: Some(1_000), ..JobFilter::default() };
    let jobs: Vec<Job> = context.client.jobs_all(filter).try_collect().await?;
    let text = crontab(&jobs, if system { Format::System } else { Format::User });
    match output {
        Some(path) => std::fs::write(&path, text)
            .with_context(|| format!("cannot write '{}'", path.display()))?,
        None => context.screen.bytes(text.as_bytes())?,
    }
    Ok(())
}

fn crontab(jobs: &[Job], format: Format) -> String {
    let mut entries = Vec::new();
    let mut notes = String::new();
    for job in jobs {
        match entry_of_job(job) {
            Ok(entry) => entries.push(entry),
            // Jobs that run once are no part of a crontab, and there may be millions.
            Err(_) if is_once(job) => {}
            Err(reason) => {
                let name = job.spec.key.as_deref().unwrap_or(&job.info.id);
                let what = format!("{}: {}", job.info.schedule_text, target_text(&job.spec));
                let what = what.replace(['\n', '\r'], " ");
                notes.push_str(&format!("# not in this crontab: {name}, since {reason}: {what}\n"));
            }
        }
    }
    // A crontab cannot take a setting back: lines with fewer come first.
    entries.sort_by_cached_key(settings_first);
    format!("{}{notes}", render(&entries, format))
}

/// What lines are sorted by: how much is set for them, what, and their name.
fn settings_first(entry: &Entry) -> impl Ord + use<> {
    let Entry { env, mailto, timezone, shell, key, .. } = entry.clone();
    (env.len() + usize::from(mailto.is_some()), mailto, env, timezone, shell, key)
}

fn is_once(job: &Job) -> bool {
    if job.spec.schedule_time.is_some() {
        return true;
    }
    match job.spec.schedule.as_ref().map(crate::spec::schedule_object) {
        Some(Ok(schedule)) => schedule.at.is_some() || schedule.delay.is_some(),
        _ => false,
    }
}
