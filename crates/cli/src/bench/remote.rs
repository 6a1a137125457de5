//! Workers in processes of their own: how much they get through, how soon they start, and what it
//! costs to have many that do nothing.

use std::ffi::OsStr;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::child::Server;
use super::figures::Figures;
use super::load::{self, Due};
use super::puppet::JOB_TYPE;

const SUCCEEDED: &str = "bellwether_runs_succeeded_total";
const CLIENTS: u64 = 4;
/// Runs for each measurement of throughput.
const RUNS: u64 = 300_000;
/// Runs for the measurement of latency, one every 20 ms.
const SINGLE_RUNS: u64 = 500;
/// Workers that are connected and do nothing.
const IDLE: u32 = 1_000;

/// A worker process of this program.
pub(super) struct Puppet(Child);

impl Puppet {
    pub(super) fn start(
        server: &Server,
        name: &str,
        slots: u32,
        workers: u32,
    ) -> anyhow::Result<Puppet> {
        let (slots, workers) = (slots.to_string(), workers.to_string());
        let sizes = ["--slots", &slots, "--workers", &workers];
        Puppet::start_with(&server.url, name, sizes.map(OsStr::new))
    }

    /// With more flags.
    pub(super) fn start_with<'a>(
        url: &str,
        name: &str,
        flags: impl IntoIterator<Item = &'a OsStr>,
    ) -> anyhow::Result<Puppet> {
        let child = Command::new(std::env::current_exe()?)
            .args(["bench-worker", "--server", url.trim_start_matches("http://")])
            .args(["--name", name])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start a worker")?;
        Ok(Puppet(child))
    }

    /// Ends it: how many runs it had, and their lateness in microseconds (p50, p99, most).
    pub(super) fn end(mut self) -> anyhow::Result<[u64; 4]> {
        let pid = i32::try_from(self.0.id())?;
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGTERM)?;
        let mut text = String::new();
        self.0.stdout.take().context("no output")?.read_to_string(&mut text)?;
        self.0.wait()?;
        let mut numbers = text.split_whitespace().map(str::parse);
        let mut next = || Ok::<u64, anyhow::Error>(numbers.next().context("a number is missing")??);
        Ok([next()?, next()?, next()?, next()?])
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        // Only the process that was started here, which may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures all of it on a server of its own.
pub async fn measure(figures: &mut Figures, data: &Path) -> anyhow::Result<()> {
    let server = Server::start(data).await?;
    let one = Puppet::start(&server, "one", 8_000, 1)?;
    connected(&server, 1).await?;
    let alone = throughput(&server).await?;
    figures.add("remote_one", "runs through one remote worker", alone, "/s", Some("≥ 10,000"));
    one.end()?;
    let many: Vec<Puppet> = (0..20)
        .map(|n| Puppet::start(&server, &format!("many-{n}"), 400, 1))
        .collect::<Result<_, _>>()?;
    connected(&server, 20).await?;
    let together = throughput(&server).await?;
    figures.add("remote_twenty", "runs through twenty remote workers", together, "/s", None);
    let ratio = together / alone;
    figures.add("remote_ratio", "the same, twenty against one", ratio, "×", Some("≥ 0.8"));
    drop(many);
    latency(figures, &server).await?;
    idle(figures, &server).await?;
    server.kill()
}

/// Waits until so many workers of this measurement are connected, besides the built-in one.
pub(super) async fn connected(server: &Server, count: usize) -> anyhow::Result<()> {
    let http = load::client()?;
    let begun = Instant::now();
    loop {
        let answer = http.get(format!("{}/v1/workers", server.url)).send().await?;
        let page: serde_json::Value = serde_json::from_str(&answer.text().await?)?;
        let active = page["items"].as_array().map_or(0, |items| {
            items
                .iter()
                .filter(|worker| worker["connected_at"].is_string() && worker["state"] == "active")
                .count()
        });
        if active == count {
            return Ok(());
        }
        anyhow::ensure!(begun.elapsed() < Duration::from_secs(60), "{active} of {count} connected");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Runs a second, created before and due at one instant, until all are completed durably.
async fn throughput(server: &Server) -> anyhow::Result<f64> {
    let before = server.metric(SUCCEEDED).await?;
    let due = load::now().plus_ms(4_000 + RUNS / 30);
    load::create_of(&server.url, JOB_TYPE, RUNS, CLIENTS, Due::At(due)).await?;
    tokio::time::sleep(Duration::from_millis(due.since_ms(load::now()))).await;
    let took = server.wait_for(SUCCEEDED, before + RUNS as f64, Duration::from_secs(300)).await?;
    Ok(RUNS as f64 / took.as_secs_f64())
}

/// From when a run is due to when its handler starts, one at a time.
async fn latency(figures: &mut Figures, server: &Server) -> anyhow::Result<()> {
    let worker = Puppet::start(server, "prompt", 100, 1)?;
    connected(server, 1).await?;
    let before = server.metric(SUCCEEDED).await?;
    let start = load::now().plus_ms(2_000);
    let spread = Due::Spread(start, SINGLE_RUNS * 20);
    load::create_of(&server.url, JOB_TYPE, SINGLE_RUNS, 1, spread).await?;
    let most = Duration::from_secs(60);
    server.wait_for(SUCCEEDED, before + SINGLE_RUNS as f64, most).await?;
    let [_, p50, p99, max] = worker.end()?;
    let ms = |micros: u64| micros as f64 / 1_000.0;
    figures.add("assign_p50", "due to handler start at 50/s, p50", ms(p50), "ms", Some("< 5"));
    figures.add("assign_p99", "due to handler start at 50/s, p99", ms(p99), "ms", Some("< 20"));
    figures.add("assign_max", "due to handler start at 50/s, worst", ms(max), "ms", None);
    Ok(())
}

/// What many workers cost that are connected and have nothing to do.
async fn idle(figures: &mut Figures, server: &Server) -> anyhow::Result<()> {
    let memory = server.memory()?;
    let workers = Puppet::start(server, "idle", 1, IDLE)?;
    connected(server, IDLE as usize).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let cpu = server.cpu()?;
    let begun = Instant::now();
    tokio::time::sleep(Duration::from_secs(20)).await;
    let used = (server.cpu()? - cpu).as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0;
    let grown = server.memory()?.saturating_sub(memory) as f64 / 1e6;
    drop(workers);
    let what = format!("{IDLE} idle workers: processor");
    figures.add("idle_workers_cpu", what, used, "% of a core", Some("< 5"));
    let what = format!("{IDLE} idle workers: memory");
    figures.add("idle_workers_memory", what, grown, "MB", Some("< 200"));
    Ok(())
}
