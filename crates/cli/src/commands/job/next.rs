//! `bellwether job next`.

use anyhow::Result;
use clap::Args;

use crate::context::Context;

/// Whose next times to show.
#[derive(Args, Debug)]
pub struct NextArgs {
    /// Key or id
    job: String,
    /// How many
    #[arg(long, short, default_value_t = 5)]
    count: u32,
}

/// Shows them.
pub async fn run(context: &mut Context, args: &NextArgs) -> Result<()> {
    let next = context.client.next_times(&args.job, args.count).await?;
    if context.json {
        return context.print_json(&next);
    }
    context.screen.line(&next.description)?;
    if next.times.is_empty() {
        context.screen.line("there is no next time")?;
    }
    let job = context.client.job(&args.job).await?;
    for time in &next.times {
        let text = context.screen.clock_of_job(time.0, &job.spec);
        context.screen.line(&text)?;
    }
    Ok(())
}
