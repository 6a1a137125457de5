//! What a queue may have under way: how much at once, how much a second, and whose turn it is.
//!
//! Slots are shared fairly between the namespaces of a queue: while others wait, nobody gets more
//! than an equal part of what the queue has under way and what is free. Everything here is counted
//! in memory and built up again after a restart.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The bounds of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueueLimits {
    /// How many runs may be under way at once; `None` for any number.
    pub concurrency: Option<usize>,
    /// How many runs may be launched a second; `None` for any number.
    pub per_second: Option<f64>,
    /// Whether nothing is launched.
    pub paused: bool,
}

/// A queue as it is used.
#[derive(Debug, Default)]
pub struct QueueUse {
    /// Its bounds.
    pub limits: QueueLimits,
    /// Runs that are under way, by namespace.
    under_way: BTreeMap<String, usize>,
    bucket: Bucket,
}

/// Launches that may be made right now; refilled as time goes by, up to a second's worth.
#[derive(Debug, Default)]
struct Bucket {
    launches: f64,
    filled: Option<Instant>,
}

impl Bucket {
    fn fill(&mut self, per_second: f64, now: Instant) {
        let most = per_second.max(1.0);
        self.launches = match self.filled {
            None => most,
            Some(then) => {
                let passed = now.saturating_duration_since(then).as_secs_f64();
                (self.launches + passed * per_second).min(most)
            }
        };
        self.filled = Some(now);
    }
}

impl QueueUse {
    /// How many of `want` runs of a namespace may be launched, given how many slots are free for
    /// them and how many other namespaces of the queue wait.
    pub fn allowed(
        &mut self,
        namespace: &str,
        want: usize,
        free: usize,
        others_waiting: usize,
        now: Instant,
    ) -> usize {
        if self.limits.paused {
            return 0;
        }
        let mut allowed = want.min(free);
        let total: usize = self.under_way.values().sum();
        let own = self.under_way.get(namespace).copied().unwrap_or(0);
        let mut room = free;
        if let Some(most) = self.limits.concurrency {
            room = room.min(most.saturating_sub(total));
            allowed = allowed.min(room);
        }
        if others_waiting > 0 {
            let part = (total.saturating_add(room)).div_ceil(others_waiting + 1);
            allowed = allowed.min(part.saturating_sub(own));
        }
        if let Some(per_second) = self.limits.per_second {
            self.bucket.fill(per_second, now);
            allowed = allowed.min(self.bucket.launches as usize);
        }
        allowed
    }

    /// Notes that so many are launched.
    pub fn take(&mut self, namespace: &str, count: usize) {
        if self.limits.per_second.is_some() {
            self.bucket.launches -= count as f64;
        }
        match self.under_way.get_mut(namespace) {
            Some(own) => *own += count,
            None => {
                self.under_way.insert(namespace.to_owned(), count);
            }
        }
    }

    /// Notes that so many have ended. `unused` if they were never launched.
    pub fn put(&mut self, namespace: &str, count: usize, unused: bool) {
        if unused && self.limits.per_second.is_some() {
            self.bucket.launches += count as f64;
        }
        if let Some(own) = self.under_way.get_mut(namespace) {
            *own = own.saturating_sub(count);
            if *own == 0 {
                self.under_way.remove(namespace);
            }
        }
    }

    /// How many are under way.
    #[must_use]
    pub fn total(&self) -> usize {
        self.under_way.values().sum()
    }

    /// Whether there is nothing to remember about it.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty() && self.limits == QueueLimits::default()
    }
}

/// How often queues with a rate are looked at again.
pub const RATE_EVERY: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(concurrency: Option<usize>, per_second: Option<f64>) -> QueueUse {
        QueueUse {
            limits: QueueLimits { concurrency, per_second, paused: false },
            ..QueueUse::default()
        }
    }

    #[test]
    fn concurrency_is_never_exceeded() {
        let now = Instant::now();
        let mut queue = limited(Some(3), None);
        assert_eq!(queue.allowed("a", 10, 100, 0, now), 3);
        queue.take("a", 2);
        assert_eq!(queue.allowed("b", 10, 100, 0, now), 1);
        queue.take("b", 1);
        assert_eq!(queue.allowed("a", 1, 100, 0, now), 0);
        queue.put("a", 2, false);
        assert_eq!(queue.allowed("a", 10, 100, 0, now), 2);
    }

    #[test]
    fn a_rate_is_kept_over_time_and_bursts_are_a_second_long() {
        let start = Instant::now();
        let mut queue = limited(None, Some(10.0));
        assert_eq!(queue.allowed("a", 100, 100, 0, start), 10);
        queue.take("a", 10);
        assert_eq!(queue.allowed("a", 100, 100, 0, start), 0);
        assert_eq!(queue.allowed("a", 100, 100, 0, start + Duration::from_millis(300)), 3);
        queue.take("a", 3);
        queue.put("a", 1, true);
        assert_eq!(queue.allowed("a", 100, 100, 0, start + Duration::from_millis(300)), 1);
        assert_eq!(queue.allowed("a", 100, 100, 0, start + Duration::from_secs(60)), 10);
        let mut slow = limited(None, Some(0.5));
        assert_eq!(slow.allowed("a", 5, 5, 0, start), 1);
        slow.take("a", 1);
        assert_eq!(slow.allowed("a", 5, 5, 0, start + Duration::from_millis(1_900)), 0);
        assert_eq!(slow.allowed("a", 5, 5, 0, start + Duration::from_secs(2)), 1);
    }

    #[test]
    fn namespaces_share_what_there_is_while_others_wait() {
        let now = Instant::now();
        let mut queue = QueueUse::default();
        assert_eq!(queue.allowed("a", 100, 10, 0, now), 10, "alone, it gets all");
        queue.take("a", 10);
        assert_eq!(queue.allowed("a", 100, 0, 1, now), 0);
        // One of a's runs ends: with b waiting, it is b's turn until both have as much.
        for _ in 0..5 {
            queue.put("a", 1, false);
            assert_eq!(queue.allowed("a", 100, 1, 1, now), 0);
            assert_eq!(queue.allowed("b", 100, 1, 1, now), 1);
            queue.take("b", 1);
        }
        queue.put("b", 1, false);
        assert_eq!(queue.allowed("b", 100, 1, 1, now), 1, "both have five");
    }

    #[test]
    fn nothing_is_launched_while_paused() {
        let mut queue = QueueUse::default();
        queue.limits.paused = true;
        assert_eq!(queue.allowed("a", 1, 1, 0, Instant::now()), 0);
    }
}
