//! When runs were started, seen by the workers that started them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bellwether_core::id::RunId;

use super::nodes::Nodes;
use crate::bench::load::{self, Due};
use crate::bench::puppet::JOB_TYPE;
use crate::bench::remote::Puppet;

/// A worker at each node, all of which write down what they start.
pub struct Watched {
    dir: PathBuf,
    puppets: Vec<Puppet>,
}

/// The start of a run.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// When, in microseconds since 1970.
    pub at: u64,
    /// When it was due.
    pub due: u64,
    /// The shard of its job.
    pub shard: u16,
}

impl Start {
    /// By how much it was late, in milliseconds.
    pub fn late(&self) -> f64 {
        self.at.saturating_sub(self.due) as f64 / 1_000.0
    }
}

/// The present, in microseconds since 1970.
pub fn micros() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_micros()).unwrap_or(u64::MAX)
}

impl Watched {
    /// Starts them.
    pub async fn start(nodes: &Nodes, dir: &Path) -> anyhow::Result<Watched> {
        std::fs::create_dir_all(dir)?;
        let mut puppets = Vec::new();
        for (n, url) in nodes.urls().iter().enumerate() {
            let file = dir.join(format!("{n}.starts"));
            let flags = ["--slots", "1000", "--starts"].map(OsStr::new);
            let flags = flags.into_iter().chain([file.as_os_str()]);
            puppets.push(Puppet::start_with(url, &format!("watched-{n}"), flags)?);
        }
        let watched = Watched { dir: dir.to_owned(), puppets };
        watched.warm_up(nodes).await?;
        Ok(watched)
    }

    /// Until all of them get something to do, they are not there.
    async fn warm_up(&self, nodes: &Nodes) -> anyhow::Result<()> {
        for _ in 0..60 {
            let due = Due::Spread(load::now(), 500);
            load::create_at(&nodes.urls(), JOB_TYPE, 500, 3, due).await?;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let each = (0..self.puppets.len()).map(|n| self.read(n).map(|starts| starts.len()));
            if each.collect::<Result<Vec<_>, _>>()?.iter().all(|starts| *starts > 0) {
                return Ok(());
            }
        }
        bail!("not every worker gets something to do")
    }

    fn read(&self, n: usize) -> anyhow::Result<BTreeMap<RunId, Start>> {
        let path = self.dir.join(format!("{n}.starts"));
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let mut starts = BTreeMap::new();
        // The last line may be under way.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines() {
            let mut words = line.split(' ');
            let mut next = || words.next().context("a word is missing");
            let (at, due) = (next()?.parse()?, next()?.parse()?);
            let run: RunId = next()?.parse().map_err(|_| anyhow::anyhow!("not a run: {line}"))?;
            let start = Start { at, due, shard: run.job.shard() };
            // The first counts.
            starts.entry(run).or_insert(start);
        }
        Ok(starts)
    }

    /// The first start of every run that was due in a span of time, as soon as there are so many of
    /// them.
    pub async fn starts(
        &self,
        from: u64,
        to: u64,
        count: u64,
        most: Duration,
    ) -> anyhow::Result<Vec<Start>> {
        let begun = Instant::now();
        loop {
            let mut first: BTreeMap<RunId, Start> = BTreeMap::new();
            for n in 0..self.puppets.len() {
                for (run, start) in self.read(n)? {
                    let known = first.entry(run).or_insert(start);
                    known.at = known.at.min(start.at);
                }
            }
            first.retain(|_, start| (from..to).contains(&start.due));
            if first.len() as u64 >= count {
                return Ok(first.into_values().collect());
            }
            if begun.elapsed() > most {
                bail!("{} of {count} runs were started within {most:?}", first.len());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Forgets what was started.
    pub fn forget(&self) -> anyhow::Result<()> {
        for n in 0..self.puppets.len() {
            // It is appended to: what comes next is written at the beginning.
            std::fs::File::options()
                .write(true)
                .open(self.dir.join(format!("{n}.starts")))?
                .set_len(0)?;
        }
        Ok(())
    }
}

/// A quantile of some figures, which are put in order.
pub fn quantile(figures: &mut [f64], part: f64) -> f64 {
    figures.sort_by(f64::total_cmp);
    let last = figures.len().saturating_sub(1);
    figures.get((last as f64 * part).round() as usize).copied().unwrap_or(f64::NAN)
}
