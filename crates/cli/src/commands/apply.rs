//! `bellwether apply -f FILE`: the server's jobs become what the file says.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;
use bellwether_api::{Job, JobSpec};
use bellwether_client::{Client, JobFilter};
use clap::Args;
use futures::TryStreamExt;

use crate::context::{ClientArgs, Context};
use crate::exit::{self, Exit, eprint_line, usage};
use crate::show::{Column, Table, Tone, confirmed};
use crate::spec::{read_specs, read_text};
use crate::sync::{self, Outcome, Planned};

/// Creates the jobs of a file and changes those that differ, by their keys.
#[derive(Args, Debug)]
pub struct ApplyArgs {
    /// YAML or JSON with jobs; - for standard input
    #[arg(long, short, value_name = "FILE", required = true)]
    file: Vec<PathBuf>,
    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Also delete jobs that are not in the file, of the groups that it names
    #[arg(long)]
    prune: bool,
    /// With --prune: delete by this label instead of by group
    #[arg(long, value_name = "NAME=VALUE", requires = "prune")]
    prune_label: Option<String>,
    /// Do not ask before deleting
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// Applies it.
pub async fn run(args: ApplyArgs) -> Result<()> {
    let mut context = args.client.context()?;
    let mut specs = Vec::new();
    for path in &args.file {
        specs.extend(read_specs(&read_text(path)?)?);
    }
    check_keys(&context.client, &specs)?;
    let planned = sync::plan(&context.client, specs).await?;
    let doomed = match args.prune {
        true => doomed(&context.client, &planned, args.prune_label.as_deref()).await?,
        false => Vec::new(),
    };
    if args.dry_run {
        let rows = planned.iter().map(|planned| (planned, planned.words()));
        print(&mut context, rows, &doomed, "delete")?;
        return Ok(context.screen.flush()?);
    }
    if !doomed.is_empty() {
        let question = format!("Delete {} jobs that are not in the file?", doomed.len());
        if !confirmed(&question, args.yes)? {
            return Err(usage("nothing was changed"));
        }
    }
    let outcomes = sync::execute(&context.client, &planned).await?;
    for job in &doomed {
        context.client.delete_job(&job.info.id).await?;
    }
    let rows = planned.iter().zip(outcomes.iter().map(Outcome::words));
    print(&mut context, rows, &doomed, "deleted")?;
    context.screen.flush()?;
    let refused = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Refused(_)));
    if refused { Err(exit::silent(Exit::Failed)) } else { Ok(()) }
}

fn check_keys(client: &Client, specs: &[JobSpec]) -> Result<()> {
    if specs.is_empty() {
        return Err(usage("there is no job in the file"));
    }
    let mut seen = BTreeSet::new();
    for (index, spec) in specs.iter().enumerate() {
        let Some(key) = &spec.key else {
            return Err(usage(format!("job {} has no key; applied jobs need one", index + 1)));
        };
        if !seen.insert((spec.namespace.as_deref().or(client.namespace()), key)) {
            return Err(usage(format!("the key '{key}' is in the file twice")));
        }
    }
    Ok(())
}

/// The jobs to be deleted: those in the file's groups, or with the label, that are not in it.
async fn doomed(client: &Client, planned: &[Planned], label: Option<&str>) -> Result<Vec<Job>> {
    let mut scopes: BTreeSet<(Option<String>, Option<String>)> = BTreeSet::new();
    for Planned { spec, .. } in planned {
        match (label, &spec.group) {
            (Some(_), _) => scopes.insert((spec.namespace.clone(), None)),
            (None, Some(group)) => scopes.insert((spec.namespace.clone(), Some(group.clone()))),
            (None, None) => false,
        };
    }
    if scopes.is_empty() {
        return Err(usage(
            "--prune deletes within the groups of the file, and it has none: give its jobs a \
             `group`, or say --prune-label NAME=VALUE",
        ));
    }
    let keep: BTreeSet<&str> =
        planned.iter().filter_map(|p| p.there.as_ref()).map(|job| job.info.id.as_str()).collect();
    let mut doomed = Vec::new();
    for (namespace, group) in scopes {
        let label = label.map(str::to_owned);
        let limit = Some(1_000);
        let filter = JobFilter { namespace, group, label, limit, ..JobFilter::default() };
        let jobs: Vec<Job> = client.jobs_all(filter).try_collect().await?;
        doomed.extend(jobs.into_iter().filter(|job| !keep.contains(job.info.id.as_str())));
    }
    Ok(doomed)
}

fn print<'a>(
    context: &mut Context,
    rows: impl Iterator<Item = (&'a Planned, (&'static str, String))>,
    doomed: &[Job],
    word: &'static str,
) -> Result<()> {
    let mut table = Table::new(&[
        Column::new("ACTION"),
        Column::text("NAMESPACE"),
        Column::name("JOB"),
        Column::text("DETAIL"),
    ]);
    let mut counts: Vec<(&'static str, usize)> = Vec::new();
    let mut row =
        |context: &mut Context, action, namespace: Option<&str>, key: &str, detail: String| {
            match counts.iter_mut().find(|(known, _)| *known == action) {
                Some((_, count)) => *count += 1,
                None => counts.push((action, 1)),
            }
            if context.json {
                return context.print_json_line(&serde_json::json!({
                    "action": action, "namespace": namespace, "key": key, "detail": detail,
                }));
            }
            let tone = match action {
                "create" | "created" => Tone::Good,
                "change" | "changed" => Tone::Busy,
                "unchanged" => Tone::Faint,
                _ => Tone::Bad,
            };
            table.row([
                (action.to_owned(), tone),
                (namespace.unwrap_or_default().to_owned(), Tone::Faint),
                (key.to_owned(), Tone::Plain),
                (detail, Tone::Plain),
            ]);
            Ok(())
        };
    for (planned, (action, detail)) in rows {
        row(context, action, planned.spec.namespace.as_deref(), &planned.key, detail)?;
    }
    for job in doomed {
        let key = job.spec.key.as_deref().unwrap_or(&job.info.id);
        row(context, word, job.spec.namespace.as_deref(), key, String::new())?;
    }
    if !context.json {
        context.screen.table(&table)?;
        let counts: Vec<String> =
            counts.iter().map(|(action, count)| format!("{count} {action}")).collect();
        eprint_line(&counts.join(", "));
    }
    Ok(())
}
