//! What a queue may have under way with the workers of this node, and whose turn it is.
//!
//! Slots are shared fairly between the namespaces of a queue: while others wait, nobody gets more
//! than an equal part of what the queue has under way and what is free. Everything here is counted
//! in memory and built up again after a restart.
//!
//! Not here: bounds that hold for all nodes together, which shards keep (`bellwether_core::bounds`).
//! No node may have more of a queue than all together, so what a bound leaves is shared as well.

use std::collections::BTreeMap;

/// The bounds of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueueLimits {
    /// How many runs may be under way at once; `None` for any number.
    pub concurrency: Option<usize>,
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
        allowed
    }

    /// Notes that so many are launched.
    pub fn take(&mut self, namespace: &str, count: usize) {
        match self.under_way.get_mut(namespace) {
            Some(own) => *own += count,
            None => {
                self.under_way.insert(namespace.to_owned(), count);
            }
        }
    }

    /// Notes that so many have ended, or were never launched.
    pub fn put(&mut self, namespace: &str, count: usize) {
        if let Some(own) = self.under_way.get_mut(namespace) {
            *own = own.saturating_sub(count);
            if *own == 0 {
                self.under_way.remove(namespace);
            }
        }
    }

    /// How many are under way.
    #[cfg(test)]
    pub fn total(&self) -> usize {
        self.under_way.values().sum()
    }

    /// Whether there is nothing to remember about it.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty() && self.limits == QueueLimits::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_node_has_more_than_all_may() {
        let limits = QueueLimits { concurrency: Some(3), paused: false };
        let mut queue = QueueUse { limits, ..QueueUse::default() };
        assert_eq!(queue.allowed("a", 10, 100, 0), 3);
        queue.take("a", 2);
        assert_eq!(queue.allowed("b", 10, 100, 0), 1);
        queue.take("b", 1);
        assert_eq!(queue.allowed("a", 1, 100, 0), 0);
        queue.put("a", 2);
        assert_eq!(queue.allowed("a", 10, 100, 0), 2);
    }

    #[test]
    fn namespaces_share_what_there_is_while_others_wait() {
        let mut queue = QueueUse::default();
        assert_eq!(queue.allowed("a", 100, 10, 0), 10, "alone, it gets all");
        queue.take("a", 10);
        assert_eq!(queue.allowed("a", 100, 0, 1), 0);
        // One of a's runs ends: with b waiting, it is b's turn until both have as much.
        for _ in 0..5 {
            queue.put("a", 1);
            assert_eq!(queue.allowed("a", 100, 1, 1), 0);
            assert_eq!(queue.allowed("b", 100, 1, 1), 1);
            queue.take("b", 1);
        }
        queue.put("b", 1);
        assert_eq!(queue.allowed("b", 100, 1, 1), 1, "both have five");
    }

    #[test]
    fn nothing_is_launched_while_paused() {
        let mut queue = QueueUse::default();
        queue.limits.paused = true;
        assert_eq!(queue.allowed("a", 1, 1, 0), 0);
    }
}
