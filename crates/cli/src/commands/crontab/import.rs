//! `bellwether crontab import`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use bellwether_api::JobSpec;
use bellwether_client::ClientError;
use bellwether_core::crontab::{Crontab, Entry, Format, Problem, parse};
use bellwether_core::schedule::{Rule, Schedule, ScheduleSpec, check_timezone};
use clap::Args;
use jiff::tz::TimeZone;

use super::convert::{Common, spec_of_entry};
use super::mark::Mark;
use crate::context::Context;
use crate::exit::{self, Exit, eprint_line, usage};
use crate::show::{Column, Table, Tone, now};
use crate::spec::{canonical, read_text};
use crate::sync::{self, Outcome, Planned, Wanted};

/// Makes jobs of a crontab's lines, by keys that stay the same when a line moves.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  crontab -l | bellwether crontab import - --dry-run\n  \
                        bellwether crontab import /etc/crontab --system --group host1 --prefix host1-")]
pub struct ImportArgs {
    /// The crontab; - for standard input
    file: PathBuf,
    /// Lines have a user after the schedule, as in /etc/crontab and /etc/cron.d
    #[arg(long)]
    system: bool,
    /// Show what each line would become, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// The group of the jobs
    #[arg(long)]
    group: Option<String>,
    /// Put before every key
    #[arg(long, default_value = "")]
    prefix: String,
    /// The zone of lines without CRON_TZ [default: this machine's]
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// The user the commands run as, for lines that name none
    #[arg(long)]
    user: Option<String>,
}

/// A line on its way to a job.
struct Line {
    entry: Entry,
    planned: Planned,
}

/// Imports it.
pub async fn run(context: &mut Context, args: ImportArgs) -> Result<()> {
    let format = if args.system { Format::System } else { Format::User };
    let text = read_text(&args.file)?;
    let mut crontab = parse(&text, format);
    let common = common(context, &args)?;
    let (entries, wanted) = jobs(context, &text, &mut crontab, format, &common).await?;
    let planned = sync::plan(&context.client, wanted).await?;
    let outcomes = match args.dry_run {
        true => None,
        false => Some(sync::execute(&context.client, &planned).await?),
    };
    let lines = entries.into_iter().zip(planned);
    let lines: Vec<Line> = lines.map(|(entry, planned)| Line { entry, planned }).collect();
    if context.json {
        print_json(context, &lines, outcomes.as_deref(), &crontab)?;
    } else {
        print_table(context, &lines, outcomes.as_deref())?;
        context.screen.flush()?;
        print_notes(&crontab, &lines, args.dry_run);
    }
    context.screen.flush()?;
    let refused = outcomes.iter().flatten().any(|outcome| matches!(outcome, Outcome::Refused(_)));
    if refused || !crontab.problems.is_empty() { Err(exit::silent(Exit::Failed)) } else { Ok(()) }
}

/// The jobs of a crontab's lines. Lines that cannot become one join its problems.
async fn jobs(
    context: &Context,
    text: &str,
    crontab: &mut Crontab,
    format: Format,
    common: &Common,
) -> Result<(Vec<Entry>, Vec<Wanted>)> {
    let lines: Vec<&str> = text.lines().collect();
    let (mut entries, mut jobs) = (Vec::new(), Vec::new());
    let mut seen: BTreeMap<(Option<String>, String), usize> = BTreeMap::new();
    for entry in std::mem::take(&mut crontab.entries) {
        let job = match job_of_line(&lines, &entry, format, common) {
            Ok(job) => named(context, job, &entry).await,
            Err(reason) => Err(reason),
        };
        let job = job.and_then(|job| {
            let name = (job.spec.namespace.clone(), job.name.clone());
            match seen.insert(name, entry.line) {
                None => Ok(job),
                Some(other) => Err(anyhow!("line {other} is the job '{}' already", job.name)),
            }
        });
        match job {
            Ok(job) => {
                jobs.push(job);
                entries.push(entry);
            }
            Err(error) if error.is::<ClientError>() => return Err(error),
            Err(error) => {
                let text = lines.get(entry.line - 1).copied().unwrap_or_default().to_owned();
                let reason = format!("{error:#}");
                crontab.problems.push(Problem { line: entry.line, text, reason });
            }
        }
    }
    crontab.problems.sort_by_key(|problem| problem.line);
    Ok((entries, jobs))
}

/// What a line and the mark above it stand for, and the mark's id if that is all it has of a name.
fn job_of_line(
    lines: &[&str],
    entry: &Entry,
    format: Format,
    common: &Common,
) -> Result<(JobSpec, Option<String>)> {
    let alone = spec_of_entry(entry, common);
    let mark = Mark::above(lines, entry, format).map_err(usage)?;
    let Some(mark) = mark else {
        let mut spec = alone;
        common.place(&mut spec);
        // What the server would say against it is better said before anything is sent.
        canonical(&spec, now())?;
        return Ok((spec, None));
    };
    // That form shows no secrets, but what the crontab sets is what it sets.
    let alone = JobSpec { env: alone.env.clone(), ..canonical(&alone, now())? };
    let mut spec = mark.apply(&alone, entry)?;
    common.place(&mut spec);
    canonical(&spec, now())?;
    Ok((spec, mark.id().map(str::to_owned)))
}

