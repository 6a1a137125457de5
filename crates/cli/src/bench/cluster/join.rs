//! How long a new node takes to have everything, and what it means for launches when one catches up.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use bellwether_core::time::DAY_MS;

use super::nodes::Nodes;
use super::starts::{Start, Watched, quantile};
use crate::bench::BenchArgs;
use crate::bench::child::disk_bytes;
use crate::bench::figures::Figures;
use crate::bench::load::{self, Due};
use crate::bench::puppet::JOB_TYPE;

const SUCCEEDED: &str = "bellwether_runs_succeeded_total";
const NOOP: &str = "bellwether.noop";
const CLIENTS: u64 = 4;
/// Runs a second while lateness is measured, and for how long.
const RATE: u64 = 1_000;
const SPAN_MS: u64 = 15_000;
/// Lateness is also looked at by half seconds: a store that puts things in order for a second or two decides
/// the p99 of all of them, whoever catches up.
const WINDOW_US: u64 = 500_000;

/// How late runs were, in milliseconds.
struct Late {
    p99: f64,
    /// The p99 of windows, in the median of them.
    usual_p99: f64,
}

/// Measures a cluster that grows from one node to three, then loses one for a while.
pub async fn measure(figures: &mut Figures, args: &BenchArgs, dir: &Path) -> anyhow::Result<()> {
    let mut nodes = Nodes::start(&dir.join("nodes"), 1, args.shards).await?;
    let far = Due::Spread(load::now().plus_ms(2 * DAY_MS), 365 * DAY_MS);
    load::create_at(&nodes.urls(), NOOP, args.join_jobs, CLIENTS, far).await?;
    for which in ["second", "third"] {
        let begun = Instant::now();
        nodes.add().await?;
        nodes.spread().await?;
        let what = format!("a {which} node joins {} jobs and leads its part", args.join_jobs);
        let took = begun.elapsed().as_secs_f64();
        figures.add(format!("join_{which}"), what, took, "s", Some("< 120"));
    }
    let disk = disk_bytes(&nodes.data(2)) as f64 / 1e6;
    figures.add("join_disk", "data of the third node", disk, "MB", None);
    catch_up(figures, &mut nodes, dir, args.missed_runs).await
}

/// How late runs are while a node catches up, against before and after. Before that as much was run
/// just now as the node misses: stores that have just taken in much have something to put in order.
async fn catch_up(
    figures: &mut Figures,
    nodes: &mut Nodes,
    dir: &Path,
    missed: u64,
) -> anyhow::Result<()> {
    let watched = Watched::start(nodes, &dir.join("starts")).await?;
    run_meanwhile(nodes, missed).await?;
    let before = lateness(nodes, &watched).await?;
    before.add(figures, "level", "all nodes up");
    nodes.take(2)?.kill()?;
    nodes.taken_over(2).await?;
    run_meanwhile(nodes, missed).await?;
    let begun = Instant::now();
    nodes.start_again(2).await?;
    let during = lateness(nodes, &watched).await?;
    nodes.spread().await?;
    let took = begun.elapsed().as_secs_f64();
    let what = format!("a node that missed {missed} runs is level and leads after, at most");
    figures.add("catch_up", what, took, "s", None);
    during.add(figures, "catch_up", "one catching up");
    let after = lateness(nodes, &watched).await?;
    after.add(figures, "again", "all nodes up again");
    let what = "p99, one catching up against all up before";
    figures.add("catch_up_before_ratio", what, during.p99 / before.p99, "×", Some("≤ 2"));
    let ratio = during.p99 / ((before.p99 + after.p99) / 2.0);
    let what = "p99, one catching up against the mean of before and after";
    figures.add("catch_up_ratio", what, ratio, "×", Some("≤ 2"));
    let what = "usual p99, one catching up against all up before";
    figures.add("catch_up_usual_ratio", what, during.usual_p99 / before.usual_p99, "×", None);
    Ok(())
}

impl Late {
    fn add(&self, figures: &mut Figures, key: &str, when: &str) {
        let what = format!("due to start, {when}, p99");
        figures.add(format!("{key}_p99"), what, self.p99, "ms", None);
        let what = format!("due to start, {when}, p99 of a half second, median of 30");
        figures.add(format!("{key}_usual_p99"), what, self.usual_p99, "ms", None);
    }
}

/// Runs what a node is to miss.
async fn run_meanwhile(nodes: &Nodes, missed: u64) -> anyhow::Result<()> {
    let done = nodes.total(SUCCEEDED).await?;
    let at = Due::At(load::now().plus_ms(1_000));
    load::create_at(&nodes.urls(), NOOP, missed, CLIENTS, at).await?;
    let most = Duration::from_secs(300);
    nodes.wait_for(SUCCEEDED, done + missed as f64, most).await.map(drop)
}

async fn lateness(nodes: &Nodes, watched: &Watched) -> anyhow::Result<Late> {
    watched.forget()?;
    let count = RATE * SPAN_MS / 1_000;
    let first = load::now().plus_ms(1_000);
    load::create_at(&nodes.urls(), JOB_TYPE, count, CLIENTS, Due::Spread(first, SPAN_MS)).await?;
    let from = u64::try_from(first.0)? * 1_000;
    let most = Duration::from_secs(120);
    let starts = watched.starts(from, from + SPAN_MS * 1_000, count, most).await?;
    let mut by_window: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for start in &starts {
        by_window.entry((start.due - from) / WINDOW_US).or_default().push(start.late());
    }
    let mut windows: Vec<f64> = by_window.values_mut().map(|late| quantile(late, 0.99)).collect();
    let mut late: Vec<f64> = starts.iter().map(Start::late).collect();
    Ok(Late { p99: quantile(&mut late, 0.99), usual_p99: quantile(&mut windows, 0.5) })
}
