//! `bellwether queue …`: what waits, what is under way, and how much may be.

use anyhow::Result;
use bellwether_api::{Queue, QueueSpec};
use clap::{Args, Subcommand};

use super::cluster::say_missing;
use crate::context::{ClientArgs, Context};
use crate::exit::usage;
use crate::show::{Column, Table, Tone};

/// Queues.
#[derive(Args, Debug)]
pub struct QueueArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// List queues that have bounds, or runs that wait or are under way
    List,
    /// Bound what a queue may have under way
    Set {
        /// The queue
        queue: String,
        /// Runs under way at once; 0 for any number
        #[arg(long, value_name = "N")]
        concurrency: Option<u32>,
        /// Launches a second, such as 5 or 0.2; 0 for any number
        #[arg(long, value_name = "N")]
        rate: Option<f64>,
    },
    /// Launch nothing from a queue
    Pause {
        /// The queue
        queue: String,
        /// Why, for others
        #[arg(long)]
        note: Option<String>,
    },
    /// End a queue's pause
    Resume {
        /// The queue
        queue: String,
    },
}

/// Does it.
pub async fn run(args: QueueArgs) -> Result<()> {
    let mut context = args.client.context()?;
    match args.action {
        Action::List => {
            let queues = context.client.queues().await?;
            say_missing("runs", &queues.missing_nodes);
            list(&mut context, &queues.items)?;
        }
        Action::Set { queue, concurrency, rate } => {
            if concurrency.is_none() && rate.is_none() {
                return Err(usage("say --concurrency, --rate, or both"));
            }
            let spec = QueueSpec { concurrency, rate_per_second: rate, ..QueueSpec::default() };
            put(&mut context, &queue, &spec).await?;
        }
        Action::Pause { queue, note } => {
            let spec = QueueSpec { paused: Some(true), note, ..QueueSpec::default() };
            put(&mut context, &queue, &spec).await?;
        }
        Action::Resume { queue } => {
            let spec = QueueSpec { paused: Some(false), ..QueueSpec::default() };
            put(&mut context, &queue, &spec).await?;
        }
    }
    context.screen.flush()?;
    Ok(())
}

async fn put(context: &mut Context, queue: &str, spec: &QueueSpec) -> Result<()> {
    let queue = context.client.put_queue(queue, spec).await?;
    if context.json {
        return context.print_json(&queue);
    }
    list(context, &[queue])
}

fn list(context: &mut Context, queues: &[Queue]) -> Result<()> {
    if context.json {
        return queues.iter().try_for_each(|queue| context.print_json_line(queue));
    }
    if queues.is_empty() {
        context.screen.line("no queue has bounds, and nothing waits or is under way")?;
        return Ok(());
    }
    let mut table = Table::new(&[
        Column::name("QUEUE"),
        Column::number("WAITING"),
        Column::number("RUNNING"),
        Column::number("AT ONCE"),
        Column::number("A SECOND"),
        Column::text("STATE"),
    ]);
    for queue in queues {
        let any = || "any".to_owned();
        let state = match &queue.paused {
            Some(mark) if mark.note.is_empty() => (format!("paused by {}", mark.by), Tone::Busy),
            Some(mark) => (format!("paused by {}: {}", mark.by, mark.note), Tone::Busy),
            None => ("open".to_owned(), Tone::Good),
        };
        table.row([
            (queue.name.clone(), Tone::Plain),
            (queue.waiting.to_string(), Tone::Plain),
            (queue.running.to_string(), Tone::Plain),
            (queue.concurrency.map_or_else(any, |most| most.to_string()), Tone::Plain),
            (queue.rate_per_second.map_or_else(any, |most| most.to_string()), Tone::Plain),
            state,
        ]);
    }
    context.screen.table(&table)?;
    Ok(())
}
