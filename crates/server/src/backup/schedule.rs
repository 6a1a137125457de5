//! Backups by themselves, every so often.
//!
//! Of several nodes the one takes them on which shard 0 acts. The time counts from the newest one of this
//! cluster in the place, whoever took it, so neither a server that is started again nor a node to
//! which shard 0 moves begins with a backup, and every node knows how old the newest is. One that
//! fails is tried again soon.

use std::sync::Arc;
use std::time::Duration;

use bellwether_backup::{Manifest, Place};
use bellwether_core::time::Time;

use crate::clock;
use crate::config::BackupConfig;
use crate::node::Node;

/// How long to wait after a failure, or while another is being taken.
const AGAIN: Duration = Duration::from_secs(60);
/// How long not to look at the place at most: another node may have taken one.
const LOOK_EVERY: Duration = Duration::from_secs(300);

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
        let again = self.every.min(AGAIN);
        let mut newest: Option<Time> = None;
        loop {
            match self.newest().await {
                Ok(found) => newest = newest.max(found),
                // Nobody knows whether one is due, so none is taken: old ones would go for it.
                Err(error) => {
                    tracing::warn!(to = self.to, %error, "the backups there cannot be looked at");
                    tokio::time::sleep(again).await;
                    continue;
                }
            }
            let due_in = newest.map_or(Duration::ZERO, |newest| {
                self.node.metrics.backed_up(newest);
                let age = Duration::from_millis(clock::now().since_ms(newest));
                self.every.saturating_sub(age)
            });
            if !due_in.is_zero() {
                tokio::time::sleep(due_in.min(LOOK_EVERY)).await;
            } else if let Some(taken) = self.once().await {
                newest = newest.max(Some(Time(taken.begun_ms)));
            } else {
                tokio::time::sleep(again).await;
            }
        }
    }

    /// When the newest backup of this cluster was begun.
    async fn newest(&self) -> bellwether_backup::Result<Option<Time>> {
        let place = Place::open(&self.to)?;
        let own = &self.node.cluster.identity.cluster;
        let newest = bellwether_backup::newest_readable(&place, own).await?;
        Ok(newest.map(|newest| Time(newest.begun_ms)))
    }

    async fn once(&self) -> Option<Manifest> {
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
