//! Copies of shards that this node sends: how many at a time, how fast, and what of the log they need.
//!
//! A copy shows a shard at one moment, and whoever gets it goes on from there with the log. So it waits
//! for leave before that moment, not after it, and the log is kept from there on until it has
//! arrived.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bellwether_core::waist::Shard;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::log::Pace;

/// Copies that a node is sent at the same time. One that was away for long needs all of its shards.
const COPIES_MAX: usize = 2;
/// How long leave is waited for. What a copy shows must not be old when it begins.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);
/// How much faster copies are sent than what a replica lacks of the log, if nobody minds.
const TIMES: u64 = 4;
/// A processor that is so late has too much to do.
const LATE: Duration = Duration::from_millis(3);

/// The copies that a node sends.
pub(crate) struct Copies {
    pace: Arc<Pace>,
    /// Leave to send a copy to a node, by its number.
    leave: Mutex<BTreeMap<u64, Arc<Semaphore>>>,
    /// Those under way by shard and node: how far in the log they go.
    under_way: Mutex<BTreeMap<(Shard, u64), u64>>,
}

/// A copy that is under way, while this is there.
pub(crate) struct Sending {
    copies: Arc<Copies>,
    shard: Shard,
    node: u64,
    /// Whether others wait for it: a node that joins has nothing without it.
    urgent: bool,
    /// Whether the processors had too much to do when the last part was sent.
    late: AtomicBool,
    _leave: OwnedSemaphorePermit,
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.copies.under_way.lock().remove(&(self.shard, self.node));
    }
}

impl Copies {
    /// None yet, to be sent at a pace.
    pub fn new(pace: Arc<Pace>) -> Arc<Copies> {
        Arc::new(Copies { pace, leave: Mutex::default(), under_way: Mutex::default() })
    }

    /// Begins to send a copy that goes so far in the log. `None` if others are before it.
    pub async fn begin(
        self: &Arc<Self>,
        shard: Shard,
        node: u64,
        upto: u64,
        urgent: bool,
    ) -> Option<Sending> {
        let leave = {
            let mut leave = self.leave.lock();
            leave.entry(node).or_insert_with(|| Arc::new(Semaphore::new(COPIES_MAX))).clone()
        };
        let leave = tokio::time::timeout(LEAVE_WITHIN, leave.acquire_owned()).await.ok()?.ok()?;
        self.under_way.lock().insert((shard, node), upto);
        let (copies, late) = (self.clone(), AtomicBool::new(false));
        Some(Sending { copies, shard, node, urgent, late, _leave: leave })
    }

    /// The last entry of a shard's log that no copy under way needs, if there are any.
    pub fn need_after(&self, shard: Shard) -> Option<u64> {
        let under_way = self.under_way.lock();
        under_way.range((shard, 0)..=(shard, u64::MAX)).map(|(_, upto)| *upto).min()
    }
}

impl Sending {
    /// Waits until so many bytes may be sent. Where processors have too much to do already, launches
    /// would be late for that, and copies that nobody waits for go slowly.
    pub async fn turn(&self, bytes: u64) {
        let slowly = self.late.load(Ordering::Relaxed) && !self.urgent;
        let begun = Instant::now();
        let wait = self.copies.pace.wait_copy(begun, bytes, if slowly { 1 } else { TIMES });
        if wait.is_zero() {
            return;
        }
        tokio::time::sleep(wait).await;
        self.late.store(begun.elapsed() > wait + LATE, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies() -> Arc<Copies> {
        Copies::new(Arc::new(Pace::new(Instant::now(), 1024 * 1024)))
    }

    #[tokio::test(start_paused = true)]
    async fn r67_the_log_is_kept_for_copies_while_they_are_under_way() {
        let copies = copies();
        assert_eq!(copies.need_after(3), None);
        let first = copies.begin(3, 1, 70, true).await.unwrap();
        let second = copies.begin(3, 2, 50, true).await.unwrap();
        let other = copies.begin(4, 1, 10, true).await.unwrap();
        assert_eq!(copies.need_after(3), Some(50));
        drop(second);
        assert_eq!(copies.need_after(3), Some(70));
        drop((first, other));
        assert_eq!(copies.need_after(3), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_is_sent_few_copies_at_a_time() {
        let copies = copies();
        let first = copies.begin(1, 9, 1, true).await.unwrap();
        let _second = copies.begin(2, 9, 1, true).await.unwrap();
        assert!(copies.begin(3, 9, 1, true).await.is_none(), "others are before it");
        assert_eq!(copies.need_after(3), None);
        assert!(copies.begin(3, 8, 1, true).await.is_some(), "another node");
        drop(first);
        assert!(copies.begin(3, 9, 1, true).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn r65_copies_go_slowly_where_processors_have_too_much_to_do() {
        const PART: u64 = 1024 * 1024;
        for (urgent, late, expected_ms) in
            [(false, false, 250), (false, true, 1_000), (true, true, 250)]
        {
            let copies = copies();
            let sending = copies.begin(1, 9, 1, urgent).await.unwrap();
            sending.late.store(late, Ordering::Relaxed);
            sending.turn(PART).await; // Nobody is before it.
            let begun = Instant::now();
            sending.turn(PART).await;
            let took = begun.elapsed().as_millis();
            assert!(took.abs_diff(expected_ms) <= 2, "{took} ms, not {expected_ms}");
            assert!(!sending.late.load(Ordering::Relaxed), "on time");
        }
    }
}
