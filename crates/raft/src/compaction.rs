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
use openraft::metrics::RaftMetrics;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::engine::{RaftOpenError, group_error};
use crate::log::{Load, Log};
use crate::member::{Group, Members};
use crate::net::Copies;
use crate::types::Types;

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(1);
/// A group whose oldest entry keeps so many segments besides the newest is compacted.
const SEGMENTS_MAX: u64 = 6;
/// The same while somebody gets a copy of it, and needs what came since.
const SEGMENTS_FOR_COPIES: u64 = 32;
/// One whose oldest entry keeps so many and cannot be purged is stuck: it is not committed, because too
/// few of its nodes are up. Its entries are written once more.
const SEGMENTS_STUCK: u64 = 12;
/// Unless they are more bytes than this.
const CARRY_BYTES_MAX: u64 = 64 << 20;
/// So many of the newest segments stay.
const KEEP: u64 = 4;
/// Whoever lacks no more entries than this has caught up.
const NEARLY: u64 = 64;
/// A write of the log that takes so long is told of, and again each time it has taken as long.
const STUCK: Duration = Duration::from_secs(30);
/// How long a snapshot may take.
const WITHIN: Duration = Duration::from_secs(60);

/// Compacts the groups of a node until told to stop, and tells of a disk that neither takes a write nor
/// fails: by itself, since such a disk holds compaction up as well.
pub(crate) async fn keep_small(
    log: Arc<Log>,
    members: Arc<Members>,
    copies: Arc<Copies>,
    stop: Arc<Notify>,
) {
    tokio::select! {
        () = stop.notified() => {}
        () = tell_if_stuck(&log) => {}
        () = compact_all(&log, &members, &copies) => {}
    }
}

fn every() -> tokio::time::Interval {
    let mut interval = tokio::time::interval(EVERY);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    interval
}

async fn tell_if_stuck(log: &Log) {
    let (mut interval, mut told) = (every(), 0);
    loop {
        interval.tick().await;
        let writing = log.writing_for(Instant::now());
        if is_to_be_told(writing, &mut told) {
            tracing::warn!(?writing, "the log is stuck in a write: look at its disk");
        }
    }
}

async fn compact_all(log: &Log, members: &Members, copies: &Copies) {
    let mut interval = every();
    loop {
        interval.tick().await;
        for load in log.loads(KEEP) {
            let Some(member) = members.get(load.group) else { continue };
            if copies.need_after(load.group).is_some() {
                follow(copies, load.group, &member.raft);
            }
            let needed_after = copies.need_after(load.group);
            let applied = member.raft.metrics().borrow_watched().last_applied.map(|at| at.index);
            match step(&load, needed_after, applied) {
                Some(Step::Compact { upto }) => {
                    if let Err(error) = compact(&member.raft, upto).await {
                        tracing::debug!(shard = load.group, %error, "a group could not be compacted");
                    }
                }
                Some(Step::Carry) => carry(log, load.group).await,
                None => {}
            }
        }
    }
}

/// Whether it is to be told how long a write of the log has been under way, of which was told so often.
fn is_to_be_told(writing: Option<Duration>, told: &mut u64) -> bool {
    let before = *told;
    *told = writing.map_or(0, |writing| writing.as_secs() / STUCK.as_secs());
    *told > before
}

/// Looks how far those have come that got a copy.
fn follow(copies: &Copies, shard: Shard, raft: &Group) {
    let metrics = raft.metrics();
    let metrics = metrics.borrow_watched();
    let level = metrics.last_log_index.unwrap_or(0).saturating_sub(NEARLY);
    let replication = metrics.replication.as_ref();
    let matched = |node| replication?.get(&node).copied().flatten().map(|at| at.index);
    copies.follow(shard, Instant::now(), level, matched);
}

/// The last entry of a group that is to go, if any is: old ones, but not what somebody needs who is
/// being sent a copy, unless that has become too much.
fn can_go(load: &Load, needed_after: Option<u64>) -> Option<u64> {
    let old = load.old.filter(|_| load.segments >= SEGMENTS_MAX)?;
    match needed_after {
        Some(needed_after) if load.segments < SEGMENTS_FOR_COPIES => {
            Some(old.min(needed_after)).filter(|last| *last >= load.first)
        }
        _ => Some(old),
    }
}

/// What is done about a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Entries up to this one are purged.
    Compact { upto: u64 },
    /// All are written once more.
    Carry,
}

