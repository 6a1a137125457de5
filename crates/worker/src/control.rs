//! How a running attempt is told to stop.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// Why an attempt is to stop.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StopReason {
    /// Someone asked for it, or a newer run replaces this one.
    Canceled,
    /// This process is shutting down.
    Shutdown,
    /// The lease on the run is gone or about to go: another worker may start it.
    LeaseLost,
}

impl StopReason {
    /// The reason's name, as it stands in stored and sent data.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            StopReason::Canceled => "canceled",
            StopReason::Shutdown => "shutdown",
            StopReason::LeaseLost => "lease_lost",
        }
    }
}

/// A request to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stop {
    /// Why.
    pub reason: StopReason,
    /// How long the target has to end by itself, if other than the attempt's own grace period.
    /// Zero kills at once.
    pub grace: Option<Duration>,
}

/// The handle by which an attempt is stopped. Clones are the same handle.
#[derive(Clone)]
pub struct Control {
    stop: Arc<watch::Sender<Option<Stop>>>,
    permit: Option<Arc<Permit>>,
}

/// Whether an attempt may begin at this moment.
type Permit = dyn Fn() -> bool + Send + Sync;

impl Control {
    /// A handle that has not been used.
    #[must_use]
    pub fn new() -> Control {
        Control { stop: Arc::new(watch::Sender::new(None)), permit: None }
    }

    /// One for an attempt that is not to begin if `permit` says so at the last moment: this process may
    /// have stood still since it was told to begin, and somebody else may have done so.
    #[must_use]
    pub fn with_permit(permit: impl Fn() -> bool + Send + Sync + 'static) -> Control {
        Control { permit: Some(Arc::new(permit)), ..Control::new() }
    }

    /// Why the attempt must not begin, if that is so.
    pub(crate) fn refusal(&self) -> Option<Stop> {
        let refused = || self.permit.as_ref().is_some_and(|permit| !permit());
        self.requested()
            .or_else(|| refused().then_some(Stop { reason: StopReason::LeaseLost, grace: None }))
    }

    /// Asks for a stop, with the attempt's own grace period. The first reason given stands.
    pub fn stop(&self, reason: StopReason) {
        self.request(Stop { reason, grace: None });
    }

    /// Asks for a stop with another grace period. Asking again with a period can shorten the one
    /// under way (it counts from the new request), never lengthen it.
    pub fn stop_within(&self, reason: StopReason, grace: Duration) {
        self.request(Stop { reason, grace: Some(grace) });
    }

    /// What was asked for so far.
    #[must_use]
    pub fn requested(&self) -> Option<Stop> {
        *self.stop.borrow()
    }

    fn request(&self, new: Stop) {
        self.stop.send_modify(|current| {
            let reason = current.map_or(new.reason, |stop| stop.reason);
            let earlier = current.and_then(|stop| stop.grace);
            *current = Some(Stop { reason, grace: new.grace.or(earlier) });
        });
    }

    /// Notices every request from now on, and the present one if there is one.
    pub(crate) fn watch(&self) -> Requests {
        let mut receiver = self.stop.subscribe();
        receiver.mark_changed();
        Requests { receiver, control: self.clone() }
    }
}

impl Default for Control {
    fn default() -> Control {
        Control::new()
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Control").field(&self.requested()).finish()
    }
}

/// The executor's end of a [`Control`].
pub(crate) struct Requests {
    receiver: watch::Receiver<Option<Stop>>,
    /// Keeps the sender alive, so that waiting never ends for want of one.
    control: Control,
}

impl Requests {
    /// The handle by which they are made.
    pub(crate) fn control(&self) -> &Control {
        &self.control
    }

    /// Waits for the next request. Safe to drop and call again.
    pub(crate) async fn next(&mut self) -> Stop {
        loop {
            if self.receiver.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            if let Some(stop) = *self.receiver.borrow_and_update() {
                return stop;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r92_what_may_not_begin_any_more_is_told_from_what_may() {
        let control = Control::with_permit(|| false);
        let lost = Stop { reason: StopReason::LeaseLost, grace: None };
        assert_eq!(control.refusal(), Some(lost));
        control.stop(StopReason::Canceled);
        assert_eq!(control.refusal().map(|stop| stop.reason), Some(StopReason::Canceled));
        assert_eq!(Control::with_permit(|| true).refusal(), None);
        assert_eq!(Control::new().refusal(), None);
    }

    #[tokio::test]
    async fn r39_the_first_reason_stands_and_a_shorter_grace_is_noticed() {
        let control = Control::new();
        control.stop(StopReason::Canceled);
        let mut requests = control.watch();
        assert_eq!(requests.next().await, Stop { reason: StopReason::Canceled, grace: None });
        control.clone().stop_within(StopReason::Shutdown, Duration::ZERO);
        let second = requests.next().await;
        assert_eq!(second, Stop { reason: StopReason::Canceled, grace: Some(Duration::ZERO) });
    }
}
