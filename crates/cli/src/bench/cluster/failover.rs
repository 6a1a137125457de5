//! How long launches wait when a node is killed, and when it is stopped in order.
//!
//! Jobs of all shards are due all the time. For every shard that the node led: when the first of
//! those was started that became due afterwards, and by how much the latest was late; the same of shards that
//! stayed where they are says how much of that is the machine. Jobs for every minute go on all along, and
//! must not miss one.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use bellwether_api::{JobSpec, TickFate};
use bellwether_client::{Client, PageFilter};
use bellwether_core::time::Time;
use futures::TryStreamExt;

use super::nodes::Nodes;
use super::starts::{Start, Watched, micros, quantile};
use crate::bench::BenchArgs;
use crate::bench::figures::Figures;
use crate::bench::load::{self, Due};
use crate::bench::puppet::JOB_TYPE;

/// Jobs that become due in a second.
const RATE: u64 = 800;
/// How long they do for each time, in milliseconds.
const SPAN_MS: u64 = 6_000;
/// How long after the first is due the node goes away.
const LEAD_MS: u64 = 1_500;
/// How long all of them may take.
const ALL_MAX: Duration = Duration::from_secs(60);
/// Jobs that run every minute.
const EVERY_MINUTE: usize = 32;
const MINUTE_MS: i64 = 60_000;
/// So long before a minute begins nodes go, if they are to go there.
const BEFORE_MINUTE_MS: u64 = 300;

/// How a node goes away.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Killed,
    Stopped,
}

/// Measures both.
pub async fn measure(figures: &mut Figures, args: &BenchArgs, dir: &Path) -> anyhow::Result<()> {
    let mut nodes = Nodes::start(&dir.join("nodes"), 3, args.shards).await?;
    let minutes = Minutes::start(&nodes).await?;
    let watched = Watched::start(&nodes, &dir.join("starts")).await?;
    let mut waits = Vec::new();
    for n in 0..args.kills {
        let (victim, way) = (n as usize % 3, Way::Killed);
        let Seen { led, .. } = without(&mut nodes, &watched, victim, way, args).await?;
        eprintln!("kill {}: {}", n + 1, line(led.iter().map(|shard| shard.first)));
        waits.extend(led.iter().map(|shard| shard.first));
    }
    if args.kills > 0 {
        let count = waits.len();
        let what =
            |part: &str| format!("leader killed: next launch of its shards, {part} of {count}");
        let p50 = quantile(&mut waits, 0.5);
        figures.add("failover_p50", what("p50"), p50, "ms", Some("< 1,500"));
        figures.add("failover_p99", what("p99"), quantile(&mut waits, 0.99), "ms", None);
        let worst = quantile(&mut waits, 1.0);
        figures.add("failover_max", what("worst"), worst, "ms", Some("< 4,000"));
    }
    let (mut lateness, mut of_others) = (Vec::new(), Vec::new());
    for n in 0..args.stops {
        let (victim, way) = (n as usize % 3, Way::Stopped);
        let Seen { led, others } = without(&mut nodes, &watched, victim, way, args).await?;
        let [led, others] = [led, others]
            .map(|shards| shards.into_iter().map(|shard| shard.latest).collect::<Vec<_>>());
        let [moved, stayed] = [&led, &others].map(|late| line(late.iter().copied()));
        eprintln!("stop {}: {moved}; shards that stayed: {stayed}", n + 1);
        lateness.extend(led);
        of_others.extend(others);
    }
    if args.stops > 0 {
        let p50 = quantile(&mut lateness, 0.5);
        let what = "node stopped: longest wait for a launch by shard, p50";
        figures.add("transfer_p50", what, p50, "ms", Some("< 100"));
        let worst = quantile(&mut lateness, 1.0);
        let what = "node stopped: longest wait for a launch of all";
        figures.add("transfer_max", what, worst, "ms", Some("< 100"));
        for (key, part, q) in [("stayed_p50", "p50", 0.5), ("stayed_max", "worst", 1.0)] {
            let what = format!("the same at these times, by shard that stayed: {part}");
            figures.add(key, what, quantile(&mut of_others, q), "ms", None);
        }
    }
    let (ticks, missed) = minutes.end(&nodes).await?;
    figures.add("minutes", "minutes of jobs for every minute", ticks as f64, "", None);
    figures.add("minutes_missed", "of which missed", missed as f64, "", Some("0"));
    Ok(())
}

fn line(figures: impl Iterator<Item = f64>) -> String {
    figures.map(|figure| format!("{figure:.0}")).collect::<Vec<_>>().join(" ")
}

