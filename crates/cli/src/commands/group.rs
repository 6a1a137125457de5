//! `bellwether group …`: many jobs at once.

use anyhow::Result;
use bellwether_api::{Group, Instant, MaintenanceRequest, Mark, PauseRequest, Span};
use bellwether_client::PageFilter;
use clap::{Args, Subcommand};
use futures::TryStreamExt;

use crate::context::{ClientArgs, Context};
use crate::exit::eprint_line;
use crate::show::{Column, Screen, Table, Tone};
use crate::spec::{parse_lasting, typed_time};

/// Groups of jobs.
#[derive(Args, Debug)]
pub struct GroupArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// List groups
    List,
    /// Keep all jobs of a group from being launched
    Pause {
        /// The group
        group: String,
        /// Why, for others
        #[arg(long)]
        note: Option<String>,
    },
    /// End a group's pause and maintenance
    Resume {
        /// The group
        group: String,
    },
    /// Put a group into maintenance: nothing is launched, nobody is alarmed
    Maintenance {
        /// The group
        group: String,
        #[command(flatten)]
        how: MaintenanceFlags,
    },
}

/// Until when and why.
#[derive(Args, Debug)]
pub struct MaintenanceFlags {
    /// How long it lasts
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_lasting, conflicts_with = "until")]
    lasting: Option<Span>,
    /// When it ends
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Why, for others
    #[arg(long)]
    note: Option<String>,
}

impl MaintenanceFlags {
    /// The request they stand for.
    pub fn request(&self) -> Result<MaintenanceRequest> {
        Ok(MaintenanceRequest {
            until: self.until.as_deref().map(typed_time).transpose()?.map(Instant),
            lasting: self.lasting,
            note: self.note.clone(),
        })
    }
}

/// Does it.
pub async fn run(args: GroupArgs) -> Result<()> {
    let mut context = args.client.context()?;
    match args.action {
        Action::List => list(&mut context).await?,
        Action::Pause { group, note } => {
            context.client.pause_group(&group, &PauseRequest { note }).await?;
            done(&mut context, &group, "paused")?;
            tell_if_empty(&context, &group).await?;
        }
        Action::Resume { group } => {
            context.client.resume_group(&group).await?;
            done(&mut context, &group, "resumed")?;
        }
        Action::Maintenance { group, how } => {
            context.client.maintain_group(&group, &how.request()?).await?;
            done(&mut context, &group, "in maintenance")?;
            tell_if_empty(&context, &group).await?;
        }
    }
    context.screen.flush()?;
    Ok(())
}

fn done(context: &mut Context, group: &str, what: &str) -> Result<()> {
    if context.json {
        return context.print_json(&serde_json::json!({ "group": group, "done": what }));
    }
    context.screen.line(&format!("group {group} is {what}"))?;
    context.screen.flush()?;
    Ok(())
}

/// A group can be switched before it has jobs; but it may also be a slip of the pen.
async fn tell_if_empty(context: &Context, name: &str) -> Result<()> {
    let filter = PageFilter { limit: Some(1_000), cursor: None };
    let groups: Vec<Group> = context.client.groups_all(filter).try_collect().await?;
    let named: Vec<&Group> = groups.iter().filter(|group| group.name == name).collect();
    // Without a namespace it was that of the token, or the default one.
    let namespace = context.client.namespace().unwrap_or("default");
    let own = named.iter().find(|group| group.namespace == namespace).or(named.first());
    if own.is_none_or(|group| group.jobs == 0) {
        eprint_line(&format!("no job is in the group {name} yet; it holds for those that come"));
    }
    Ok(())
}

async fn list(context: &mut Context) -> Result<()> {
    let groups = context.client.groups_all(PageFilter::default());
    let groups: Vec<Group> = groups.try_collect().await?;
    if context.json {
        return groups.iter().try_for_each(|group| context.print_json_line(group));
    }
    if groups.is_empty() {
        context.screen.line("there are no groups")?;
        return Ok(());
    }
    let mut table = Table::new(&[
        Column::new("NAMESPACE"),
        Column::name("GROUP"),
        Column::number("JOBS"),
        Column::text("STATE"),
    ]);
    for group in &groups {
        let jobs = format!("{}{}", group.jobs, if group.jobs_is_minimum { "+" } else { "" });
        table.row([
            (group.namespace.clone(), Tone::Faint),
            (group.name.clone(), Tone::Plain),
            (jobs, Tone::Plain),
            state(&context.screen, group),
        ]);
    }
    context.screen.table(&table)?;
    Ok(())
}

fn state(screen: &Screen, group: &Group) -> (String, Tone) {
    match (&group.paused, &group.maintenance) {
        (Some(mark), _) => (mark_text(screen, "paused", mark), Tone::Busy),
        (None, Some(mark)) => (mark_text(screen, "maintenance", mark), Tone::Busy),
        (None, None) => ("active".to_owned(), Tone::Good),
    }
}

/// Who set something, when, until when and why, in a line.
pub fn mark_text(screen: &Screen, what: &str, mark: &Mark) -> String {
    let mut text = format!("{what} {} by {}", screen.when(mark.at.0), mark.by);
    if let Some(until) = mark.until {
        text.push_str(&format!(", ends {}", screen.when(until.0)));
    }
    if !mark.note.is_empty() {
        text.push_str(&format!(": {}", mark.note));
    }
    text
}
