//! Keeping the log of a node small.
//!
//! A group is compacted when it has much in the log, or when it is idle and its few old entries keep
//! whole segments alive. The tables are made durable first (that is what a snapshot is here), then
//! what they have is purged, but for what a replica that is a little behind can be sent.

use std::sync::Arc;
use std::time::Duration;

use bellwether_core::waist::Shard;
use openraft::async_runtime::WatchReceiver;
use tokio::sync::Notify;

use crate::log::{Load, Log};
use crate::member::{Group, Members};

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(1);
/// A group with more than this in the log is compacted.
const BYTES_MAX: u64 = 32 * 1024 * 1024;
/// How much of it stays, for replicas that are behind.
const KEEP: u64 = 8 * 1024 * 1024;
/// A group whose oldest entry keeps so many segments is compacted, however little it has.
const SEGMENTS_MAX: u64 = 4;
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
                && (load.bytes > BYTES_MAX || load.segments >= SEGMENTS_MAX)
            {
                compact(load.group, &member.raft, &load).await;
            }
        }
    }
}

/// Makes durable what the tables of a group have, and purges it from the log.
async fn compact(shard: Shard, raft: &Group, load: &Load) {
    let applied = raft.metrics().borrow_watched().last_applied.map(|at| at.index);
    let Some(applied) = applied else { return };
    // Of one that is idle everything goes: a single entry would keep its segment.
    let idle = load.bytes <= BYTES_MAX;
    let upto = if idle { applied } else { load.all_but.unwrap_or(0) };
    let upto = upto.min(applied);
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
