//! The measurements, one after the other on one server's data.

use std::path::Path;
use std::time::{Duration, Instant};

use bellwether_core::time::DAY_MS;
use bellwether_store::probe::disk_probe;

use super::BenchArgs;
use super::child::{Server, disk_bytes};
use super::figures::Figures;
use super::load::{self, Due};

const LAUNCHES: &str = "bellwether_launches_total";
const SUCCEEDED: &str = "bellwether_runs_succeeded_total";
/// Connections that create jobs in batches.
const CLIENTS: u64 = 4;
/// Jobs made for each second of sustained launches.
const BACKLOG_PER_SECOND: u64 = 80_000;
/// Far enough ahead that nothing of it is launched while measuring.
const FAR_MS: u64 = 2 * DAY_MS;
/// The stored jobs are spread over this time.
const SPREAD_MS: u64 = 365 * DAY_MS;

/// Runs all phases that are wanted.
pub async fn run_all(figures: &mut Figures, args: &BenchArgs, dir: &Path) -> anyhow::Result<()> {
    let wants = |name: &str| args.only.is_empty() || args.only.iter().any(|only| only == name);
    machine(figures, dir)?;
    let data = dir.join("data");
    if wants("idle") {
        idle(figures, &dir.join("empty")).await?;
    }
    if wants("remote") {
        super::remote::measure(figures, &dir.join("remote")).await?;
    }
    if wants("batch") {
        super::batch::measure(figures, args, &dir.join("batch")).await?;
    }
    super::cluster::measure(figures, args, dir, wants).await?;
    let stored = ["single", "create", "cost", "restart", "sustain", "lag", "burst"];
    if !stored.iter().any(|name| wants(name)) {
        return Ok(());
    }
    let server = Server::start(&data).await?;
    if wants("single") {
        let rate = load::create_singly(&server.url, 64, Duration::from_secs(10)).await?;
        figures.add("single_creates", "single creates, 64 clients", rate, "/s", Some("≥ 5,000"));
    }
    let far = Due::Spread(load::now().plus_ms(FAR_MS), SPREAD_MS);
    load::create(&server.url, args.few_jobs, CLIENTS, far).await?;
    if wants("cost") {
        cost(figures, &server, args.few_jobs, "few").await?;
    }
    let more = args.jobs.saturating_sub(args.few_jobs);
    let took = load::create(&server.url, more, CLIENTS, far).await?;
    let rate = more as f64 / took.as_secs_f64();
    figures.add(
        "batch_creates",
        "creates through the batch endpoint",
        rate,
        "/s",
        Some("≥ 40,000, aim 90,000"),
    );
    settle(&server).await?;
    let per_job = disk_bytes(&data) as f64 / args.jobs.max(1) as f64;
    figures.add(
        "disk_per_job",
        format!("disk per job, {} stored", args.jobs),
        per_job,
        "B",
        Some("≤ 600"),
    );
    if wants("cost") {
        cost(figures, &server, args.jobs, "many").await?;
        for (load, words) in [("slow", "at 3,000/s"), ("full", "at full rate")] {
            let of = |size: &str| figures.get(&format!("cost_{load}_{size}"));
            if let (Some(few), Some(many)) = (of("few"), of("many")) {
                let what = format!("processor time per launch {words}, many against few");
                figures.add(format!("cost_{load}_ratio"), what, many / few, "×", Some("≤ 1.3"));
            }
        }
    }
    server.kill()?;
    let mut server = Server::start(&data).await?;
    let ready = server.ready.as_secs_f64();
    figures.add(
        "restart",
        format!("ready after kill -9, {} jobs", args.jobs),
        ready,
        "s",
        Some("< 5"),
    );
    if wants("sustain") {
        sustain(figures, &server, args).await?;
        memory(figures, &server, args)?;
        server.kill()?;
        server = Server::start(&data).await?;
    }
    if wants("lag") {
        lag(figures, &server, args).await?;
        server.kill()?;
        server = Server::start(&data).await?;
    }
    if wants("burst") {
        burst(figures, &server, args).await?;
    }
    server.kill()
}

fn machine(figures: &mut Figures, dir: &Path) -> anyhow::Result<()> {
    let cores = std::thread::available_parallelism()?.get();
    figures.add("cores", "cores", cores as f64, "", None);
    let disk = disk_probe(dir, Duration::from_secs(2))?;
    figures.add("disk_syncs", "disk: 4 KiB append + fdatasync", disk.syncs_per_second, "/s", None);
    figures.add(
        "disk_write",
        "disk: sequential write",
        disk.stream_bytes_per_second / 1e6,
        "MB/s",
        None,
    );
    Ok(())
}

