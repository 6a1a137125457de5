//! `bellwether schedule explain`: what an expression means, without a server.

use anyhow::Result;
use bellwether_core::schedule::{
    DayMatch, Schedule, ScheduleError, ScheduleSpec, parse_expression,
};
use bellwether_core::time::Time;
use clap::{Args, Subcommand};
use jiff::tz::TimeZone;

use crate::exit::usage;
use crate::show::{Screen, clock_text, now, parse_time};

/// Schedules.
#[derive(Args, Debug)]
pub struct ScheduleArgs {
    #[command(subcommand)]
    action: Action,
    /// JSON instead of text
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Say an expression in plain words, with its next times
    Explain(ExplainArgs),
}

#[derive(Args, Debug)]
struct ExplainArgs {
    /// '5 2 * * 6', @daily, 'every 5m', 'in 30m', '2026-12-31T23:59:59Z'
    expression: String,
    /// Zone, such as Europe/Berlin
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    timezone: String,
    /// How many times to show
    #[arg(long, short, default_value_t = 5)]
    count: u16,
    /// Show times after this
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Day of month and day of week must both match
    #[arg(long)]
    match_both_days: bool,
    /// The job's namespace/key, from which H is computed
    #[arg(long, value_name = "NAMESPACE/KEY", default_value = "")]
    identity: String,
}

/// Explains it.
pub fn run(args: &ScheduleArgs) -> Result<()> {
    let json = args.json;
    let Action::Explain(args) = &args.action;
    let explained = explain(args)?;
    let mut screen = Screen::stdout();
    if json {
        let times: Vec<String> = explained.times.iter().map(Time::to_string).collect();
        let value = serde_json::json!({
            "description": explained.description,
            "timezone": explained.timezone,
            "times": times,
        });
        screen.line(&serde_json::to_string_pretty(&value)?)?;
    } else {
        screen.line(&explained.description)?;
        for time in &explained.times {
            let line = format!("  {}  {}", clock_text(&explained.zone, *time), screen.when(*time));
            screen.line(&line)?;
        }
        if explained.hashed && args.identity.is_empty() {
            screen.line("  (H is different for every job; give --identity NAMESPACE/KEY)")?;
        }
    }
    screen.flush()?;
    Ok(())
}

struct Explained {
    description: String,
    timezone: String,
    zone: TimeZone,
    times: Vec<Time>,
    hashed: bool,
}

fn explain(args: &ExplainArgs) -> Result<Explained> {
    let refused = |error: ScheduleError| usage(error.message);
    let spec = ScheduleSpec {
        any: vec![parse_expression(&args.expression).map_err(refused)?],
        timezone: args.timezone.clone(),
        day_match: if args.match_both_days { DayMatch::Both } else { DayMatch::Either },
        ..ScheduleSpec::default()
    };
    let zone_name = bellwether_core::schedule::check_timezone(&args.timezone).map_err(refused)?;
    let zone = TimeZone::get(&zone_name).map_err(|error| usage(error.to_string()))?;
    let from = match &args.from {
        Some(text) => parse_time(text, &zone, now()).map_err(usage)?,
        None => now(),
    };
    let schedule = Schedule::compile(&spec, &args.identity, from).map_err(refused)?;
    let times = match schedule.is_once() {
        Some(at) => vec![at],
        None => schedule.times(from, usize::from(args.count)),
    };
    Ok(Explained {
        description: schedule.describe(),
        timezone: schedule.timezone().to_owned(),
        zone,
        times,
        hashed: args.expression.contains(['H', '?']),
    })
}
