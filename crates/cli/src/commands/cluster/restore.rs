//! `bellwether cluster restore`: a backup becomes the data directory of a new cluster.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use bellwether_api::{Instant, Restored};
use bellwether_backup::{BackupError, Listed, Manifest, Place, Progress, Restore};
use bellwether_core::record::RestoreRow;
use bellwether_core::time::Time;
use clap::Args;

use super::bytes_text;
use super::watch::watched;
use crate::context::Context;
use crate::exit::eprint_line;
use crate::show::{Column, Table, Tone, now, parse_time};

/// The most backups that are looked at.
const LISTED_MAX: usize = 1_000;

#[derive(Args, Debug)]
pub struct RestoreArgs {
    /// Where the backup is: a directory, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "URL")]
    from: String,
    /// The new data directory; it must be empty or not there yet
    #[arg(long, value_name = "DIR", required_unless_present = "list")]
    data_dir: Option<PathBuf>,
    /// Which: its name, or a time for the newest one before it [default: the newest]
    #[arg(long, value_name = "BACKUP|TIME")]
    at: Option<String>,
    /// Of which cluster, if there are several: its id, or what the names of its backups end in
    #[arg(long, value_name = "ID")]
    cluster: Option<String>,
    /// Show what there is, and restore nothing
    #[arg(long)]
    list: bool,
}

pub async fn run(context: &mut Context, args: RestoreArgs) -> Result<()> {
    let place = Place::open_existing(&args.from)?;
    let Some(data_dir) = args.data_dir.filter(|_| !args.list) else {
        return list(context, bellwether_backup::list(&place, LISTED_MAX).await?);
    };
    let manifest = choose(&place, args.at.as_deref(), args.cluster.as_deref()).await?;
    let id = format!("{:016x}{:016x}", rand::random::<u64>(), rand::random::<u64>());
    let what = Restore { manifest, data_dir: data_dir.clone(), id, now: now() };
    let progress = Arc::new(Progress::default());
    let restoring = bellwether_backup::restore(&place, &what, &progress);
    let row = watched("restoring", &progress, restoring).await?;
    if context.json {
        return context.print_json(&restored(&row));
    }
    tell(context, &row)?;
    context.screen.flush()?;
    eprint_line(&format!(
        "start it with `bellwether server --data-dir {}`; servers of the old cluster must not run",
        data_dir.display()
    ));
    Ok(())
}

/// The backup that is meant.
pub async fn choose(place: &Place, at: Option<&str>, cluster: Option<&str>) -> Result<Manifest> {
    let newest = bellwether_backup::newest;
    match at {
        None => Ok(newest(place, cluster, None).await?),
        Some(name) if name.starts_with("backup-") => {
            Ok(bellwether_backup::find(place, name).await?)
        }
        Some(at) => {
            let zone = jiff::tz::TimeZone::system();
            let before = parse_time(at, &zone, now()).map_err(crate::exit::usage)?;
            let found = newest(place, cluster, Some(before)).await;
            let missing =
                || BackupError::NotFound { name: at.to_owned(), place: place.to_string() };
            Ok(found.map_err(|error| match error {
                BackupError::None(_) => missing(),
                other => other,
            })?)
        }
    }
}

fn list(context: &mut Context, all: Vec<Listed>) -> Result<()> {
    if context.json {
        for listed in &all {
            context.print_json_line(&serde_json::json!({
                "name": listed.name,
                "complete": listed.manifest.is_some(),
                "cluster": listed.manifest.as_ref().map(|manifest| &manifest.cluster),
                "problem": listed.problem,
            }))?;
        }
        return Ok(());
    }
    let mut table = Table::new(&[
        Column::name("BACKUP"),
        Column::new("STATE"),
        Column::number("ROWS"),
        Column::number("SIZE"),
        Column::text("CLUSTER"),
    ]);
    for listed in all {
        let (state, tone) = match (&listed.manifest, &listed.problem) {
            (Some(_), _) => ("complete", Tone::Good),
            (None, Some(_)) => ("damaged", Tone::Bad),
            (None, None) => ("incomplete", Tone::Faint),
        };
        let of = listed.manifest;
        let text = |of: Option<String>| (of.unwrap_or_default(), Tone::Plain);
        table.row([
            (listed.name, Tone::Plain),
            (state.to_owned(), tone),
            text(of.as_ref().map(|manifest| manifest.rows().to_string())),
            text(of.as_ref().map(|manifest| bytes_text(manifest.stored_bytes()))),
            text(of.map(|manifest| manifest.cluster)),
        ]);
    }
    context.screen.table(&table)?;
    Ok(())
}

fn restored(row: &RestoreRow) -> Restored {
    Restored {
        backup: row.backup.clone(),
        from_cluster: row.from_id.clone(),
        taken_at: Instant(Time(row.taken_ms)),
        restored_at: Instant(Time(row.restored_ms)),
        held_jobs: row.held_jobs,
        lost_runs: row.lost_runs,
        repeated_runs: row.repeated_runs,
        held_batches: row.held_batches,
    }
}

fn tell(context: &mut Context, row: &RestoreRow) -> Result<()> {
    let screen = &mut context.screen;
    screen.field("backup", &row.backup)?;
    screen.field("taken", &screen.clock_and_when(Time(row.taken_ms)))?;
    for (count, what) in [
        (row.held_jobs, "jobs are held: they must not run twice and may have run since"),
        (row.lost_runs, "runs of such jobs were open and are lost"),
        (row.repeated_runs, "runs of other jobs were with a worker and will be started again"),
        (row.held_batches, "batches have items left, which become jobs that are held"),
    ] {
        if count > 0 {
            screen.line(&format!("{count} {what}"))?;
        }
    }
    if row.held_jobs + row.held_batches > 0 {
        screen.line("`bellwether job list --held` shows what is held, `bellwether job resume` lets it go on")?;
    }
    Ok(())
}