async fn idle(figures: &mut Figures, data: &Path) -> anyhow::Result<()> {
    let server = Server::start(data).await?;
    let ready_ms = server.ready.as_secs_f64() * 1_000.0;
    figures.add("idle_ready", "empty server: ready in", ready_ms, "ms", Some("< 300"));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = server.cpu()?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let used = (server.cpu()? - before).as_secs_f64() / 10.0 * 100.0;
    figures.add("idle_cpu", "empty server: processor", used, "% of a core", Some("< 1"));
    let memory = server.memory()? as f64 / 1e6;
    figures.add("idle_memory", "empty server: memory", memory, "MB", Some("< 60"));
    server.kill()
}

fn memory(figures: &mut Figures, server: &Server, args: &BenchArgs) -> anyhow::Result<()> {
    let memory = server.memory()? as f64 / 1e6;
    let what = format!("memory with {} jobs, after sustained launches", args.jobs);
    figures.add("memory", what, memory, "MB", Some("< 1,500"));
    Ok(())
}

/// Waits until the store has nothing left to tidy up, so that phases do not pay for one another.
async fn settle(server: &Server) -> anyhow::Result<()> {
    let begun = Instant::now();
    let mut last = server.cpu()?;
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let now = server.cpu()?;
        if now - last < Duration::from_millis(100) || begun.elapsed() > Duration::from_secs(120) {
            return Ok(());
        }
        last = now;
    }
}

/// Processor time per launch with so many jobs stored: at a steady rate far below the limit, and
/// as fast as it goes.
async fn cost(
    figures: &mut Figures,
    server: &Server,
    stored: u64,
    size: &str,
) -> anyhow::Result<()> {
    for (load, count, spread_ms) in [("slow", 60_000, 20_000), ("full", 400_000, 0)] {
        let cost = cost_of(server, count, spread_ms).await?;
        let words = if spread_ms > 0 { "at 3,000/s" } else { "at full rate" };
        let what = format!("processor time per launch {words}, {stored} jobs stored");
        figures.add(format!("cost_{load}_{size}"), what, cost, "µs", None);
    }
    Ok(())
}

/// Creation is not counted; what the store has to tidy up afterwards is.
async fn cost_of(server: &Server, count: u64, spread_ms: u64) -> anyhow::Result<f64> {
    let before = server.metric(SUCCEEDED).await?;
    let start = load::now().plus_ms(4_000 + count / 30);
    let due = if spread_ms > 0 { Due::Spread(start, spread_ms) } else { Due::At(start) };
    load::create(&server.url, count, CLIENTS, due).await?;
    let wait = start.since_ms(load::now());
    tokio::time::sleep(Duration::from_millis(wait)).await;
    let cpu = server.cpu()?;
    server.wait_for(SUCCEEDED, before + count as f64, Duration::from_secs(120)).await?;
    settle(server).await?;
    Ok((server.cpu()? - cpu).as_micros() as f64 / count as f64)
}

/// As many launches as the server makes when there is always more to launch.
async fn sustain(figures: &mut Figures, server: &Server, args: &BenchArgs) -> anyhow::Result<()> {
    // More than can be launched in that time.
    let backlog = args.seconds * BACKLOG_PER_SECOND;
    let at_first = server.metric(SUCCEEDED).await?;
    let rate = figures.get("batch_creates").unwrap_or(40_000.0);
    // All are due at one instant, late enough that they can be created before it.
    let due = load::now().plus_ms((backlog as f64 / rate * 1_500.0) as u64 + 20_000);
    load::create(&server.url, backlog, CLIENTS, Due::At(due)).await?;
    let wait = due.since_ms(load::now());
    if wait == 0 {
        eprintln!(
            "(creating the backlog took longer than planned: launches began while it went on)"
        );
    }
    tokio::time::sleep(Duration::from_millis(wait)).await;
    let begun = Instant::now();
    let before = server.metric(SUCCEEDED).await?;
    let cpu = server.cpu()?;
    let mut done = 0.0;
    while begun.elapsed() < Duration::from_secs(args.seconds) && done < backlog as f64 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        done = server.metric(SUCCEEDED).await? - before;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let what = format!("launched and completed, sustained for {seconds:.0} s");
    figures.add("launches", what, done / seconds, "/s", Some("≥ 20,000, aim 45,000"));
    let cpu = (server.cpu()? - cpu).as_micros() as f64 / done.max(1.0);
    figures.add("launch_cpu", "processor time per launch, at full rate", cpu, "µs", None);
    // What is left over must not be in the way of the next phase.
    let rest = Duration::from_secs(args.seconds * 4 + 60);
    server.wait_for(SUCCEEDED, at_first + backlog as f64, rest).await?;
    Ok(())
}

