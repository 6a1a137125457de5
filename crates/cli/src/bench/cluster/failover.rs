//! How long launches wait when a node is killed, and when it is stopped in order.
//!
//! Jobs of all shards are due all the time. For every shard that the node led: when the first of
//! those was started that became due afterwards. Jobs for every minute go on all along, and must
//! not miss one.

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
    let (mut waits, mut lateness) = (Vec::new(), Vec::new());
    for n in 0..args.kills {
        let (victim, way) = (n as usize % 3, Way::Killed);
        let seen = without(&mut nodes, &watched, victim, way, args.at_minute).await?;
        waits.extend(seen.iter().map(|(wait, _)| *wait));
        eprintln!("kill {}: {}", n + 1, line(seen.iter().map(|(wait, _)| *wait)));
    }
    let count = waits.len();
    let what = |part: &str| format!("leader killed: next launch of its shards, {part} of {count}");
    let p50 = quantile(&mut waits, 0.5);
    figures.add("failover_p50", what("p50"), p50, "ms", Some("< 1,500"));
    figures.add("failover_p99", what("p99"), quantile(&mut waits, 0.99), "ms", None);
    let worst = quantile(&mut waits, 1.0);
    figures.add("failover_max", what("worst"), worst, "ms", Some("< 4,000"));
    for n in 0..args.stops {
        let (victim, way) = (n as usize % 3, Way::Stopped);
        let seen = without(&mut nodes, &watched, victim, way, args.at_minute).await?;
        lateness.extend(seen.iter().map(|(_, late)| *late));
        eprintln!("stop {}: {}", n + 1, line(seen.iter().map(|(_, late)| *late)));
    }
    let p50 = quantile(&mut lateness, 0.5);
    let what = "node stopped: longest wait for a launch by shard, p50";
    figures.add("transfer_p50", what, p50, "ms", Some("< 100"));
    let worst = quantile(&mut lateness, 1.0);
    let what = "node stopped: longest wait for a launch of all";
    figures.add("transfer_max", what, worst, "ms", Some("< 100"));
    let (ticks, missed) = minutes.end(&nodes).await?;
    figures.add("minutes", "minutes of jobs for every minute", ticks as f64, "", None);
    figures.add("minutes_missed", "of which missed", missed as f64, "", Some("0"));
    Ok(())
}

fn line(figures: impl Iterator<Item = f64>) -> String {
    figures.map(|figure| format!("{figure:.0}")).collect::<Vec<_>>().join(" ")
}

/// Takes a node away and starts it again. For every shard that it led: how long until the first
/// start of what became due afterwards, and by how much the latest of these was late.
async fn without(
    nodes: &mut Nodes,
    watched: &Watched,
    victim: usize,
    way: Way,
    at_minute: bool,
) -> anyhow::Result<Vec<(f64, f64)>> {
    nodes.spread().await?;
    watched.forget()?;
    let count = RATE * SPAN_MS / 1_000;
    let first = first_due(load::now(), at_minute);
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
    led.into_iter().map(|shard| seen(shard, gone, &starts)).collect()
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

fn seen(shard: u16, gone: u64, starts: &[Start]) -> anyhow::Result<(f64, f64)> {
    let after = starts.iter().filter(|start| start.shard == shard && start.due >= gone);
    let first = after.clone().map(|start| start.at).min();
    let first = first.with_context(|| format!("nothing of shard {shard} became due"))?;
    let late = after.map(Start::late).fold(0.0, f64::max);
    Ok(((first - gone) as f64 / 1_000.0, late))
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
