//! Launches that may be made right now, refilled as time goes by.

/// What a launch takes.
const ONE: u64 = 1_000_000;

/// A bucket of launches. It holds a second's worth, and one at least.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bucket {
    /// Millionths of a launch.
    level: u64,
    filled_ms: u64,
}

impl Bucket {
    pub fn empty(now_ms: u64) -> Bucket {
        Bucket { level: 0, filled_ms: now_ms }
    }

    pub fn full(rate_milli: u64, now_ms: u64) -> Bucket {
        Bucket { level: most(rate_milli), filled_ms: now_ms }
    }

    pub fn fill(&mut self, rate_milli: u64, now_ms: u64) {
        let passed = now_ms.saturating_sub(self.filled_ms);
        let more = rate_milli.saturating_mul(passed);
        self.level = self.level.saturating_add(more).min(most(rate_milli));
        self.filled_ms = self.filled_ms.max(now_ms);
    }

    /// How many launches it has.
    pub fn whole(&self) -> u64 {
        self.level / ONE
    }

    pub fn take(&mut self, launches: u64) {
        self.level = self.level.saturating_sub(launches.saturating_mul(ONE));
    }

    pub fn put(&mut self, launches: u64, rate_milli: u64) {
        let more = launches.saturating_mul(ONE);
        self.level = self.level.saturating_add(more).min(most(rate_milli));
    }
}

/// A thousandth of a launch a second is a millionth in a millisecond.
fn most(rate_milli: u64) -> u64 {
    rate_milli.saturating_mul(1_000).max(ONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_over_time_and_bursts_are_a_second_long() {
        let mut bucket = Bucket::full(10_000, 0);
        assert_eq!(bucket.whole(), 10);
        bucket.take(10);
        bucket.fill(10_000, 0);
        assert_eq!(bucket.whole(), 0);
        bucket.fill(10_000, 300);
        assert_eq!(bucket.whole(), 3);
        bucket.take(3);
        bucket.put(1, 10_000);
        assert_eq!(bucket.whole(), 1);
        bucket.fill(10_000, 60_000);
        assert_eq!(bucket.whole(), 10);
        let mut slow = Bucket::empty(0);
        slow.fill(500, 1_900);
        assert_eq!(slow.whole(), 0);
        slow.fill(500, 2_000);
        assert_eq!(slow.whole(), 1, "one at least");
    }
}
