//! Copies of shards that this node sends: how many at a time, how fast, and what of the log they need.
//!
//! A copy shows a shard at one moment, and whoever gets it goes on from there with the log. So it waits
//! for leave before that moment, not after it, and the log is kept from there on until whoever got it
//! has caught up. Else they would need the next copy, and under much load one after the other.

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
/// How long the log is kept for a replica that does not come any further.
const PATIENCE: Duration = Duration::from_secs(30);
/// A processor that is so late has too much to do.
const LATE: Duration = Duration::from_millis(3);

/// The copies that a node sends.
pub(crate) struct Copies {
    pace: Arc<Pace>,
    /// Leave to send a copy to a node, by its number.
    leave: Mutex<BTreeMap<u64, Arc<Semaphore>>>,
    /// Who needs the log for them, by shard and node.
    needs: Mutex<BTreeMap<(Shard, u64), Need>>,
}

/// What a replica needs of the log.
struct Need {
    /// It has everything up to here, or will have with its copy.
    after: u64,
    /// Since when it came no further, once it has its copy.
    arrived: Option<Instant>,
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
        let mut needs = self.copies.needs.lock();
        let place = (self.shard, self.node);
        if needs.get(&place).is_some_and(|need| need.arrived.is_none()) {
            needs.remove(&place);
        }
    }
}

impl Copies {
    /// None yet, to be sent at a pace.
    pub fn new(pace: Arc<Pace>) -> Arc<Copies> {
        Arc::new(Copies { pace, leave: Mutex::default(), needs: Mutex::default() })
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
        self.needs.lock().insert((shard, node), Need { after: upto, arrived: None });
        let (copies, late) = (self.clone(), AtomicBool::new(false));
        Some(Sending { copies, shard, node, urgent, late, _leave: leave })
    }

    /// Whoever got a copy of a shard has come so far since. Nothing is kept any more for those that are
    /// level with the log, that come no further, or of whom this node does not hear because it does
    /// not lead.
    pub fn follow(
        &self,
        shard: Shard,
        now: Instant,
        level: u64,
        matched: impl Fn(u64) -> Option<u64>,
    ) {
        self.needs.lock().retain(|(of, node), need| {
            let Some(since) = need.arrived.filter(|_| *of == shard) else { return true };
            let Some(at) = matched(*node) else { return false };
            if at > need.after {
                (need.after, need.arrived) = (at, Some(now));
            } else if now.saturating_duration_since(since) > PATIENCE {
                return false;
            }
            at < level
        });
    }

    /// The last entry of a shard's log that nobody needs who gets a copy, if anybody does.
    pub fn need_after(&self, shard: Shard) -> Option<u64> {
        let needs = self.needs.lock();
        needs.range((shard, 0)..=(shard, u64::MAX)).map(|(_, need)| need.after).min()
    }
}

impl Sending {
    /// The copy has arrived: from here on the replica needs the log.
    pub fn arrived(&self) {
        if let Some(need) = self.copies.needs.lock().get_mut(&(self.shard, self.node)) {
            need.arrived = Some(Instant::now());
        }
    }

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
    async fn r112_the_log_is_kept_for_copies_while_they_are_under_way() {
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
    async fn r112_the_log_is_kept_until_whoever_got_a_copy_has_caught_up() {
        let copies = copies();
        let arrives = async |shard, node, upto| {
            let sending = copies.begin(shard, node, upto, true).await.unwrap();
            sending.arrived();
        };
        arrives(3, 1, 50).await;
        arrives(4, 1, 10).await;
        let under_way = copies.begin(3, 2, 40, true).await.unwrap();
        let follow = |at: Option<u64>| {
            copies.follow(3, Instant::now(), 100, |node| if node == 1 { at } else { None });
            copies.need_after(3)
        };
        assert_eq!(follow(Some(50)), Some(40), "it has not even arrived");
        drop(under_way);
        assert_eq!(follow(Some(50)), Some(50));
        assert_eq!(follow(Some(80)), Some(80));
        tokio::time::advance(PATIENCE / 2).await;
        assert_eq!(follow(Some(99)), Some(99), "it comes further");
        assert_eq!(follow(Some(100)), None, "level");
        for (wait, at) in [(Duration::ZERO, None), (PATIENCE * 2, Some(50))] {
            arrives(3, 1, 50).await;
            tokio::time::advance(wait).await;
            assert_eq!(follow(at), None, "after {wait:?} at {at:?}");
        }
        assert_eq!(copies.need_after(4), Some(10), "another shard");
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
