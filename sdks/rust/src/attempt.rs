//! One attempt: a handler in a task of its own, watched until it has ended.

use std::time::Duration;

use bellwether_agent::now_ms;
use bellwether_agent::protocol::{Ending, Finished, HandedBack, report};
use tokio::task::JoinError;

use crate::handlers::Handler;
use crate::{Failure, Run, Stopped};

/// How long a handler has to end by itself after it was told to stop.
const GRACE: Duration = Duration::from_secs(10);
/// The largest result that is kept.
const RESULT_MAX: usize = 200 * 1024;

/// Performs the attempt and reports it, unless nobody wants to know.
pub(crate) async fn perform(run: Run, handler: Handler, timeout_ms: u64, within: Within) {
    let started_ms = now_ms();
    let mut task = tokio::spawn(handler(run.clone()));
    let timeout = async {
        match timeout_ms {
            0 => std::future::pending().await,
            ms => tokio::time::sleep(Duration::from_millis(ms)).await,
        }
    };
    let outcome = tokio::select! {
        outcome = &mut task => Some(outcome),
        _ = run.canceled() => None,
        () = timeout => {
            run.stop(Stopped::TimedOut);
            None
        }
    };
    let outcome = match outcome {
        Some(outcome) => Some(outcome),
        None => match tokio::time::timeout(within.get(), &mut task).await {
            Ok(outcome) => Some(outcome),
            Err(_) => {
                task.abort();
                // Until it is really gone, nothing is said about it.
                let _ = (&mut task).await;
                None
            }
        },
    };
    if within.void() {
        return;
    }
    run.report(said(&run, outcome, started_ms));
}

/// How long a stop may take, which the session may shorten; and whether anybody wants to know.
#[derive(Clone)]
pub(crate) struct Within(std::sync::Arc<parking_lot::Mutex<(Duration, bool)>>);

impl Within {
    pub(crate) fn new() -> Within {
        Within(std::sync::Arc::new(parking_lot::Mutex::new((GRACE, false))))
    }

    pub(crate) fn shorten(&self, within: Duration) {
        let mut state = self.0.lock();
        state.0 = state.0.min(within);
    }

    pub(crate) fn set_void(&self) {
        self.0.lock().1 = true;
    }

    fn get(&self) -> Duration {
        self.0.lock().0
    }

    fn void(&self) -> bool {
        self.0.lock().1
    }
}

type Outcome = Result<Result<Vec<u8>, Failure>, JoinError>;

fn said(run: &Run, outcome: Option<Outcome>, started_ms: i64) -> report::What {
    let mut finished =
        Finished { started_ms: Some(started_ms), finished_ms: now_ms(), ..Finished::default() };
    let (ending, reason, detail) = match (outcome, run.stopped()) {
        (Some(Ok(Err(Failure::HandBack))), _) => {
            return report::What::HandedBack(HandedBack {});
        }
        (Some(Ok(Ok(result))), _) if result.len() > RESULT_MAX => {
            let detail = format!("the result is larger than {RESULT_MAX} bytes");
            (Ending::FailedForGood, "result_too_large".to_owned(), detail)
        }
        // It got there before it noticed: then it is done.
        (Some(Ok(Ok(result))), _) => {
            finished.result = result.into();
            (Ending::Succeeded, String::new(), String::new())
        }
        (_, Some(Stopped::Canceled)) => {
            (Ending::Canceled, "canceled".to_owned(), "stopped on request".to_owned())
        }
        (_, Some(Stopped::TimedOut)) => {
            (Ending::Failed, "timeout".to_owned(), "it took longer than its timeout".to_owned())
        }
        (_, Some(Stopped::LeaseLost)) => {
            (Ending::Interrupted, "lease_lost".to_owned(), "the worker lost its lease".to_owned())
        }
        (_, Some(Stopped::Shutdown)) => {
            (Ending::Interrupted, "shutdown".to_owned(), "the worker was shut down".to_owned())
        }
        (Some(Ok(Err(Failure::ForGood { reason, detail }))), _) => {
            (Ending::FailedForGood, reason, detail)
        }
        (Some(Ok(Err(Failure::Failed { reason, detail }))), _) => (Ending::Failed, reason, detail),
        (Some(Err(error)), _) => (Ending::Failed, "panic".to_owned(), panic_text(error)),
        (None, None) => (Ending::Interrupted, "shutdown".to_owned(), String::new()),
    };
    finished.ending = ending.into();
    finished.reason = reason;
    finished.detail = detail;
    let (printed, dropped, _) = run.printed();
    finished.output_bytes = printed;
    finished.output_dropped = dropped;
    report::What::Finished(finished)
}

fn panic_text(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else {
        return "the handler was stopped".to_owned();
    };
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the handler panicked: {}", text.unwrap_or_default())
}