/// The name under which a job is looked for. One that was exported without a key is found by its
/// id; on another server it gets the key that its line would have.
async fn named(
    context: &Context,
    (mut spec, id): (JobSpec, Option<String>),
    entry: &Entry,
) -> Result<Wanted> {
    let place = format!("line {}", entry.line);
    if let Some(id) = id {
        match context.client.job(&id).await {
            Ok(job) => {
                spec.key = job.spec.key;
                return Ok(Wanted { name: id, place, spec });
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    let name = spec.key.clone().unwrap_or_else(|| entry.key.clone());
    spec.key = Some(name.clone());
    Ok(Wanted { name, place, spec })
}

fn common(context: &Context, args: &ImportArgs) -> Result<Common> {
    let timezone = match &args.timezone {
        Some(zone) => check_timezone(zone).map_err(|error| usage(error.message))?,
        None => {
            let zone = TimeZone::system();
            let name = zone.iana_name().unwrap_or_default();
            check_timezone(name).map_err(|_| {
                usage("this machine's time zone is not known by name; say it with --timezone")
            })?
        }
    };
    Ok(Common {
        prefix: args.prefix.clone(),
        group: args.group.clone(),
        namespace: context.client.namespace().map(str::to_owned),
        timezone: Some(timezone),
        user: args.user.clone(),
    })
}

/// The schedule of a job in words, and its next time.
fn explained(spec: &JobSpec) -> (String, Option<bellwether_core::time::Time>) {
    let Some(bellwether_api::TextOr::Object(schedule)) = &spec.schedule else {
        return (String::new(), None);
    };
    let rule = Rule::Cron(schedule.cron.clone().unwrap_or_default());
    let timezone = schedule.timezone.clone().unwrap_or_default();
    let wanted = ScheduleSpec { any: vec![rule], timezone, ..ScheduleSpec::default() };
    let namespace = spec.namespace.as_deref().unwrap_or("default");
    let identity = format!("{namespace}/{}", spec.key.as_deref().unwrap_or_default());
    match Schedule::compile(&wanted, &identity, now()) {
        Ok(compiled) => (compiled.describe(), compiled.next_after(now())),
        Err(error) => (error.message, None),
    }
}

fn words(line: &Line, outcome: Option<&Outcome>) -> (&'static str, String) {
    outcome.map_or_else(|| line.planned.words(), |outcome| outcome.words(&line.planned))
}

fn print_table(context: &mut Context, lines: &[Line], outcomes: Option<&[Outcome]>) -> Result<()> {
    let mut table = Table::new(&[
        Column::number("LINE"),
        Column::new("ACTION"),
        Column::name("KEY"),
        Column::text("SCHEDULE"),
        Column::new("NEXT"),
        Column::new("USER"),
        Column::text("COMMAND"),
        Column::text("DETAIL"),
    ]);
    for (index, line) in lines.iter().enumerate() {
        let (action, detail) = words(line, outcomes.and_then(|outcomes| outcomes.get(index)));
        let (schedule, next) = explained(&line.planned.spec);
        let tone = match action {
            "refused" => Tone::Bad,
            "unchanged" => Tone::Faint,
            _ => Tone::Good,
        };
        table.row([
            (line.entry.line.to_string(), Tone::Faint),
            (action.to_owned(), tone),
            (line.planned.name.clone(), Tone::Plain),
            (schedule, Tone::Plain),
            (next.map(|time| context.screen.when(time)).unwrap_or_default(), Tone::Plain),
            (line.planned.spec.user.clone().unwrap_or_default(), Tone::Plain),
            (line.entry.command.clone(), Tone::Plain),
            (detail, Tone::Faint),
        ]);
    }
    if !table.is_empty() {
        context.screen.table(&table)?;
    }
    Ok(())
}

fn print_notes(crontab: &Crontab, lines: &[Line], dry_run: bool) {
    for Problem { line, text, reason } in &crontab.problems {
        eprint_line(&format!("line {line} is not imported: {reason}\n    {text}"));
    }
    for Problem { line, reason, .. } in &crontab.remarks {
        eprint_line(&format!("line {line}: {reason}"));
    }
    let mail = lines.iter().filter_map(|line| line.entry.mailto.as_deref());
    if mail.clone().any(|mailto| !mailto.is_empty()) {
        eprint_line(
            "MAILTO is kept as the label `mailto`, but this version sends no mail: output is kept \
             with every run (`bellwether run logs`)",
        );
    }
    if dry_run {
        eprint_line("this was a dry run: nothing was changed");
    }
}

fn print_json(
    context: &mut Context,
    lines: &[Line],
    outcomes: Option<&[Outcome]>,
    crontab: &Crontab,
) -> Result<()> {
    for (index, line) in lines.iter().enumerate() {
        let (action, detail) = words(line, outcomes.and_then(|outcomes| outcomes.get(index)));
        let (schedule, next) = explained(&line.planned.spec);
        context.print_json_line(&serde_json::json!({
            "line": line.entry.line, "action": action, "detail": detail, "schedule_text": schedule,
            "next": next.map(|time| time.to_string()), "job": line.planned.spec,
        }))?;
    }
    for (action, problems) in [("skipped", &crontab.problems), ("remark", &crontab.remarks)] {
        for Problem { line, text, reason } in problems {
            context.print_json_line(&serde_json::json!({
                "line": line, "action": action, "detail": reason, "text": text,
            }))?;
        }
    }
    Ok(())
}
