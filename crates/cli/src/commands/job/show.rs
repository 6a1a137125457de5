//! `bellwether job show`.

use anyhow::Result;
use bellwether_api::{Job, JobStatus};
use clap::Args;

use super::list::{job_name, target_text};
use crate::commands::group::mark_text;
use crate::context::Context;
use crate::show::{Tone, job_status, run_status};

/// How many coming times are shown.
const NEXT_SHOWN: u32 = 3;

/// Which job to show.
#[derive(Args, Debug)]
pub struct ShowArgs {
    /// Key or id
    job: String,
    /// The definition alone, as YAML that `apply` and `job add -f` read
    #[arg(long)]
    yaml: bool,
}

/// Shows it.
pub async fn run(context: &mut Context, args: &ShowArgs) -> Result<()> {
    let job = context.client.job(&args.job).await?;
    if args.yaml {
        let text = serde_yaml_ng::to_string(&serde_json::to_value(&job.spec)?)?;
        context.screen.line(text.trim_end())?;
        return Ok(());
    }
    if context.json {
        return context.print_json(&job);
    }
    print_head(context, &job)?;
    print_policies(context, &job)?;
    let next = context.client.next_times(&job.info.id, NEXT_SHOWN).await?;
    let times: Vec<String> =
        next.times.iter().map(|time| context.screen.clock_of_job(time.0, &job.spec)).collect();
    let paused = job.info.status == JobStatus::Paused;
    context.screen.field(if paused { "if resumed" } else { "next" }, &times.join("\n"))?;
    Ok(())
}

fn print_head(context: &mut Context, job: &Job) -> Result<()> {
    let screen = &mut context.screen;
    let (info, spec) = (&job.info, &job.spec);
    let (status, tone) = job_status(info);
    let title =
        format!("{}  {}", screen.paint(Tone::Strong, job_name(job)), screen.paint(tone, &status));
    screen.line(&title)?;
    screen
        .field("id", &format!("{} (shard {}, revision {})", info.id, info.shard, info.revision))?;
    screen.field("namespace", spec.namespace.as_deref().unwrap_or("default"))?;
    screen.field("group", spec.group.as_deref().unwrap_or_default())?;
    screen.field("owner", spec.owner.as_deref().unwrap_or_default())?;
    let labels: Vec<String> =
        spec.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    screen.field("labels", &labels.join(" "))?;
    screen.field("description", spec.description.as_deref().unwrap_or_default())?;
    screen.field("schedule", &info.schedule_text)?;
    screen.field("does", &target_text(spec))?;
    if let Some(mark) = &info.paused {
        let text = mark_text(screen, "since", mark);
        screen.field("paused", &text)?;
    }
    if let Some(mark) = &info.maintenance {
        let text = mark_text(screen, "since", mark);
        screen.field("maintenance", &text)?;
    }
    if let Some(mark) = &info.group_paused {
        let text = mark_text(screen, "since", mark);
        screen.field("group paused", &text)?;
    }
    if let Some(mark) = &info.group_maintenance {
        let text = mark_text(screen, "since", mark);
        screen.field("group maintained", &text)?;
    }
    let times = format!(
        "{}, changed {}",
        screen.clock_and_when(info.created_at.0),
        screen.when(info.updated_at.0)
    );
    screen.field("created", &times)?;
    let open = if info.open_runs.is_empty() {
        String::new()
    } else {
        format!(", open: {}", info.open_runs.join(" "))
    };
    screen.field("runs", &format!("{}{open}", info.runs))?;
    if let Some(last) = &info.last_run {
        let (status, tone) = run_status(last.status);
        let status = screen.paint(tone, &status);
        let when = screen.when(last.finished_at.0);
        screen.field("last run", &format!("{status} {when} ({})", last.id))?;
    }
    for warning in &info.warnings {
        screen.field("warning", warning)?;
    }
    Ok(())
}

/// The policies that were set, as they were set.
fn print_policies(context: &mut Context, job: &Job) -> Result<()> {
    const SHOWN: [&str; 23] = [
        "env",
        "cwd",
        "user",
        "shell",
        "grace",
        "memory_limit",
        "queue",
        "priority",
        "requires",
        "resources",
        "target_workers",
        "retries",
        "retry",
        "delivery",
        "misfire",
        "overlap",
        "ordering_key",
        "on_failure",
        "timeout",
        "expires_after",
        "success",
        "retention",
        "notify",
    ];
    let spec = serde_json::to_value(&job.spec)?;
    for name in SHOWN {
        let text = match spec.get(name) {
            None => continue,
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        context.screen.field(name, &text)?;
    }
    Ok(())
}
