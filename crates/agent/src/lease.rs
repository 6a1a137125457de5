//! The arithmetic of leases. No clock: every instant is an argument, in milliseconds of
//! [`crate::boot_ms`].
//!
//! ```text
//!  sent                          stop_at      kill_at      until        at the server: heard + length
//!   ├────── work goes on ──────────┼── asked ───┼─ killed ───┤              │
//!   └─ the heartbeat that was      └ politely   └ for sure   └ all gone     └ may give it to another
//!      answered
//! ```
//!
//! A server counts from when it *heard* a heartbeat, which is after it was sent. So everything is
//! gone here before it can be started elsewhere, however long messages take.
//!
//! **A server that is down** gives nothing away, and one that starts again gives every worker it
//! knows of a whole new lease before it does. So if it is the only one (it says so itself), a
//! refused connection is as good as an answered heartbeat: at some instant after the dialling began
//! there was no server. Silence is no such evidence: the network may be cut, and the server may be
//! counting.

/// A lease on everything a worker holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    /// How long it lasts from each renewal.
    pub length_ms: u64,
    /// When it ends.
    pub until_ms: u64,
}

impl Lease {
    /// A lease that was asked for at `sent_ms` and granted.
    #[must_use]
    pub fn granted(sent_ms: u64, length_ms: u64) -> Lease {
        Lease { length_ms, until_ms: sent_ms.saturating_add(length_ms) }
    }

    /// Renews it by a heartbeat that was sent at `sent_ms` and answered. Answers may come in any
    /// order: it never becomes shorter.
    pub fn renew(&mut self, sent_ms: u64) {
        self.until_ms = self.until_ms.max(sent_ms.saturating_add(self.length_ms));
    }

    /// Renews it by the evidence that the only server was down between `dialed_ms` and
    /// `refused_ms`. True if that counts: a lease that has ended is not revived, since it may have
    /// ended for the server too, before it went down.
    pub fn renew_by_refusal(&mut self, dialed_ms: u64, refused_ms: u64) -> bool {
        let counts = refused_ms < self.until_ms;
        if counts {
            self.renew(dialed_ms);
        }
        counts
    }

    /// When work is asked to stop, if there was no renewal.
    #[must_use]
    pub fn stop_at_ms(&self) -> u64 {
        self.until_ms.saturating_sub(self.margin_ms())
    }

    /// When work that has not stopped is ended by force. What is left after it is the time that
    /// takes.
    #[must_use]
    pub fn kill_at_ms(&self) -> u64 {
        self.until_ms.saturating_sub(self.margin_ms() / 3)
    }

    /// A fifth of the lease, but at least a second if that leaves two thirds of it.
    fn margin_ms(&self) -> u64 {
        (self.length_ms / 5).max((self.length_ms / 3).min(1_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_counts_from_when_the_answered_heartbeat_was_sent() {
        let mut lease = Lease::granted(1_000, 30_000);
        assert_eq!(lease.until_ms, 31_000);
        lease.renew(11_000);
        assert_eq!(lease.until_ms, 41_000);
        // An answer that was overtaken by a later one takes nothing away.
        lease.renew(6_000);
        assert_eq!(lease.until_ms, 41_000);
    }

    #[test]
    fn work_is_asked_to_stop_and_then_killed_before_the_end() {
        for (length, stop_at, kill_at) in [
            (30_000, 24_000, 28_000),
            (3_000, 2_000, 2_667),
            (1_500, 1_000, 1_334),
            (300_000, 240_000, 280_000),
        ] {
            let lease = Lease::granted(0, length);
            assert_eq!((lease.stop_at_ms(), lease.kill_at_ms()), (stop_at, kill_at), "{length}");
        }
    }

    #[test]
    fn a_refused_connection_renews_from_when_the_dialling_began() {
        let mut lease = Lease::granted(0, 30_000);
        assert!(lease.renew_by_refusal(20_000, 20_001));
        assert_eq!(lease.until_ms, 50_000);
        // As long as it is refused, it goes on.
        assert!(lease.renew_by_refusal(45_000, 45_001));
        assert_eq!(lease.until_ms, 75_000);
    }

    #[test]
    fn a_refusal_after_the_end_revives_nothing() {
        let mut lease = Lease::granted(0, 30_000);
        assert!(!lease.renew_by_refusal(29_000, 30_000));
        assert_eq!(lease.until_ms, 30_000);
    }

    #[test]
    fn lengths_out_of_all_proportion_do_not_wrap() {
        let mut lease = Lease::granted(u64::MAX - 5, u64::MAX);
        lease.renew(u64::MAX);
        assert_eq!(lease.until_ms, u64::MAX);
        assert_eq!(Lease::granted(0, 0).stop_at_ms(), 0);
    }
}
