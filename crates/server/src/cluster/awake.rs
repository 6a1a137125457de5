//! Whether this machine has slept, or was suspended.
//!
//! The clock of [`Instant`] stands still meanwhile: what was confirmed just before looks as if that had been
//! just now, though others may have gone on without this node for hours. The clock of leases
//! ([`boot_ms`]) goes on, and by how much more it has gone tells how long the machine slept.

use std::time::{Duration, Instant};

use bellwether_worker::guard::boot_ms;
use parking_lot::Mutex;

/// Clocks that are read one after the other differ by less.
const APART: Duration = Duration::from_millis(500);

/// When this machine last woke up, as far as that was noticed.
pub struct Awake {
    begun: Instant,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Default)]
struct State {
    /// How far the clock that goes on is ahead of the one that stands still.
    ahead_ms: u64,
    /// When that was last found to have become more.
    since: Option<Instant>,
}

impl State {
    fn look(self, now: Instant, begun: Instant, boot_ms: u64) -> State {
        let run = now.saturating_duration_since(begun).as_millis();
        let ahead_ms = boot_ms.saturating_sub(u64::try_from(run).unwrap_or(u64::MAX));
        let slept = u128::from(ahead_ms.saturating_sub(self.ahead_ms)) > APART.as_millis();
        State {
            ahead_ms: if slept { ahead_ms } else { self.ahead_ms },
            since: if slept { Some(now) } else { self.since },
        }
    }
}

impl Default for Awake {
    fn default() -> Awake {
        // In this order: a process that is held up in between takes that for a sleep once, and not less of every later one.
        let ahead_ms = boot_ms();
        let begun = Instant::now();
        Awake { begun, state: Mutex::new(State { ahead_ms, since: None }) }
    }
}

impl Awake {
    /// Since when it is known not to have slept; nothing if it never has.
    pub fn since(&self) -> Option<Instant> {
        let mut state = self.state.lock();
        // In this order, so that being held up in between is not taken for a sleep.
        let boot_ms = boot_ms();
        *state = state.look(Instant::now(), self.begun, boot_ms);
        state.since
    }

    /// What was so long ago, if it was not before a sleep.
    pub fn counts(&self, ago: Duration) -> Option<Duration> {
        let since = self.since();
        let at = Instant::now().checked_sub(ago);
        (since.is_none() || at >= since).then_some(ago)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r92_a_sleep_is_noticed_by_the_clock_that_goes_on() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let state = State { ahead_ms: 7_000, since: None };
        let state = state.look(at(1_000), begun, 8_000).look(at(2_000), begun, 9_300);
        assert_eq!(state.since, None, "clocks are not read at the same time");
        let state = state.look(at(3_000), begun, 70_000);
        assert_eq!(state.since, Some(at(3_000)));
        let state = state.look(at(4_000), begun, 71_000);
        assert_eq!(state.since, Some(at(3_000)), "once");
        assert_eq!(state.look(at(5_000), begun, 73_000).since, Some(at(5_000)), "and again");
    }

    #[test]
    fn what_was_before_a_sleep_does_not_count() {
        let woken = Instant::now();
        let state = Mutex::new(State { ahead_ms: u64::MAX, since: Some(woken) });
        let awake = Awake { begun: woken, state };
        assert_eq!(awake.counts(Duration::ZERO), Some(Duration::ZERO));
        assert_eq!(awake.counts(Duration::from_secs(3)), None);
        assert_eq!(Awake::default().counts(Duration::from_secs(3)), Some(Duration::from_secs(3)));
    }
}
