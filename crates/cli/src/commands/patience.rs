//! Going on when the server goes away for a while, as in a restart.
//!
//! For commands that follow something: they have reached the server once, so a connection that
//! breaks is news for standard error and no reason to end. A minute without a server is.

use std::time::{Duration, Instant};

use bellwether_client::ClientError;

use crate::exit::eprint_line;
use crate::words;

/// How long to try, how soon at first, and how rarely at most.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// How long there has been no server.
#[derive(Debug, Default)]
pub struct Patience {
    lost: Option<Lost>,
}

#[derive(Debug)]
struct Lost {
    since: Instant,
    pause: Duration,
}

impl Patience {
    /// Waits a moment after a failure, for another try.
    ///
    /// # Errors
    /// The failure itself, if it is none of the connection or there have been too many.
    pub async fn after(&mut self, error: ClientError) -> Result<(), ClientError> {
        if !is_absence(&error) {
            return Err(error);
        }
        let lost = self.lost.get_or_insert_with(|| {
            let why = reason(&error);
            eprint_line(&format!("the connection to the server is lost ({why}); trying again"));
            Lost { since: Instant::now(), pause: PAUSE_FIRST }
        });
        if lost.since.elapsed() >= GIVE_UP_AFTER {
            return Err(error);
        }
        tokio::time::sleep(lost.pause).await;
        lost.pause = (lost.pause * 2).min(PAUSE_MAX);
        Ok(())
    }

    /// Notes that the server answers, and tells so if it did not before.
    pub fn answered(&mut self, remark: &str) {
        if self.lost.take().is_some() {
            eprint_line(&format!("the server is there again{remark}"));
        }
    }
}

/// What happened, without advice for those who have yet to start a server.
fn reason(error: &ClientError) -> String {
    match error {
        ClientError::Unreachable { tried } => match &tried[..] {
            [only] => only.reason.clone(),
            several => {
                let each = several.iter().map(|one| format!("{}: {}", one.server, one.reason));
                each.collect::<Vec<_>>().join(", ")
            }
        },
        ClientError::Interrupted { reason, .. } => reason.clone(),
        error => words::of(error),
    }
}

/// Whether an error only says that there is no server at the moment.
fn is_absence(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. } | ClientError::Interrupted { .. } => true,
        error => error.status() == Some(503),
    }
}
