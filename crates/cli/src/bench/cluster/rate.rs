//! What three nodes launch against what one launches, and what they cost while they do nothing.

use std::path::Path;
use std::time::{Duration, Instant};

use super::nodes::Nodes;
use crate::bench::BenchArgs;
use crate::bench::figures::Figures;
use crate::bench::load::{self, Due};

const SUCCEEDED: &str = "bellwether_runs_succeeded_total";
const JOB_TYPE: &str = "bellwether.noop";
const CLIENTS: u64 = 3;
/// How long nodes are watched while they do nothing.
const IDLE: Duration = Duration::from_secs(20);

/// What was seen of some nodes.
struct Seen {
    launches: f64,
    cpu_micros: f64,
    creates: f64,
}

/// Measures one node, then three.
pub async fn measure(figures: &mut Figures, args: &BenchArgs, dir: &Path) -> anyhow::Result<()> {
    let one = Nodes::start(&dir.join("one"), 1, args.shards).await?;
    let alone = full_rate(&one, args.backlog).await?;
    drop(one);
    figures.add("one_launches", "one node: launches", alone.launches, "/s", None);
    figures.add("one_cpu", "one node: processor time per launch", alone.cpu_micros, "µs", None);
    figures.add("one_creates", "one node: creates", alone.creates, "/s", None);
    let nodes = Nodes::start(&dir.join("three"), 3, args.shards).await?;
    idle(figures, &nodes).await?;
    let three = full_rate(&nodes, args.backlog).await?;
    figures.add("three_launches", "three nodes: launches", three.launches, "/s", Some("≥ 6,000"));
    let ratio = three.launches / alone.launches;
    figures.add("three_ratio", "the same, three against one", ratio, "×", Some("≥ 0.4"));
    let cpu = three.cpu_micros;
    figures.add("three_cpu", "three nodes: processor time per launch, all", cpu, "µs", None);
    figures.add("three_creates", "three nodes: creates", three.creates, "/s", None);
    Ok(())
}

/// Jobs that are due at one instant, until all are completed durably.
async fn full_rate(nodes: &Nodes, count: u64) -> anyhow::Result<Seen> {
    let before = nodes.total(SUCCEEDED).await?;
    let due = load::now().plus_ms(5_000 + count / 12);
    let took = load::create_at(&nodes.urls(), JOB_TYPE, count, CLIENTS, Due::At(due)).await?;
    let creates = count as f64 / took.as_secs_f64();
    let wait = due.since_ms(load::now());
    anyhow::ensure!(wait > 0, "creating the jobs took longer than planned");
    tokio::time::sleep(Duration::from_millis(wait)).await;
    let cpu = nodes.cpu()?;
    let most = Duration::from_secs(60 + count / 1_000);
    let took = nodes.wait_for(SUCCEEDED, before + count as f64, most).await?;
    Ok(Seen {
        launches: count as f64 / took.as_secs_f64(),
        cpu_micros: (nodes.cpu()? - cpu).as_micros() as f64 / count as f64,
        creates,
    })
}

/// The node that costs most counts.
async fn idle(figures: &mut Figures, nodes: &Nodes) -> anyhow::Result<()> {
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before: Vec<Duration> = nodes.up().map(|server| server.cpu()).collect::<Result<_, _>>()?;
    let begun = Instant::now();
    tokio::time::sleep(IDLE).await;
    let (mut cpu, mut memory) = (0.0_f64, 0.0_f64);
    for (server, before) in nodes.up().zip(before) {
        let used = (server.cpu()? - before).as_secs_f64() / begun.elapsed().as_secs_f64();
        cpu = cpu.max(used * 100.0);
        memory = memory.max(server.memory()? as f64 / 1e6);
    }
    figures.add(
        "idle_node_cpu",
        "three idle nodes: processor, each",
        cpu,
        "% of a core",
        Some("< 3"),
    );
    figures.add("idle_node_memory", "three idle nodes: memory, each", memory, "MB", Some("< 120"));
    Ok(())
}
