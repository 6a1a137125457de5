//! `bellwether job ticks`: what became of a job's due times.

use anyhow::Result;
use bellwether_api::{Tick, TickFate};
use bellwether_client::PageFilter;
use clap::Args;

use crate::commands::listing::{self, Amount};
use crate::context::Context;
use crate::show::{Column, Screen, Table, Tone};

/// Whose ledger to show.
#[derive(Args, Debug)]
pub struct TicksArgs {
    /// Key or id
    job: String,
    #[command(flatten)]
    amount: Amount,
}

/// Shows it.
pub async fn run(context: &mut Context, args: TicksArgs) -> Result<()> {
    let filter = PageFilter { limit: args.amount.page(context.json), cursor: None };
    let ticks = context.client.ticks_all(&args.job, filter);
    let none = "nothing has been due yet; see `bellwether job next`";
    listing::print(context, args.amount, ticks, none, tick_table).await
}

/// Rows of a ledger as a table.
pub fn tick_table(screen: &Screen, ticks: &[Tick]) -> Table {
    let mut table = Table::new(&[
        Column::new("DUE"),
        Column::new("WHEN"),
        Column::number("COUNT"),
        Column::new("FATE"),
        Column::text("WHY"),
        Column::new("RUN"),
    ]);
    for tick in ticks {
        let (fate, tone) = match tick.fate {
            TickFate::Fired => ("fired", Tone::Good),
            TickFate::Late => ("late", Tone::Busy),
            TickFate::Merged => ("merged", Tone::Faint),
            TickFate::Skipped => ("skipped", Tone::Busy),
            TickFate::Triggered => ("triggered", Tone::Good),
        };
        let count = match (tick.count, tick.count_is_minimum) {
            (0 | 1, false) => String::new(),
            (count, false) => count.to_string(),
            (count, true) => format!("{count}+"),
        };
        let run = tick.run_id.clone().unwrap_or_default();
        let run = match tick.runs {
            Some(runs) if runs > 1 => format!("{run} and {} more", runs - 1),
            _ => run,
        };
        let why = tick.detail.clone().or_else(|| tick.reason.clone()).unwrap_or_default();
        table.row([
            (screen.clock(tick.at.0), Tone::Plain),
            (screen.when(tick.at.0), Tone::Faint),
            (count, Tone::Plain),
            (fate.to_owned(), tone),
            (why, Tone::Plain),
            (run, Tone::Faint),
        ]);
    }
    table
}