/// What to do about a group, if anything. Only what has been applied can be purged. If nothing of what is
/// old has been, no snapshot helps, and what there is gets in the way of others only once it is very old.
fn step(load: &Load, needed_after: Option<u64>, applied: Option<u64>) -> Option<Step> {
    let old = can_go(load, needed_after);
    let upto = old.zip(applied).map(|(old, applied)| old.min(applied));
    match upto.filter(|upto| *upto >= load.first) {
        Some(upto) => Some(Step::Compact { upto }),
        None if load.segments >= SEGMENTS_STUCK && needed_after.is_none() => Some(Step::Carry),
        None => None,
    }
}

/// Writes what there is of a group once more.
async fn carry(log: &Log, shard: Shard) {
    // It may have left the node meanwhile.
    let Ok(Some(group)) = log.existing(shard) else { return };
    match tokio::task::spawn_blocking(move || group.carry(CARRY_BYTES_MAX)).await {
        Ok(Ok(())) => tracing::debug!(shard, "what cannot be committed was carried over"),
        Ok(Err(error)) => tracing::debug!(shard, %error, "nothing was carried over"),
        Err(_) => {}
    }
}

/// Makes durable what the tables of a group have, unless they are, and purges what of it is old from the log.
///
/// # Errors
/// When they are not durable in time, or the group has stopped.
pub(crate) async fn compact(raft: &Group, upto: u64) -> Result<(), RaftOpenError> {
    let is_durable =
        |metrics: &RaftMetrics<Types>| metrics.snapshot.is_some_and(|at| at.index >= upto);
    if !is_durable(&raft.metrics().borrow_watched()) {
        raft.trigger().snapshot().await.map_err(group_error)?;
    }
    let waiting = raft.wait(Some(WITHIN));
    waiting.metrics(is_durable, "the tables are durable").await.map_err(group_error)?;
    raft.trigger().purge_log(upto).await.map_err(group_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r112_what_is_old_goes_unless_a_copy_that_is_under_way_needs_it() {
        let load = |segments| Load { group: 3, first: 100, segments, old: Some(900) };
        assert_eq!(can_go(&load(SEGMENTS_MAX - 1), None), None, "it is small");
        assert_eq!(can_go(&load(SEGMENTS_MAX), None), Some(900));
        assert_eq!(can_go(&load(SEGMENTS_MAX), Some(950)), Some(900));
        assert_eq!(can_go(&load(SEGMENTS_MAX), Some(500)), Some(500));
        assert_eq!(can_go(&load(SEGMENTS_MAX), Some(99)), None, "all that is left is needed");
        assert_eq!(can_go(&load(SEGMENTS_FOR_COPIES), Some(500)), Some(900), "too much");
        let young = Load { old: None, ..load(SEGMENTS_FOR_COPIES) };
        assert_eq!(can_go(&young, None), None);
    }

    #[test]
    fn r112_a_group_is_compacted_or_else_carried_but_never_both() {
        let load = |segments| Load { group: 3, first: 100, segments, old: Some(900) };
        let upto = |upto| Some(Step::Compact { upto });
        let (large, stuck) = (load(SEGMENTS_MAX), load(SEGMENTS_STUCK));
        for load in [large, stuck, load(SEGMENTS_FOR_COPIES)] {
            assert_eq!(step(&load, None, Some(5_000)), upto(900), "it is healthy");
            assert_eq!(step(&load, None, Some(100)), upto(100), "a little can go");
        }
        // What is old has not been applied: there is nothing to be purged.
        for applied in [None, Some(99)] {
            assert_eq!(step(&large, None, applied), None);
            assert_eq!(step(&stuck, None, applied), Some(Step::Carry));
            assert_eq!(step(&stuck, Some(99), applied), None, "somebody reads it");
        }
        let young = Load { old: None, ..load(SEGMENTS_MAX - 1) };
        assert_eq!(step(&young, None, Some(5_000)), None);
        let first = Load { first: 0, old: Some(0), ..large };
        assert_eq!(step(&first, None, Some(0)), upto(0));
        assert_eq!(step(&first, None, None), None, "nothing has been applied");
    }

    #[test]
    fn r112_a_write_that_is_stuck_is_told_of_now_and_then() {
        let mut told = 0;
        let seconds = [None, Some(1), Some(29), Some(30), Some(31), Some(61), Some(62), None];
        let tells = seconds.map(|took| is_to_be_told(took.map(Duration::from_secs), &mut told));
        assert_eq!(tells, [false, false, false, true, false, true, false, false]);
        assert!(is_to_be_told(Some(STUCK), &mut told), "another one");
    }
}