/// What was seen of shards when a node went.
struct Seen {
    /// Of those that it led.
    led: Vec<Waits>,
    /// Of the others.
    others: Vec<Waits>,
}

/// Of what became due in a shard after a node went, in milliseconds.
struct Waits {
    /// How long until the first start.
    first: f64,
    /// By how much the latest start was late.
    latest: f64,
}

/// Takes a node away and starts it again.
async fn without(
    nodes: &mut Nodes,
    watched: &Watched,
    victim: usize,
    way: Way,
    args: &BenchArgs,
) -> anyhow::Result<Seen> {
    nodes.spread().await?;
    watched.forget()?;
    let count = RATE * SPAN_MS / 1_000;
    let first = first_due(load::now(), args.at_minute);
    let due = Due::Spread(first, SPAN_MS);
    load::create_at(&nodes.urls(), JOB_TYPE, count, 3, due).await?;
    let wait = first.plus_ms(LEAD_MS).since_ms(load::now());
    tokio::time::sleep(Duration::from_millis(wait)).await;
    let led: BTreeSet<u16> = nodes.led_by(victim).await?.into_iter().collect();
    let gone = micros();
    let server = nodes.take(victim)?;
    match way {
        Way::Killed => server.kill()?,
        Way::Stopped => server.stop().await?,
    }
    let from = u64::try_from(first.0)? * 1_000;
    let starts = watched.starts(from, from + SPAN_MS * 1_000, count, ALL_MAX).await?;
    nodes.start_again(victim).await?;
    let (led, others): (Vec<u16>, Vec<u16>) =
        (0..args.shards).partition(|shard| led.contains(shard));
    let seen = |shards: Vec<u16>| {
        shards.into_iter().map(|shard| seen(shard, gone, &starts)).collect::<anyhow::Result<_>>()
    };
    Ok(Seen { led: seen(led)?, others: seen(others)? })
}

/// When the first of these is due: soon, or so that the node goes just before the next minute begins.
fn first_due(now: Time, at_minute: bool) -> Time {
    let soon = now.plus_ms(2_000);
    if !at_minute {
        return soon;
    }
    let before = (LEAD_MS + BEFORE_MINUTE_MS) as i64;
    let minute = ((soon.0 + before).div_euclid(MINUTE_MS) + 1) * MINUTE_MS;
    Time(minute - before)
}

fn seen(shard: u16, gone: u64, starts: &[Start]) -> anyhow::Result<Waits> {
    let after = starts.iter().filter(|start| start.shard == shard && start.due >= gone);
    let first = after.clone().map(|start| start.at).min();
    let first = first.with_context(|| format!("nothing of shard {shard} became due"))?;
    let latest = after.map(Start::late).fold(0.0, f64::max);
    Ok(Waits { first: (first - gone) as f64 / 1_000.0, latest })
}

/// Jobs that run every minute, on whatever node.
struct Minutes {
    since: Time,
    jobs: Vec<String>,
}

impl Minutes {
    async fn start(nodes: &Nodes) -> anyhow::Result<Minutes> {
        let client = Client::new(&nodes.urls()[0])?;
        let mut jobs = Vec::new();
        for n in 0..EVERY_MINUTE {
            let spec: JobSpec = serde_json::from_value(serde_json::json!({
                "key": format!("minute-{n}"),
                "schedule": { "cron": "* * * * *" },
                "job_type": "bellwether.noop",
            }))?;
            jobs.push(client.create_job(spec).await?.job.info.id);
        }
        Ok(Minutes { since: load::now(), jobs })
    }

    /// How many minutes there should have been, and how many of them were missed.
    async fn end(self, nodes: &Nodes) -> anyhow::Result<(usize, usize)> {
        let client = Client::new(&nodes.urls()[0])?;
        let first = self.since.0.div_euclid(MINUTE_MS) + 1;
        // The present minute may be under way.
        let last = load::now().0.div_euclid(MINUTE_MS) - 1;
        let (mut ticks, mut missed) = (0, 0);
        for job in &self.jobs {
            let ledger = client.ticks_all(job, PageFilter::default());
            let ledger: Vec<_> = ledger.try_collect().await?;
            for minute in first..=last {
                let mut at = ledger.iter().filter(|tick| tick.at.0.0 == minute * MINUTE_MS);
                let ran = |fate| matches!(fate, TickFate::Fired | TickFate::Late);
                let once = at.next().is_some_and(|tick| ran(tick.fate)) && at.next().is_none();
                ticks += 1;
                missed += usize::from(!once);
            }
        }
        Ok((ticks, missed))
    }
}
