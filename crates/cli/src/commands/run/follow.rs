//! Following a run to its end, through all of its attempts.

use std::pin::pin;
use std::time::Duration;

use anyhow::Result;
use bellwether_api::{Run, RunStatus};
use bellwether_client::{Client, ClientError, OutputFilter, OutputStream};
use futures::TryStreamExt;

use crate::commands::patience::Patience;
use crate::context::Context;

/// How soon to look again at a run whose output has ended, and how rarely at most.
const LOOK_FIRST: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_millis(500);

/// Prints what a run prints, attempt after attempt, until it has ended.
///
/// The output of an attempt ends a moment before its outcome is recorded, and a failed attempt may
/// be followed by another: the run itself says when it is over. A server that is restarted
/// meanwhile is waited for.
pub async fn follow(context: &mut Context, id: &str, stream: Option<OutputStream>) -> Result<Run> {
    let run = context.client.run(id).await?;
    let mut attempt = latest(&run).max(1);
    loop {
        print(context, id, OutputFilter { attempt: Some(attempt), stream, follow: true }).await?;
        let run = ended_or_later(&context.client, id, attempt).await?;
        if is_ended(run.status) && latest(&run) <= attempt {
            return Ok(run);
        }
        attempt += 1;
    }
}

/// Prints what a run has printed, or prints from now on.
pub async fn print(context: &mut Context, id: &str, filter: OutputFilter) -> Result<()> {
    let mut printed = 0;
    let mut patience = Patience::default();
    loop {
        match print_after(context, id, filter, &mut printed, &mut patience).await {
            Ok(()) => return Ok(()),
            Err(Broken::Here(error)) => return Err(error),
            Err(Broken::There(error)) if filter.follow => patience.after(error).await?,
            Err(Broken::There(error)) => return Err(error.into()),
        }
    }
}

/// Where output could not be passed on.
enum Broken {
    /// It could not be written.
    Here(anyhow::Error),
    /// It could not be read.
    There(ClientError),
}

/// Prints output from where an earlier connection broke.
async fn print_after(
    context: &mut Context,
    id: &str,
    filter: OutputFilter,
    printed: &mut usize,
    patience: &mut Patience,
) -> Result<(), Broken> {
    let output = context.client.output(id, filter).await.map_err(Broken::There)?;
    patience.answered("");
    let mut output = pin!(output);
    let mut skip = *printed;
    while let Some(bytes) = output.try_next().await.map_err(Broken::There)? {
        let new = &bytes[skip.min(bytes.len())..];
        skip -= bytes.len() - new.len();
        *printed += new.len();
        // Programs get the run itself, which follows.
        if !context.json {
            context.screen.bytes(new).map_err(|error| Broken::Here(error.into()))?;
        }
    }
    Ok(())
}

async fn ended_or_later(client: &Client, id: &str, attempt: u32) -> Result<Run> {
    let mut pause = LOOK_FIRST;
    let mut patience = Patience::default();
    loop {
        let run = match client.run(id).await {
            Ok(run) => run,
            Err(error) => {
                patience.after(error).await?;
                continue;
            }
        };
        patience.answered("");
        if is_ended(run.status) || latest(&run) > attempt {
            return Ok(run);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LOOK_MAX);
    }
}

fn latest(run: &Run) -> u32 {
    run.attempts.iter().map(|attempt| attempt.number).max().unwrap_or(0)
}

fn is_ended(status: RunStatus) -> bool {
    match status {
        RunStatus::Scheduled
        | RunStatus::Queued
        | RunStatus::Claimed
        | RunStatus::Running
        | RunStatus::Retrying => false,
        RunStatus::Succeeded
        | RunStatus::Failed
        | RunStatus::Canceled
        | RunStatus::Lost
        | RunStatus::Skipped => true,
    }
}
