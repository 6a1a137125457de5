//! `bellwether why JOB [--at TIME]`: why a job did or did not run, from its ledger.

use anyhow::Result;
use bellwether_api::{Instant, Why};
use clap::Args;

use crate::context::{ClientArgs, Context};
use crate::show::Tone;
use crate::spec::typed_time;

/// Says in words why a job did or did not run.
#[derive(Args, Debug)]
pub struct WhyArgs {
    /// Key or id
    job: String,
    /// When it should have run, or did: `2026-12-31 02:05`, `2h ago`; lately if not given
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    #[command(flatten)]
    client: ClientArgs,
}

/// Asks.
pub async fn run(args: WhyArgs) -> Result<()> {
    let mut context = args.client.context()?;
    let at = args.at.as_deref().map(typed_time).transpose()?;
    let why = context.client.why(&args.job, at.map(Instant)).await?;
    if context.json {
        context.print_json(&why)?;
    } else {
        print(&mut context, &why)?;
    }
    context.screen.flush()?;
    Ok(())
}

fn print(context: &mut Context, why: &Why) -> Result<()> {
    let answer = context.screen.paint(Tone::Strong, &why.answer);
    context.screen.line(&answer)?;
    for detail in &why.details {
        context.screen.line(&format!("  {detail}"))?;
    }
    if !why.ticks.is_empty() {
        context.screen.line("")?;
        let table = super::job::tick_table(&context.screen, &why.ticks);
        context.screen.table(&table)?;
    }
    if !why.next.is_empty() {
        context.screen.line("")?;
        for time in &why.next {
            let text = context.screen.clock_and_when(time.0);
            context.screen.line(&format!("next  {text}"))?;
        }
    }
    Ok(())
}
