//! `bellwether crontab export`.
//!
//! Every job becomes a line with a mark above it, so that an import of what was exported changes
//! nothing, or a comment that says why it is not there. A setting of a crontab holds for all lines
//! below it and cannot be taken back: only what all jobs share is written as one.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use bellwether_api::Job;
use bellwether_client::JobFilter;
use bellwether_core::crontab::{Entry, Format, parse, render};
use clap::Args;
use futures::TryStreamExt;

use super::convert::{Common, check, entry_of_job, shared_env, spec_of_entry};
use super::mark::Mark;
use crate::commands::job::target_text;
use crate::context::Context;
use crate::show::now;
use crate::spec::{canonical, is_once};

/// How a comment starts that says what a crontab cannot.
const NOTE: &str = "# not in this crontab:";

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

/// A job on its way to a line.
struct Line {
    entry: Entry,
    mark: Mark,
}

fn crontab(jobs: &[Job], format: Format) -> String {
    let shared = shared_env(jobs.iter().filter(|job| check(job).is_ok()));
    let mut lines = Vec::new();
    let mut notes = String::new();
    for job in jobs {
        let entry = entry_of_job(job, &shared);
        match entry.and_then(|entry| marked(job, entry, format)) {
            Ok(line) => lines.push(line),
            // Jobs that run once are no part of a crontab, and there may be millions.
            Err(_) if is_once(&job.spec) => {}
            Err(reason) => {
                let name = job.spec.key.as_deref().unwrap_or(&job.info.id);
                let what = format!("{}: {}", job.info.schedule_text, target_text(&job.spec));
                let what = what.replace(['\n', '\r'], " ");
                notes.push_str(&format!("{NOTE} {name}, since {reason}: {what}\n"));
            }
        }
    }
    // A crontab cannot take MAILTO back: lines without it come first.
    lines.sort_by_cached_key(|Line { entry, .. }| {
        let Entry { mailto, timezone, shell, key, .. } = entry.clone();
        (mailto, timezone, shell, key)
    });
    format!("{}{notes}", with_marks(&lines, format))
}

/// A job's line with its mark. Alone in a crontab it must read back.
fn marked(job: &Job, entry: Entry, format: Format) -> Result<Line, String> {
    let text = render(std::slice::from_ref(&entry), format);
    let back = parse(&text, format);
    let [back] = back.entries.as_slice() else {
        // The reason stands between what every note starts with and the line.
        let note = text.trim_end().strip_prefix(NOTE).unwrap_or(&text).trim();
        let line = format!(": {} {}", entry.schedule, entry.command).replace(['\n', '\r'], " ");
        return Err(note.strip_suffix(&line).unwrap_or(note).to_owned());
    };
    let alone = spec_of_entry(back, &Common::default());
    let words = |error: anyhow::Error| format!("{error:#}");
    let alone = canonical(&alone, now()).map_err(words)?;
    let mark = Mark::new(job, &alone).map_err(words)?;
    Ok(Line { entry, mark })
}

/// All lines as one crontab, each below its mark.
fn with_marks(lines: &[Line], format: Format) -> String {
    let entries: Vec<Entry> = lines.iter().map(|line| line.entry.clone()).collect();
    let text = render(&entries, format);
    let back = parse(&text, format);
    let mut written: Vec<String> = text.lines().map(str::to_owned).collect();
    // From the end, so that numbers of lines before it stay true.
    for (line, back) in lines.iter().zip(&back.entries).rev() {
        // Above the description, if there is one.
        let at = back.line - 1 - usize::from(back.comment.is_some());
        written.insert(at, line.mark.comment());
        let beyond = line.mark.beyond_cron();
        if !beyond.is_empty() {
            let beyond = beyond.join(", ").replace(['\n', '\r'], " ");
            written.insert(at, format!("{NOTE} what cron does not know: {beyond}"));
        }
    }
    written.into_iter().map(|line| line + "\n").collect()
}
