//! How long to wait before dialling again.

use std::time::Duration;

/// The first pause.
const FIRST_MS: u64 = 100;

/// Pauses that grow, each cut by chance so that many workers do not come back at one instant.
#[derive(Debug)]
pub(crate) struct Backoff {
    next_ms: u64,
    max_ms: u64,
}

impl Backoff {
    pub(crate) fn new() -> Backoff {
        Backoff { next_ms: FIRST_MS, max_ms: 5_000 }
    }

    /// Starts over, after a connection that worked. While a server is down, its refusals keep the
    /// lease: so the longest pause is well within one.
    pub(crate) fn reset(&mut self, lease_ms: u64) {
        self.next_ms = FIRST_MS;
        self.max_ms = (lease_ms / 10).clamp(FIRST_MS, 5_000);
    }

    /// The next pause; `chance` is between 0 and 1.
    pub(crate) fn pause(&mut self, chance: f64) -> Duration {
        let whole = self.next_ms.min(self.max_ms);
        self.next_ms = (whole * 2).min(self.max_ms);
        Duration::from_millis(whole).mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_tenth_of_the_lease() {
        let mut backoff = Backoff::new();
        backoff.reset(6_000);
        let pauses: Vec<u128> = (0..5).map(|_| backoff.pause(1.0).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 600, 600]);
        assert_eq!(backoff.pause(0.0).as_millis(), 300);
        backoff.reset(6_000);
        assert_eq!(backoff.pause(1.0).as_millis(), 100);
    }
}