/// How late launches are at a steady rate.
async fn lag(figures: &mut Figures, server: &Server, args: &BenchArgs) -> anyhow::Result<()> {
    let count = args.rate * args.seconds;
    let rate = figures.get("batch_creates").unwrap_or(40_000.0);
    let start = load::now().plus_ms((count as f64 / rate * 1_500.0) as u64 + 10_000);
    load::create(&server.url, count, CLIENTS, Due::Spread(start, args.seconds * 1_000)).await?;
    let most = Duration::from_secs(args.seconds * 4 + 60);
    server.wait_for(LAUNCHES, count as f64, most).await?;
    let metrics = server.metrics().await?;
    for (name, what, part) in [
        ("lag_p50", "lag p50", 0.5),
        ("lag_p99", "lag p99", 0.99),
        ("lag_p999", "lag p99.9", 0.999),
    ] {
        let ms = quantile(&metrics, "bellwether_launch_lag_seconds", part) * 1_000.0;
        let target = (name == "lag_p99").then_some("< 250");
        figures.add(name, format!("{what} at {} launches/s", args.rate), ms, "ms", target);
    }
    let by_second = |second: u32| {
        let key =
            format!("bellwether_second_of_minute_lag_max_milliseconds{{second=\"{second}\"}}");
        metrics.get(&key).copied().unwrap_or(0.0)
    };
    let worst = (0..60).max_by(|a, b| by_second(*a).total_cmp(&by_second(*b))).unwrap_or(0);
    figures.add(
        "lag_max",
        format!("worst lag of all, in second {worst} of the minute"),
        by_second(worst),
        "ms",
        None,
    );
    let line: Vec<String> = (0..60).map(|second| format!("{:.0}", by_second(second))).collect();
    eprintln!("worst lag by second of the minute, in ms: {}", line.join(" "));
    Ok(())
}

/// How long many jobs take that are due at one instant.
async fn burst(figures: &mut Figures, server: &Server, args: &BenchArgs) -> anyhow::Result<()> {
    let rate = figures.get("batch_creates").unwrap_or(40_000.0);
    let due = load::now().plus_ms((args.burst as f64 / rate * 1_500.0) as u64 + 5_000);
    load::create(&server.url, args.burst, CLIENTS, Due::At(due)).await?;
    let wait = due.since_ms(load::now());
    tokio::time::sleep(Duration::from_millis(wait)).await;
    let before = server.metric(LAUNCHES).await?;
    let took = server.wait_for(LAUNCHES, args.burst as f64, Duration::from_secs(120)).await?;
    let what = format!("{} jobs due at one instant: all launched in", args.burst);
    figures.add("burst", what, took.as_secs_f64(), "s", Some("< 10"));
    if before > 0.0 {
        eprintln!("({before:.0} of them had been launched before the clock was started)");
    }
    Ok(())
}

/// A quantile of one of the server's histograms, by linear interpolation within its bucket.
fn quantile(metrics: &std::collections::BTreeMap<String, f64>, name: &str, part: f64) -> f64 {
    let prefix = format!("{name}_bucket{{le=\"");
    let mut buckets: Vec<(f64, f64)> = metrics
        .iter()
        .filter_map(|(key, count)| {
            let bound = key.strip_prefix(&prefix)?.strip_suffix("\"}")?;
            let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? };
            Some((bound, *count))
        })
        .collect();
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total = buckets.last().map_or(0.0, |(_, count)| *count);
    let wanted = total * part;
    let (mut low, mut below) = (0.0, 0.0);
    for (bound, count) in buckets {
        if count >= wanted && count > below {
            if bound.is_infinite() {
                return low;
            }
            return low + (bound - low) * (wanted - below) / (count - below);
        }
        (low, below) = (bound, count);
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_within_their_bucket() {
        let metrics = [("0.1", 50.0), ("0.2", 99.0), ("+Inf", 100.0)]
            .map(|(bound, count)| (format!("x_bucket{{le=\"{bound}\"}}"), count))
            .into();
        assert!((quantile(&metrics, "x", 0.25) - 0.05).abs() < 1e-9);
        assert!((quantile(&metrics, "x", 0.5) - 0.1).abs() < 1e-9);
        assert!(quantile(&metrics, "x", 0.9) < 0.2);
        assert!((quantile(&metrics, "x", 0.999) - 0.2).abs() < 1e-9);
    }
}
