//! `bellwether run logs [-f]`.

use anyhow::Result;
use bellwether_client::{OutputFilter, OutputStream};
use clap::{Args, ValueEnum};

use super::follow;
use crate::commands::job::tell_ending;
use crate::context::Context;

/// Whose output to print.
#[derive(Args, Debug)]
pub struct LogsArgs {
    /// Id of the run
    run: String,
    /// Go on as more is printed, until the run has ended
    #[arg(long, short)]
    follow: bool,
    /// Of this attempt; of the last if not given
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Only what went to one of them
    #[arg(long)]
    stream: Option<StreamFlag>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StreamFlag {
    Stdout,
    Stderr,
}

/// Prints it, byte for byte.
pub async fn run(context: &mut Context, args: &LogsArgs) -> Result<()> {
    let stream = args.stream.map(|stream| match stream {
        StreamFlag::Stdout => OutputStream::Stdout,
        StreamFlag::Stderr => OutputStream::Stderr,
    });
    // Output is output, whoever reads it.
    context.json = false;
    if args.follow && args.attempt.is_none() {
        let run = follow::follow(context, &args.run, stream).await?;
        tell_ending(context, &run);
        return Ok(());
    }
    // Whoever cannot be reached now is not waited for.
    context.client.run(&args.run).await?;
    let filter = OutputFilter { attempt: args.attempt, stream, follow: args.follow };
    follow::print(context, &args.run, filter).await
}
