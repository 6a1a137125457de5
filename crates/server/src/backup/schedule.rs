//! Backups by themselves, every so often.
//!
//! The time counts from the newest one of this cluster in the place, so a server that is started
//! again does not begin with a backup. One that fails is tried again soon.

use std::sync::Arc;
use std::time::Duration;

use bellwether_backup::{Manifest, Place};
use bellwether_core::time::Time;

use crate::clock;
use crate::config::BackupConfig;
use crate::node::Node;

/// How long to wait after a failure, or while another is being taken.
const AGAIN: Duration = Duration::from_secs(60);

/// Takes backups as the settings say, until the server stops.
pub fn keep_schedule(node: &Arc<Node>) {
    let BackupConfig { to: Some(to), every: Some(every), keep } = node.config.backup.clone() else {
        return;
    };
    let schedule = Schedule { node: node.clone(), to, every, keep };
    let stop = node.backups.stop.clone();
    node.backups.tasks.spawn(async move { stop.run_until_cancelled(schedule.run()).await });
}

struct Schedule {
    node: Arc<Node>,
    to: String,
    every: Duration,
    keep: usize,
}

impl Schedule {
    async fn run(&self) {
        let mut wait = match self.newest().await {
            Some(newest) => {
                self.node.metrics.backed_up(newest);
                let age = Duration::from_millis(clock::now().since_ms(newest));
                self.every.saturating_sub(age)
            }
            None => Duration::ZERO,
        };
        loop {
            tokio::time::sleep(wait).await;
            wait = match self.once().await {
                Some(manifest) => {
                    let age = clock::now().since_ms(Time(manifest.begun_ms));
                    self.every.saturating_sub(Duration::from_millis(age))
                }
                None => self.every.min(AGAIN),
            };
        }
    }

    /// When the newest backup of this cluster was begun.
    async fn newest(&self) -> Option<Time> {
        let place = Place::open(&self.to).ok()?;
        let all = bellwether_backup::list(&place, super::LISTED_MAX).await.ok()?;
        let manifests = all.into_iter().filter_map(|listed| listed.manifest);
        let own =
            manifests.filter(|manifest| manifest.cluster == self.node.cluster.identity.cluster);
        own.map(|manifest| Time(manifest.begun_ms)).max()
    }

    async fn once(&self) -> Option<Manifest> {
        // Of several nodes, one takes them: that on which shard 0 acts.
        if !self.node.shards[0].acts_here() {
            return None;
        }
        let (_, work) = self.node.backups.enter(&self.node, self.to.clone()).ok()?;
        let node = self.node.clone();
        // It goes on to its end when the schedule is stopped: then it is told to stop by itself.
        let taking = self.node.backups.tasks.spawn(async move { work.run(&node).await });
        let manifest = taking.await.ok()?.ok()?;
        if let Err(error) = self.prune().await {
            tracing::warn!(to = self.to, %error, "old backups could not be removed");
        }
        Some(manifest)
    }

    async fn prune(&self) -> bellwether_backup::Result<()> {
        let place = Place::open(&self.to)?;
        for name in
            bellwether_backup::prune(&place, &self.node.cluster.identity.cluster, self.keep).await?
        {
            tracing::info!(backup = name, to = self.to, "old backup removed");
        }
        Ok(())
    }
}
