//! `bellwether job edit`: by flags, or in an editor.

use std::io::Write;
use std::process::Command;

use anyhow::{Context as _, Result};
use bellwether_api::{Job, JobSpec};
use clap::Args;
use serde_json::Value;

use super::add::print_job;
use crate::context::Context;
use crate::exit::{eprint_line, failed, usage};
use crate::spec::{SpecFlags, merge_patch, read_specs};

/// Which job to change, and how.
#[derive(Args, Debug)]
pub struct EditArgs {
    /// Key or id
    job: String,
    #[command(flatten)]
    flags: SpecFlags,
}

/// Changes it. Only what differs is sent, so that changes of others to the rest stay.
pub async fn run(context: &mut Context, args: EditArgs) -> Result<()> {
    let job = context.client.job(&args.job).await?;
    let mut wanted = job.spec.clone();
    args.flags.apply(&mut wanted)?;
    let old = serde_json::to_value(&job.spec)?;
    let mut new = serde_json::to_value(&wanted)?;
    if new == old {
        new = serde_json::to_value(in_editor(&job)?)?;
    }
    let patch = merge_patch(&old, &new);
    if patch == Value::Object(serde_json::Map::new()) {
        eprint_line("nothing was changed");
        return Ok(());
    }
    let job = context.client.patch_job(&job.info.id, &patch).await?;
    print_job(context, &job, "changed")
}

/// Lets the caller change a job's YAML in their editor.
fn in_editor(job: &Job) -> Result<JobSpec> {
    let editor = ["VISUAL", "EDITOR"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.trim().is_empty()))
        .ok_or_else(|| usage("say what to change by flags (see --help), or set EDITOR"))?;
    let mut file = tempfile::Builder::new().prefix("bellwether-").suffix(".yaml").tempfile()?;
    let yaml = serde_yaml_ng::to_string(&serde_json::to_value(&job.spec)?)?;
    write!(
        file,
        "# The job {}. Save and leave to change it; leave it as it is to change nothing.\n{yaml}",
        job.info.id
    )?;
    file.flush()?;
    // An editor may be a command with arguments, as in `EDITOR="code --wait"`.
    let status = Command::new("/bin/sh")
        .args(["-c", "eval \"$0 \\\"\\$1\\\"\"", &editor])
        .arg(file.path())
        .status()
        .with_context(|| format!("cannot start the editor '{editor}'"))?;
    if !status.success() {
        return Err(failed(format!("the editor '{editor}' failed; nothing was changed")));
    }
    let text = std::fs::read_to_string(file.path())?;
    let mut specs = match read_specs("the job", &text) {
        Ok(specs) => specs,
        Err(error) => {
            let (_, path) = file.keep()?;
            let kept = format!("what you wrote is kept in '{}'", path.display());
            return Err(error.context(kept));
        }
    };
    match (specs.pop(), specs.is_empty()) {
        (Some(read), true) => Ok(read.spec),
        _ => Err(usage("there must be exactly one job in the file; nothing was changed")),
    }
}
