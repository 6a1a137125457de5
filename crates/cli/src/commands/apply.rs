//! `bellwether apply -f FILE`: the server's jobs become what the file says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::Result;
use bellwether_api::Job;
use bellwether_client::{Client, JobFilter};
use clap::Args;
use futures::TryStreamExt;

use crate::context::{ClientArgs, Context};
use crate::exit::{self, Exit, eprint_line, usage};
use crate::show::{Column, Table, Tone, can_ask, confirmed};
use crate::spec::{Change, Described, Difference, name_of, read_specs, read_text};
use crate::sync::{self, Outcome, Planned, Wanted};

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
    /// Do not ask before deleting; needed if there is no terminal to ask at
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// Applies it.
pub async fn run(args: ApplyArgs) -> Result<()> {
    let mut context = args.client.context()?;
    let mut read = Vec::new();
    for path in &args.file {
        read.extend(read_specs(&name_of(path), &read_text(path)?)?);
    }
    let wanted = wanted(&context.client, read)?;
    let planned = sync::plan(&context.client, wanted).await?;
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
        if !args.yes && !can_ask() {
            return Err(usage(format!(
                "{} jobs would be deleted and there is no terminal to ask at; say --yes to delete \
                 them, --dry-run to see them; nothing was changed",
                doomed.len()
            )));
        }
        if !confirmed(&question, args.yes)? {
            return Err(usage("nothing was changed"));
        }
    }
    let outcomes = sync::execute(&context.client, &planned).await?;
    for job in &doomed {
        context.client.delete_job(&job.info.id).await?;
    }
    let rows = planned.iter().zip(&outcomes);
    let rows = rows.map(|(planned, outcome)| (planned, outcome.words(planned)));
    print(&mut context, rows, &doomed, "deleted")?;
    context.screen.flush()?;
    let refused = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Refused(_)));
    if refused { Err(exit::silent(Exit::Failed)) } else { Ok(()) }
}

/// The jobs by their keys, each of which may be there once.
fn wanted(client: &Client, read: Vec<Described>) -> Result<Vec<Wanted>> {
    if read.is_empty() {
        return Err(usage("there is no job in the file"));
    }
    let mut seen: BTreeMap<(Option<String>, String), String> = BTreeMap::new();
    let mut wanted = Vec::with_capacity(read.len());
    for Described { place, spec } in read {
        let Some(name) = spec.key.clone() else {
            return Err(usage(format!("{place} has no key; applied jobs need one")));
        };
        let namespace = spec.namespace.as_deref().or(client.namespace()).map(str::to_owned);
        if let Some(other) = seen.insert((namespace, name.clone()), place.clone()) {
            return Err(usage(format!("{place}: the key is there twice, first at {other}")));
        }
        wanted.push(Wanted { name, place, spec });
    }
    Ok(wanted)
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

/// What is told about a job.
struct Row<'a> {
    action: &'static str,
    namespace: Option<&'a str>,
    key: &'a str,
    detail: String,
    changes: Vec<serde_json::Value>,
}

/// What differs, for programs.
fn changes(planned: &Planned) -> Vec<serde_json::Value> {
    let Difference::Changed(changes) = &planned.difference else { return Vec::new() };
    let change = |change: &Change| serde_json::json!({ "field": change.field, "from": change.from, "to": change.to });
    changes.iter().map(change).collect()
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
    let mut row = |context: &mut Context, row: Row<'_>| {
        let Row { action, namespace, key, detail, changes } = row;
        match counts.iter_mut().find(|(known, _)| *known == action) {
            Some((_, count)) => *count += 1,
            None => counts.push((action, 1)),
        }
        if context.json {
            return context.print_json_line(&serde_json::json!({
                "action": action, "namespace": namespace, "key": key, "detail": detail,
                "changes": changes,
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
        let there = planned.there.as_ref().and_then(|job| job.spec.namespace.as_deref());
        let namespace = planned.spec.namespace.as_deref().or(there);
        let changes = changes(planned);
        row(context, Row { action, namespace, key: &planned.name, detail, changes })?;
    }
    for job in doomed {
        let key = job.spec.key.as_deref().unwrap_or(&job.info.id);
        let namespace = job.spec.namespace.as_deref();
        let (detail, changes) = (String::new(), Vec::new());
        row(context, Row { action: word, namespace, key, detail, changes })?;
    }
    if !context.json {
        context.screen.table(&table)?;
        context.screen.flush()?;
        let counts: Vec<String> =
            counts.iter().map(|(action, count)| format!("{count} {action}")).collect();
        eprint_line(&counts.join(", "));
    }
    Ok(())
}
