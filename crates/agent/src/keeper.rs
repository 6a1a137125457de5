//! Keeps the lease: what a worker holds is told to stop in time, whatever the connection does.

use std::sync::Arc;
use std::time::Duration;

use bellwether_protocol::v1::Held;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::boot_ms;
use crate::held::Holdings;
use crate::lease::Lease;
use crate::runner::{Runner, StopWhy};

/// The longest time between two looks at the clock: a machine that slept notices soon after.
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Default)]
struct State {
    lease: Option<Lease>,
    /// Whether the lease ran out and everything was told to stop.
    lost: bool,
    holdings: Holdings,
}

/// What a worker holds, and until when.
pub(crate) struct Keeper {
    state: Mutex<State>,
    changed: Notify,
    runner: Arc<dyn Runner>,
}

impl Keeper {
    pub(crate) fn new(runner: Arc<dyn Runner>) -> Arc<Keeper> {
        let mut state = State::default();
        state.holdings.adopt(runner.held());
        Arc::new(Keeper { state: Mutex::new(state), changed: Notify::new(), runner })
    }

    /// Looks at or changes what is held.
    pub(crate) fn holdings<T>(&self, look: impl FnOnce(&mut Holdings) -> T) -> T {
        look(&mut self.state.lock().holdings)
    }

    /// A server granted a lease on what was named in the hello it answers.
    pub(crate) fn granted(&self, sent_ms: u64, length_ms: u64) {
        self.change(|state| {
            state.lease = Some(Lease::granted(sent_ms, length_ms));
            state.lost = false;
            true
        });
    }

    /// A heartbeat was answered.
    pub(crate) fn renewed(&self, sent_ms: u64) {
        self.change(|state| {
            let Some(lease) = &mut state.lease else { return false };
            lease.renew(sent_ms);
            // If the answer came too late for what was held, it is good for what comes next.
            state.lost = false;
            true
        });
    }

    /// The only server was down for a moment.
    pub(crate) fn refused(&self, dialed_ms: u64, refused_ms: u64) {
        self.change(|state| {
            let lost = state.lost;
            let lease = state.lease.as_mut().filter(|_| !lost);
            lease.is_some_and(|lease| lease.renew_by_refusal(dialed_ms, refused_ms))
        });
    }

    fn change(&self, change: impl FnOnce(&mut State) -> bool) {
        let lease = {
            let mut state = self.state.lock();
            if !change(&mut state) {
                return;
            }
            state.lease
        };
        if let Some(lease) = lease {
            self.runner.leased(&lease);
        }
        self.changed.notify_one();
    }

    #[cfg(test)]
    fn is_lost(&self) -> bool {
        self.state.lock().lost
    }

    /// Tells everything to stop when the lease is about to end. Never returns.
    pub(crate) async fn keep(self: Arc<Self>) {
        loop {
            let pause = match self.look(boot_ms()) {
                Look::Wait(pause) => pause,
                Look::Stop(active, within) => {
                    if !active.is_empty() {
                        tracing::error!(
                            attempts = active.len(),
                            "the lease could not be renewed: stopping everything"
                        );
                    }
                    for held in &active {
                        self.runner.stop(held, StopWhy::LeaseLost { within });
                    }
                    LOOK_EVERY
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause.min(LOOK_EVERY)) => {}
                () = self.changed.notified() => {}
            }
        }
    }

    fn look(&self, now_ms: u64) -> Look {
        let mut state = self.state.lock();
        let Some(lease) = state.lease.filter(|_| !state.lost) else {
            return Look::Wait(LOOK_EVERY);
        };
        let left = lease.stop_at_ms().saturating_sub(now_ms);
        if left > 0 {
            return Look::Wait(Duration::from_millis(left));
        }
        state.lost = true;
        let within = lease.kill_at_ms().saturating_sub(now_ms);
        Look::Stop(state.holdings.active(), Duration::from_millis(within))
    }
}

enum Look {
    Wait(Duration),
    Stop(Vec<Held>, Duration),
}

#[cfg(test)]
mod tests {
    use bellwether_protocol::v1::Assignment;

    use super::*;

    /// Holds one attempt from before.
    struct One;

    impl Runner for One {
        fn held(&self) -> Vec<Held> {
            vec![Held { run: "a".to_owned(), token: 1 }]
        }
        fn start(&self, _: Assignment) {}
        fn stop(&self, _: &Held, _: StopWhy) {}
    }

    fn stops_at(keeper: &Keeper, now_ms: u64) -> Option<(usize, u128)> {
        match keeper.look(now_ms) {
            Look::Wait(_) => None,
            Look::Stop(active, within) => Some((active.len(), within.as_millis())),
        }
    }

    #[test]
    fn work_is_stopped_once_when_the_lease_nears_its_end() {
        let keeper = Keeper::new(Arc::new(One));
        assert_eq!(stops_at(&keeper, 1_000_000), None, "there is no lease yet");
        keeper.granted(0, 30_000);
        keeper.renewed(10_000);
        assert_eq!(stops_at(&keeper, 33_999), None);
        assert_eq!(stops_at(&keeper, 34_000), Some((1, 4_000)));
        assert_eq!(stops_at(&keeper, 35_000), None, "it was told already");
        assert!(keeper.is_lost());
        // A refusal does not bring back what was stopped; a new welcome is a new lease.
        keeper.refused(35_000, 35_001);
        assert!(keeper.is_lost());
        keeper.granted(50_000, 30_000);
        assert_eq!(stops_at(&keeper, 60_000), None);
        // An answer that comes late, over the same connection, begins anew as well.
        assert_eq!(stops_at(&keeper, 75_000), Some((1, 3_000)));
        keeper.renewed(70_000);
        assert_eq!(stops_at(&keeper, 93_999), None);
        assert_eq!(stops_at(&keeper, 94_000), Some((1, 4_000)));
        keeper.renewed(95_000);
        // After a long sleep there is no time left at all.
        assert_eq!(stops_at(&keeper, 1_000_000), Some((1, 0)));
    }

    #[test]
    fn a_server_that_is_down_keeps_the_lease() {
        let keeper = Keeper::new(Arc::new(One));
        keeper.granted(0, 30_000);
        keeper.refused(20_000, 20_001);
        assert_eq!(stops_at(&keeper, 43_999), None);
        assert_eq!(stops_at(&keeper, 44_000), Some((1, 4_000)));
    }
}
