//! `bellwether events`: what happens to runs, as it happens.

use std::pin::pin;

use anyhow::Result;
use bellwether_api::LiveEvent;
use bellwether_client::{EventFilter, Heard};
use clap::Args;
use futures::TryStreamExt;

use crate::context::{ClientArgs, Context};
use crate::exit::eprint_line;
use crate::show::run_status;

/// Shows events until it is stopped.
#[derive(Args, Debug)]
pub struct EventsArgs {
    /// Only of this job (key or id)
    #[arg(long)]
    job: Option<String>,
    /// Only of this queue
    #[arg(long)]
    queue: Option<String>,
    /// Stop after so many
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    #[command(flatten)]
    client: ClientArgs,
}

/// Shows them.
pub async fn run(args: EventsArgs) -> Result<()> {
    let mut context = args.client.context()?;
    let filter = EventFilter { namespace: None, queue: args.queue };
    let mut events = pin!(context.client.events(&filter).await?);
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0
        && let Some(heard) = events.try_next().await?
    {
        let event = match heard {
            Heard::Event(event) => event,
            Heard::Missed(count) => {
                eprint_line(&format!("{count} events were missed: they came faster than printed"));
                continue;
            }
        };
        let wanted =
            |job: &String| event.job_id == *job || event.key.as_ref().is_some_and(|key| key == job);
        if args.job.as_ref().is_none_or(wanted) {
            print(&mut context, &event)?;
            left -= 1;
        }
    }
    Ok(())
}

fn print(context: &mut Context, event: &LiveEvent) -> Result<()> {
    if context.json {
        context.print_json_line(event)?;
    } else {
        let job = event.key.as_deref().unwrap_or(&event.job_id);
        let (_, tone) = run_status(event.status);
        let what = context.screen.paint(tone, &format!("{:<10}", event.event));
        let attempt = event.attempt.filter(|attempt| *attempt > 1);
        let attempt = attempt.map(|n| format!(" (attempt {n})")).unwrap_or_default();
        let reason = event.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let time = context.screen.clock(event.at.0);
        context
            .screen
            .line(&format!("{time}  {what}  {job}  {}{attempt}{reason}", event.run_id))?;
    }
    context.screen.flush()?;
    Ok(())
}
