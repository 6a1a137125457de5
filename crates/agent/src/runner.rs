//! What a session asks of whoever runs the attempts.

use std::time::Duration;

use bellwether_protocol::v1::{Assignment, Held, Welcome};

use crate::lease::Lease;

/// Why an attempt is to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopWhy {
    /// Somebody asked for it.
    Canceled,
    /// The lease is about to end, or the attempt was given to another: it must be gone by then.
    LeaseLost {
        /// How long it may take to end by itself.
        within: Duration,
    },
    /// The server knows nothing of it. Nobody waits for a report.
    Void,
}

/// Runs attempts. All calls come from the session and must return at once: work is done elsewhere,
/// and reported through [`crate::Handle::report`].
///
/// Every attempt that is started is reported exactly once as finished or handed back, also when it
/// was stopped, unless it was stopped as [`StopWhy::Void`].
pub trait Runner: Send + Sync + 'static {
    /// What is left of an earlier process: asked once, before the first connection.
    fn held(&self) -> Vec<Held> {
        Vec::new()
    }

    /// A server has welcomed the worker. Comes before its assignments.
    fn welcomed(&self, welcome: &Welcome) {
        let _ = welcome;
    }

    /// The lease was granted or renewed.
    fn leased(&self, lease: &Lease) {
        let _ = lease;
    }

    /// Starts an attempt.
    fn start(&self, assignment: Assignment);

    /// Stops an attempt, if it is still under way. May be called more than once.
    fn stop(&self, held: &Held, why: StopWhy);

    /// The server has stored the end of an attempt: it can be forgotten.
    fn stored(&self, held: &Held) {
        let _ = held;
    }
}
