//! `bellwether cluster verify`: reads a backup from end to end.

use std::sync::Arc;

use anyhow::Result;
use bellwether_backup::{Place, Progress};
use clap::Args;

use super::bytes_text;
use super::restore::choose;
use super::watch::watched;
use crate::context::Context;
use crate::exit::{Exit, silent};

#[derive(Args, Debug)]
pub struct VerifyArgs {
    /// Where it is: a directory, or s3://BUCKET/PREFIX
    #[arg(value_name = "URL")]
    from: String,
    /// Which: its name, or a time for the newest one before it [default: the newest]
    #[arg(long, value_name = "BACKUP|TIME")]
    at: Option<String>,
    /// Of which cluster, if there are several: its id, or what the names of its backups end in
    #[arg(long, value_name = "ID")]
    cluster: Option<String>,
}

pub async fn run(context: &mut Context, args: VerifyArgs) -> Result<()> {
    let place = Place::open_existing(&args.from)?;
    let manifest = choose(&place, args.at.as_deref(), args.cluster.as_deref()).await?;
    let progress = Arc::new(Progress::default());
    let checking = bellwether_backup::verify(&place, manifest, &progress);
    let verdict = watched("checking", &progress, checking).await?;
    let (manifest, problems) = (&verdict.manifest, &verdict.problems);
    if context.json {
        context.print_json(&serde_json::json!({
            "backup": manifest.name,
            "sound": problems.is_empty(),
            "problems": problems,
            "shards": manifest.shards.len(),
            "rows": manifest.rows(),
            "stored_bytes": manifest.stored_bytes(),
        }))?;
    } else if problems.is_empty() {
        let (shards, rows) = (manifest.shards.len(), manifest.rows());
        let size = bytes_text(manifest.stored_bytes());
        let name = &manifest.name;
        context.screen.line(&format!("{name} is sound: {shards} shards, {rows} rows, {size}"))?;
    } else {
        context.screen.line(&format!("{} is damaged:", manifest.name))?;
        for problem in problems {
            context.screen.line(&format!("  {problem}"))?;
        }
    }
    context.screen.flush()?;
    if problems.is_empty() { Ok(()) } else { Err(silent(Exit::Failed)) }
}
