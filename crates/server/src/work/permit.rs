//! Whether an attempt of the built-in worker may begin and go on: for as long as the lease on its shard lasts.
//!
//! A server that stood still finds out late that a lease has ended, perhaps only after it was renewed. What
//! it had then may have been given to another, and ended by the guard. So a lease that had ended when it was
//! renewed is remembered as such: what had not begun by then does not begin, and what a signal ended was not a
//! failure of the command.

use bellwether_worker::guard::{Guarded, boot_ms};
use parking_lot::Mutex;

use crate::cluster::Lease;

/// The permit of an attempt.
pub struct Permit {
    state: Mutex<State>,
    /// Who ends it if this process cannot, if it is a command.
    guarded: Option<Guarded>,
}

#[derive(Clone, Copy)]
struct State {
    lease: Option<Lease>,
    lapsed: bool,
}

impl State {
    fn has_lapsed(self, now_ms: u64) -> bool {
        let over = |lease: Lease| lease.deadline().stop_at_ms <= now_ms;
        self.lapsed || self.lease.is_some_and(over)
    }

    fn renewed(self, lease: Option<Lease>, now_ms: u64) -> State {
        State { lease, lapsed: self.has_lapsed(now_ms) }
    }
}

impl Permit {
    /// One under a lease, or for good if there is nobody to whom the run could be given.
    #[must_use]
    pub fn new(lease: Option<Lease>, guarded: Option<Guarded>) -> Permit {
        Permit { state: Mutex::new(State { lease, lapsed: false }), guarded }
    }

    /// Has it last as long as the lease does now.
    pub fn renew(&self, lease: Option<Lease>) {
        let mut state = self.state.lock();
        *state = state.renewed(lease, boot_ms());
        if let Some(guarded) = &self.guarded {
            guarded.put_off(lease.map(Lease::deadline_of_guard));
        }
    }

    /// Whether it has ended, be it only for a moment.
    #[must_use]
    pub fn has_lapsed(&self) -> bool {
        self.state.lock().has_lapsed(boot_ms())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r92_a_lease_that_had_ended_is_not_mended_by_a_new_one() {
        let lease = |until_ms: u64| Some(Lease { until_ms });
        let first = State { lease: lease(10), lapsed: false };
        assert!(!first.has_lapsed(9));
        assert!(first.has_lapsed(10));
        assert!(!first.renewed(lease(20), 9).has_lapsed(10));
        assert!(first.renewed(lease(20), 10).has_lapsed(11));
        assert!(!first.renewed(None, 9).has_lapsed(1_000), "it is alone again");
    }
}
