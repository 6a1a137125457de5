//! The cluster under measurement: real nodes of this program on one machine.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bellwether_api::Cluster;

use crate::bench::child::{Server, free_address};
use crate::bench::load;

/// How long the cluster may take until everything is where it belongs.
const SPREAD_MAX: Duration = Duration::from_secs(600);

/// One of the nodes, which may be down.
pub struct Node {
    /// What it is called.
    pub name: String,
    listen: String,
    peer: String,
    server: Option<Server>,
}

/// All nodes, on a directory.
pub struct Nodes {
    dir: PathBuf,
    shards: String,
    http: reqwest::Client,
    all: Vec<Node>,
}

impl Nodes {
    /// Starts so many, and waits until every shard has its replicas and leaders are spread.
    pub async fn start(dir: &Path, count: usize, shards: u16) -> anyhow::Result<Nodes> {
        std::fs::create_dir_all(dir)?;
        let (dir, shards) = (dir.to_owned(), shards.to_string());
        let mut nodes = Nodes { dir, shards, http: load::client()?, all: Vec::new() };
        for _ in 0..count {
            nodes.add().await?;
        }
        nodes.spread().await?;
        Ok(nodes)
    }

    /// Starts one more, which is ready when this returns but has few or no replicas yet.
    pub async fn add(&mut self) -> anyhow::Result<()> {
        let name = format!("n{}", self.all.len() + 1);
        let (listen, peer) = (free_address()?, free_address()?);
        self.all.push(Node { name, listen, peer, server: None });
        self.start_again(self.all.len() - 1).await
    }

    /// Starts a node that is down.
    pub async fn start_again(&mut self, n: usize) -> anyhow::Result<()> {
        let join = self.all[0].peer.clone();
        let node = &mut self.all[n];
        let mut flags = vec!["--name", &node.name, "--peer-listen", &node.peer];
        match n {
            0 => flags.extend(["--shards", &self.shards]),
            _ => flags.extend(["--join", &join]),
        }
        let data = self.dir.join(&node.name);
        node.server = Some(Server::start_at(&data, &node.listen, &flags).await?);
        Ok(())
    }

    /// Takes a node's process away, to be killed or stopped.
    pub fn take(&mut self, n: usize) -> anyhow::Result<Server> {
        self.all[n].server.take().context("the node is down")
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// What a node is called.
    pub fn name(&self, n: usize) -> &str {
        &self.all[n].name
    }

    /// Where a node keeps its data.
    pub fn data(&self, n: usize) -> PathBuf {
        self.dir.join(&self.all[n].name)
    }

    /// The processes of those that are up.
    pub fn up(&self) -> impl Iterator<Item = &Server> {
        self.all.iter().filter_map(|node| node.server.as_ref())
    }

    /// Where those that are up answer.
    pub fn urls(&self) -> Vec<String> {
        self.up().map(|server| server.url.clone()).collect()
    }

    /// A counter, over those that are up.
    pub async fn total(&self, metric: &str) -> anyhow::Result<f64> {
        let mut total = 0.0;
        for server in self.up() {
            total += server.metric(metric).await?;
        }
        Ok(total)
    }

    /// Processor time so far, of those that are up.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        self.up().map(Server::cpu).sum()
    }

    /// Waits until a counter has reached a value; how long that took.
    pub async fn wait_for(
        &self,
        metric: &str,
        value: f64,
        most: Duration,
    ) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        loop {
            let now = self.total(metric).await?;
            if now >= value {
                return Ok(begun.elapsed());
            }
            if begun.elapsed() > most {
                bail!("{metric} is {now} after {most:?}, and should be {value}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The cluster, as the first node that is up knows it.
    pub async fn status(&self) -> anyhow::Result<Cluster> {
        let server = self.up().next().context("no node is up")?;
        let answer = self.http.get(format!("{}/v1/cluster", server.url)).send().await?;
        Ok(serde_json::from_str(&answer.error_for_status()?.text().await?)?)
    }

    /// Waits until every shard has as many voters as it should, all of them hardly behind, and every
    /// node that is up leads its part; how long that took.
    pub async fn spread(&self) -> anyhow::Result<Duration> {
        self.until("shards are not spread", |cluster| self.is_spread(cluster)).await
    }

    /// Waits until others lead what a node led that is not up any more; how long that took.
    pub async fn taken_over(&self, n: usize) -> anyhow::Result<Duration> {
        let gone = self.name(n);
        self.until("shards are not taken over", |cluster| {
            cluster.shards.iter().all(|shard| shard.leader.as_ref().is_some_and(|led| led != gone))
        })
        .await
    }

    async fn until(
        &self,
        otherwise: &str,
        holds: impl Fn(&Cluster) -> bool,
    ) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        while !holds(&self.status().await?) {
            if begun.elapsed() > SPREAD_MAX {
                bail!("{otherwise} after {SPREAD_MAX:?}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(begun.elapsed())
    }

    fn is_spread(&self, cluster: &Cluster) -> bool {
        /// Entries that a replica may be behind.
        const BEHIND: u64 = 100;
        let replicas = self.count().min(3);
        let placed = cluster.shards.iter().all(|shard| {
            let level = shard.lag.values().filter(|lag| **lag <= BEHIND).count();
            shard.leader.is_some() && shard.voters.len() == replicas && level >= replicas
        });
        let part = cluster.shards.len() as u64 / self.count() as u64;
        let leading = cluster.nodes.iter().all(|node| node.state == "up" && node.leads >= part);
        placed && leading && cluster.nodes.len() == self.count()
    }

    /// The shards that a node leads.
    pub async fn led_by(&self, n: usize) -> anyhow::Result<Vec<u16>> {
        let cluster = self.status().await?;
        let name = Some(self.name(n));
        let led = cluster.shards.iter().filter(|shard| shard.leader.as_deref() == name);
        Ok(led.map(|shard| shard.shard).collect())
    }
}
