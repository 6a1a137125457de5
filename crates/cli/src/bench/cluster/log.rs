//! How large the log of a node becomes while there is always something to do.

use std::path::Path;
use std::time::{Duration, Instant};

use super::nodes::Nodes;
use crate::bench::BenchArgs;
use crate::bench::child::disk_bytes;
use crate::bench::figures::Figures;
use crate::bench::load::{self, Due};

const NOOP: &str = "bellwether.noop";
const CLIENTS: u64 = 3;
const SUCCEEDED: &str = "bellwether_runs_succeeded_total";
/// Jobs that are created and run a second.
const RATE: u64 = 5_000;
/// Seconds of them that are created at once.
const PIECE: u64 = 5;

/// Measures three nodes.
pub async fn measure(figures: &mut Figures, args: &BenchArgs, dir: &Path) -> anyhow::Result<()> {
    let nodes = Nodes::start(&dir.join("nodes"), 3, args.shards).await?;
    let begun = Instant::now();
    let until = begun + Duration::from_secs(args.log_seconds);
    let (mut early, mut most) = (0, 0);
    let mut made = 0;
    while Instant::now() < until {
        let piece = Instant::now() + Duration::from_secs(PIECE);
        let due = Due::Spread(load::now().plus_ms(1_000), PIECE * 1_000);
        load::create_at(&nodes.urls(), NOOP, RATE * PIECE, CLIENTS, due).await?;
        made += RATE * PIECE;
        let logs = (0..nodes.count()).map(|n| disk_bytes(&nodes.data(n).join("log")));
        most = logs.max().unwrap_or(0).max(most);
        if begun.elapsed() < Duration::from_secs(args.log_seconds / 4) {
            early = most;
        }
        tokio::time::sleep_until(piece.into()).await;
    }
    nodes.wait_for(SUCCEEDED, made as f64, Duration::from_secs(300)).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let what = format!("launches, for {seconds:.0} s");
    figures.add("log_rate", what, made as f64 / seconds, "/s", None);
    let most = most as f64 / 1e6;
    figures.add("log_most", "the largest log of a node", most, "MB", None);
    let ratio = most / (early as f64 / 1e6);
    figures.add(
        "log_growth",
        "the same, over the whole time against its first quarter",
        ratio,
        "×",
        None,
    );
    let store = (0..nodes.count()).map(|n| disk_bytes(&nodes.data(n))).max().unwrap_or(0);
    figures.add("log_data", "all data of a node afterwards", store as f64 / 1e6, "MB", None);
    Ok(())
}
