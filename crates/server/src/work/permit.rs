//! Whether an attempt of the built-in worker may begin and go on: for as long as the lease on its shard lasts.
//!
//! A server that stood still finds out late that a lease has ended, perhaps only after it was renewed. What
//! it had then may have been given to another, and ended by the guard. So a lease that had ended when it was
//! renewed is remembered as such: what had not begun by then does not begin, and what a signal ended was not a
//! failure of the command. One that had ended so long ago that the guard must have acted is not renewed.

use bellwether_worker::guard::{Guarded, boot_ms};
use parking_lot::Mutex;

use crate::cluster::Lease;

/// The permit of an attempt.
pub struct Permit {
    /// When the run was asked for that it is for, by the clock of leases.
    pub asked_ms: u64,
    state: Mutex<State>,
    /// Who ends it if this process cannot, if it is a command that has not ended.
    guarded: Mutex<Option<Guarded>>,
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

    /// Whether it ended so long ago that whoever had it was ended.
    fn is_forfeit(self, now_ms: u64) -> bool {
        self.lease.is_some_and(|lease| lease.deadline_of_guard().kill_at_ms <= now_ms)
    }

    fn renewed(self, lease: Option<Lease>, now_ms: u64) -> State {
        match self.is_forfeit(now_ms) {
            true => State { lapsed: true, ..self },
            false => State { lease, lapsed: self.has_lapsed(now_ms) },
        }
    }
}

impl Permit {
    /// One under a lease, or for good if there is nobody to whom the run could be given; for a run that was
    /// asked for at an instant.
    #[must_use]
    pub fn new(asked_ms: u64, lease: Option<Lease>, guarded: Option<Guarded>) -> Permit {
        let state = State { lease, lapsed: false };
        Permit { asked_ms, state: Mutex::new(state), guarded: Mutex::new(guarded) }
    }

    /// Has it last as long as the lease does now, if it can still be renewed. What it lasts under.
    pub fn renew(&self, lease: Option<Lease>) -> Option<Lease> {
        let mut state = self.state.lock();
        let now_ms = boot_ms();
        *state = state.renewed(lease, now_ms);
        if let Some(guarded) = &*self.guarded.lock() {
            guarded.put_off(now_ms, state.lease.map(Lease::deadline_of_guard));
        }
        state.lease
    }

    /// The attempt has ended: nobody has to end it any more, whoever still reads what it printed.
    pub fn release(&self) {
        drop(self.guarded.lock().take());
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

    #[test]
    fn r92_what_the_guard_must_have_ended_does_not_go_on_under_a_new_lease() {
        let lease = |until_ms: u64| Some(Lease { until_ms });
        let first = State { lease: lease(10_000), lapsed: false };
        let killed_at_ms = Lease { until_ms: 10_000 }.deadline_of_guard().kill_at_ms;
        let late = first.renewed(lease(60_000), killed_at_ms - 1);
        assert!(late.has_lapsed(killed_at_ms) && !late.is_forfeit(killed_at_ms));
        for lease in [lease(60_000), None] {
            let forfeit = first.renewed(lease, killed_at_ms);
            assert!(forfeit.is_forfeit(killed_at_ms) && forfeit.has_lapsed(killed_at_ms));
        }
    }
}
