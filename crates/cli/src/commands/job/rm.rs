//! `bellwether job rm`.

use anyhow::Result;
use clap::Args;

use crate::context::Context;
use crate::exit::{eprint_line, usage};
use crate::show::confirmed;

/// Which jobs to delete.
#[derive(Args, Debug)]
pub struct RmArgs {
    /// Keys or ids
    #[arg(required = true)]
    jobs: Vec<String>,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// A job that is not there is no error
    #[arg(long)]
    ignore_missing: bool,
}

/// Deletes them.
pub async fn run(context: &mut Context, args: RmArgs) -> Result<()> {
    let question = match args.jobs.as_slice() {
        [job] => format!("Delete the job '{job}' with its history?"),
        jobs => format!("Delete {} jobs with their history?", jobs.len()),
    };
    if !confirmed(&question, args.yes)? {
        return Err(usage("nothing was deleted"));
    }
    for job in &args.jobs {
        match context.client.delete_job(job).await {
            Ok(()) if context.json => {
                context.print_json_line(&serde_json::json!({ "deleted": job }))?;
            }
            Ok(()) => context.screen.line(&format!("deleted {job}"))?,
            Err(error) if error.is_not_found() && args.ignore_missing => {
                eprint_line(&format!("there is no job '{job}'"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
