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
///
/// ```no_run
/// use std::sync::Arc;
/// use bellwether_agent::protocol::{Assignment, Ending, Finished, Held, Report, capacity, report};
/// use bellwether_agent::{Handle, Identity, Options, Runner, Session, SessionError, StopWhy, now_ms};
///
/// /// Says of everything that it is done.
/// struct Done(Handle);
///
/// impl Runner for Done {
///     fn start(&self, assignment: Assignment) {
///         let finished = Finished {
///             started_ms: Some(now_ms()),
///             finished_ms: now_ms(),
///             ending: Ending::Succeeded.into(),
///             ..Default::default()
///         };
///         let what = Some(report::What::Finished(finished));
///         self.0.report(Report { run: assignment.run, token: assignment.token, what });
///     }
///
///     fn stop(&self, _: &Held, _: StopWhy) {}
/// }
///
/// # async fn work() -> Result<(), SessionError> {
/// let identity = Identity {
///     name: "w1".to_owned(),
///     version: "1".to_owned(),
///     queues: vec!["mail".to_owned()],
///     labels: Default::default(),
///     capacity: capacity::Mode::Slots(100),
///     commands: false,
///     http: false,
///     job_types: vec!["send_mail".to_owned()],
/// };
/// let server = "127.0.0.1:2355".parse().map_err(SessionError::Invalid)?;
/// let (session, handle) = Session::new(Options::new(vec![server], identity))?;
/// session.run(Arc::new(Done(handle))).await
/// # }
/// ```
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
