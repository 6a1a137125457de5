//! Keeping the log of a node small.
//!
//! The newest segments stay, whichever groups they are of: a node that was away for a while is sent
//! what it has missed, and not all that there is. A group with something in older ones is compacted: the
//! tables are made durable (that is what a snapshot is here), then what they have is purged as far
//! as it is old. So few old entries of a group that is idle do not keep whole segments alive.

use std::sync::Arc;
use std::time::Duration;

use bellwether_core::waist::Shard;
use openraft::async_runtime::WatchReceiver;
use tokio::sync::Notify;

use crate::log::Log;
use crate::member::{Group, Members};

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(1);
/// A group whose oldest entry keeps so many segments besides the newest is compacted.
const SEGMENTS_MAX: u64 = 6;
/// So many of the newest segments stay.
const KEEP: u64 = 4;
/// How long a snapshot may take.
const WITHIN: Duration = Duration::from_secs(60);

/// Compacts the groups of a node until told to stop.
pub(crate) async fn keep_small(log: Arc<Log>, members: Arc<Members>, stop: Arc<Notify>) {
    let mut interval = tokio::time::interval(EVERY);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.notified() => return,
            _ = interval.tick() => {}
        }
        for load in log.loads(KEEP) {
            if let Some(member) = members.get(load.group)
                && let Some(old) = load.old.filter(|_| load.segments >= SEGMENTS_MAX)
            {
                compact(load.group, &member.raft, old).await;
            }
        }
    }
}

/// Makes durable what the tables of a group have, and purges what of it is old from the log.
async fn compact(shard: Shard, raft: &Group, old: u64) {
    let applied = raft.metrics().borrow_watched().last_applied.map(|at| at.index);
    let upto = applied.map_or(0, |applied| applied.min(old));
    if upto == 0 || raft.trigger().snapshot().await.is_err() {
        return;
    }
    let waiting = raft.wait(Some(WITHIN));
    let built = waiting.metrics(
        |metrics| metrics.snapshot.is_some_and(|at| at.index >= upto),
        "the tables are durable",
    );
    match built.await {
        Ok(_) => {
            let _ = raft.trigger().purge_log(upto).await;
        }
        Err(error) => tracing::debug!(shard, %error, "a group could not be compacted"),
    }
}
