//! The server under measurement: a child process and what can be seen of it from outside.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// A server in a process of its own.
pub struct Server {
    process: Child,
    /// Where it answers.
    pub url: String,
    /// How long it took to be ready.
    pub ready: Duration,
    http: reqwest::Client,
}

/// An address at which nobody listens, also while a node of it is down: on a loopback host of its
/// own, where the system has more than one.
pub fn free_address() -> anyhow::Result<String> {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let own = Ipv4Addr::new(127, 23, 55, NEXT.fetch_add(1, Ordering::Relaxed).max(1));
    let listener = TcpListener::bind((own, 0)).or_else(|_| TcpListener::bind("127.0.0.1:0"))?;
    Ok(listener.local_addr()?.to_string())
}

/// How long a server may take to be ready.
const READY_MAX: Duration = Duration::from_secs(300);

impl Server {
    /// Starts a server on a data directory and waits until it is ready.
    pub async fn start(data: &Path) -> anyhow::Result<Server> {
        Server::start_at(data, &free_address()?, &[]).await
    }

    /// The same at an address and with more flags.
    pub async fn start_at(data: &Path, listen: &str, flags: &[&str]) -> anyhow::Result<Server> {
        let log = std::fs::File::create(data.with_extension("log"))?;
        let begun = Instant::now();
        let process = Command::new(std::env::current_exe()?)
            .args(["server", "--listen", listen, "--data-dir"])
            .arg(data)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start the server")?;
        let url = format!("http://{listen}");
        let http = super::load::client()?;
        let mut server = Server { process, url, ready: Duration::ZERO, http };
        loop {
            if let Ok(answer) = server.http.get(format!("{}/readyz", server.url)).send().await
                && answer.status().is_success()
            {
                break;
            }
            if let Some(status) = server.process.try_wait()? {
                bail!(
                    "the server ended at once ({status}); see {}",
                    data.with_extension("log").display()
                );
            }
            if begun.elapsed() > READY_MAX {
                bail!("the server is not ready after {READY_MAX:?}");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        server.ready = begun.elapsed();
        Ok(server)
    }

    /// Kills it with SIGKILL.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }

    /// Tells it to stop, and waits until it has.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        let pid = i32::try_from(self.process.id())?;
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGTERM)?;
        while self.process.try_wait()?.is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Resident memory in bytes.
    pub fn memory(&self) -> anyhow::Result<u64> {
        self.bytes_of("VmRSS:")
    }

    /// The most resident memory it ever had, in bytes.
    pub fn memory_peak(&self) -> anyhow::Result<u64> {
        self.bytes_of("VmHWM:")
    }

    fn bytes_of(&self, name: &str) -> anyhow::Result<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = text.lines().find(|line| line.starts_with(name));
        let line = line.with_context(|| format!("no {name}"))?;
        let kib: u64 = line.split_whitespace().nth(1).context("no number")?.parse()?;
        Ok(kib * 1_024)
    }

    /// Processor time used so far.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        let after = text.rsplit_once(')').context("no stat")?.1;
        let fields: Vec<&str> = after.split_whitespace().collect();
        let ticks: u64 = fields.get(11).context("no utime")?.parse::<u64>()?
            + fields.get(12).context("no stime")?.parse::<u64>()?;
        // Linux counts in hundredths of a second on every machine this runs on.
        Ok(Duration::from_millis(ticks * 10))
    }

    /// The server's own figures, by name; histogram buckets by name and bound.
    pub async fn metrics(&self) -> anyhow::Result<BTreeMap<String, f64>> {
        let text = self.http.get(format!("{}/metrics", self.url)).send().await?.text().await?;
        let mut all = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some((name, value)) = line.rsplit_once(' ')
                && let Ok(value) = value.parse()
            {
                all.insert(name.to_owned(), value);
            }
        }
        Ok(all)
    }

    /// One of the server's own figures.
    pub async fn metric(&self, name: &str) -> anyhow::Result<f64> {
        let all = self.metrics().await?;
        all.get(name).copied().with_context(|| format!("the server has no metric {name}"))
    }

    /// Waits until a counter has reached a value; how long that took.
    pub async fn wait_for(
        &self,
        name: &str,
        value: f64,
        most: Duration,
    ) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        loop {
            let now = self.metric(name).await?;
            if now >= value {
                return Ok(begun.elapsed());
            }
            if begun.elapsed() > most {
                bail!("{name} is {now} after {most:?}, and should be {value}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Only the process that was started here, which may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Bytes of a directory's files, by the blocks they use.
pub fn disk_bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => disk_bytes(&entry.path()),
            Ok(meta) => meta.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}
