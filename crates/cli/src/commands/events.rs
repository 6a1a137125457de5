//! `bellwether events`: what happens to runs, as it happens.

use std::pin::{Pin, pin};

use anyhow::Result;
use bellwether_api::LiveEvent;
use bellwether_client::{ClientError, EventFilter, Heard};
use clap::Args;
use futures::{Stream, TryStreamExt};

use super::patience::Patience;
use crate::context::{ClientArgs, Context};
use crate::exit::eprint_line;
use crate::show::{Tone, run_status};
use crate::spec::parse_count;

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
    #[arg(long, value_name = "N", value_parser = parse_count)]
    count: Option<usize>,
    #[command(flatten)]
    client: ClientArgs,
}

/// Shows them, also across restarts of the server.
pub async fn run(args: EventsArgs) -> Result<()> {
    let mut context = args.client.context()?;
    let job = match &args.job {
        // A name that is none would never be heard of.
        Some(name) => Some(context.client.job(name).await?.info.id),
        None => None,
    };
    let filter = EventFilter { namespace: None, queue: args.queue };
    let mut left = args.count.unwrap_or(usize::MAX);
    let mut patience = Patience::default();
    let mut events = pin!(context.client.events(&filter).await?);
    loop {
        let gone = listen(&mut context, events.as_mut(), job.as_deref(), &mut left).await?;
        let Some(mut error) = gone else { return Ok(()) };
        let again = loop {
            patience.after(error).await?;
            match context.client.events(&filter).await {
                Ok(events) => break events,
                Err(another) => error = another,
            }
        };
        patience.answered("; what happened in between is not shown");
        events.set(again);
    }
}

/// Shows what is heard until there have been enough, or the connection ends; then why.
async fn listen(
    context: &mut Context,
    mut events: Pin<&mut impl Stream<Item = Result<Heard, ClientError>>>,
    job: Option<&str>,
    left: &mut usize,
) -> Result<Option<ClientError>> {
    while *left > 0 {
        match events.try_next().await {
            Ok(Some(Heard::Event(event))) => {
                if job.is_none_or(|job| event.job_id == job) {
                    print(context, &event)?;
                    *left -= 1;
                }
            }
            Ok(Some(Heard::Missed(0))) => {
                eprint_line("some events may have been missed: a node could not be heard");
            }
            Ok(Some(Heard::Missed(count))) => {
                eprint_line(&format!("{count} events were missed: they came faster than printed"));
            }
            Ok(None) => {
                let server = context.client.server().to_owned();
                let reason = "it has stopped".to_owned();
                return Ok(Some(ClientError::Interrupted { server, reason }));
            }
            Err(error) => return Ok(Some(error)),
        }
    }
    Ok(None)
}

fn print(context: &mut Context, event: &LiveEvent) -> Result<()> {
    if context.json {
        context.print_json_line(event)?;
    } else {
        let job = event.key.as_deref().unwrap_or(&event.job_id);
        let tone = event.status.map_or(Tone::Bad, |status| run_status(status).1);
        let what = context.screen.paint(tone, &format!("{:<10}", event.event));
        let attempt = event.attempt.filter(|attempt| *attempt > 1);
        let attempt = attempt.map(|n| format!(" (attempt {n})")).unwrap_or_default();
        let reason = event.detail.as_ref().or(event.reason.as_ref());
        let reason = reason.map(|why| format!(": {why}")).unwrap_or_default();
        let run = event.run_id.as_ref().map(|run| format!("  {run}")).unwrap_or_default();
        let time = context.screen.clock(event.at.0);
        context.screen.line(&format!("{time}  {what}  {job}{run}{attempt}{reason}"))?;
    }
    context.screen.flush()?;
    Ok(())
}
