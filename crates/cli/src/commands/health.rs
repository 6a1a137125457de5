//! `bellwether health`: for people, and for whatever watches the server.

use anyhow::Result;
use clap::Args;

use crate::context::ClientArgs;
use crate::exit::{self, Exit};
use crate::show::Tone;

/// Asks the server how it is; exits with 5 if it is not ready.
#[derive(Args, Debug)]
pub struct HealthArgs {
    #[command(flatten)]
    client: ClientArgs,
}

/// Asks.
pub async fn run(args: HealthArgs) -> Result<()> {
    let mut context = args.client.context()?;
    let health = context.client.health().await?;
    let good = health.healthy && health.ready;
    if context.json {
        context.print_json(&serde_json::json!({
            "healthy": health.healthy,
            "ready": health.ready,
            "detail": health.detail,
        }))?;
    } else {
        let word = match (health.healthy, health.ready) {
            (true, true) => context.screen.paint(Tone::Good, "ready"),
            (true, false) => context.screen.paint(Tone::Busy, "alive, but not ready"),
            (false, _) => context.screen.paint(Tone::Bad, "not healthy"),
        };
        let detail = match health.detail.strip_prefix("ready") {
            Some(rest) if good => rest.to_owned(),
            _ => format!(": {}", health.detail),
        };
        let line = format!("{} is {word}{detail}", context.client.server());
        context.screen.line(&line)?;
    }
    context.screen.flush()?;
    if good { Ok(()) } else { Err(exit::silent(Exit::Unreachable)) }
}
