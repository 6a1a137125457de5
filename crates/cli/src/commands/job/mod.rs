//! `bellwether job …`: definitions.

mod add;
mod control;
mod edit;
mod list;
mod next;
mod rm;
mod show;
mod ticks;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::context::ClientArgs;

pub use control::tell_ending;
pub use list::{parse_run_status, target_text};
pub use ticks::tick_table;

/// Jobs.
#[derive(Args, Debug)]
pub struct JobArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Create a job
    Add(add::AddArgs),
    /// List jobs
    List(list::ListArgs),
    /// Show a job
    Show(show::ShowArgs),
    /// Change a job, by flags or in an editor
    Edit(edit::EditArgs),
    /// Keep a job from being launched until it is resumed
    Pause(control::PauseArgs),
    /// End a job's pause and maintenance
    Resume(control::JobName),
    /// Run a job now, besides its schedule
    Trigger(control::TriggerArgs),
    /// Put a job into maintenance: nothing is launched, nobody is alarmed
    Maintenance(control::MaintenanceArgs),
    /// Show a job's next times
    Next(next::NextArgs),
    /// Show what became of a job's due times
    Ticks(ticks::TicksArgs),
    /// List a job's runs, newest first
    Runs(list::RunsArgs),
    /// Delete jobs with all that belongs to them
    Rm(rm::RmArgs),
}

/// Does it.
pub async fn run(args: JobArgs) -> Result<()> {
    let mut context = args.client.context()?;
    match args.action {
        Action::Add(args) => add::run(&mut context, args).await?,
        Action::List(args) => list::run(&mut context, args).await?,
        Action::Show(args) => show::run(&mut context, &args).await?,
        Action::Edit(args) => edit::run(&mut context, args).await?,
        Action::Pause(args) => control::pause(&mut context, args).await?,
        Action::Resume(args) => control::resume(&mut context, &args).await?,
        Action::Trigger(args) => control::trigger(&mut context, &args).await?,
        Action::Maintenance(args) => control::maintenance(&mut context, &args).await?,
        Action::Next(args) => next::run(&mut context, &args).await?,
        Action::Ticks(args) => ticks::run(&mut context, args).await?,
        Action::Runs(args) => list::runs(&mut context, args).await?,
        Action::Rm(args) => rm::run(&mut context, args).await?,
    }
    context.screen.flush()?;
    Ok(())
}
