//! Watches a command, and ends it with everything it started.

use std::process::ExitStatus;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use super::meter::{Meter, Noticed};
use super::pump::Pump;
use super::running::Running;
use crate::attempt::Attempt;
use crate::control::{Requests, Stop};
use crate::finished::Outcome;
use crate::tree::{self, Mark, Scanner, Wanted};

/// How long to wait for the exit status of a process that is known to be dead.
const REAP_TIME: Duration = Duration::from_secs(1);

/// Why watching a command ended.
pub(super) enum Watched {
    Exited(std::io::Result<ExitStatus>),
    TimedOut(Duration),
    Stopped(Stop),
    /// It uses so many bytes of memory, which is more than it may.
    TooLarge(u64),
}

/// A command that is over.
pub(super) struct Ended {
    pub(super) status: Option<ExitStatus>,
    /// What became of it, if it did not end by itself.
    pub(super) outcome: Option<Outcome>,
    /// How many of its processes could not be ended.
    pub(super) survivors: usize,
}

/// A command and all that belongs to watching it.
pub(super) struct Watch<'a> {
    pub(super) attempt: &'a Attempt,
    pub(super) running: Running,
    pub(super) pump: Pump<'a>,
    pub(super) meter: Meter,
    pub(super) requests: Requests,
}

impl Watch<'_> {
    /// Watches the command until it exits, takes too long or too much, or is to be stopped.
    pub(super) async fn watch(&mut self) -> Watched {
        let limit = self.attempt.timeout;
        let deadline = limit.and_then(|limit| Some((Instant::now().checked_add(limit)?, limit)));
        let too_late = async {
            match deadline {
                Some((at, limit)) => {
                    sleep_until(at).await;
                    limit
                }
                None => std::future::pending().await,
            }
        };
        let mut too_late = std::pin::pin!(too_late);
        loop {
            tokio::select! {
                biased;
                status = self.running.wait() => return Watched::Exited(status),
                stop = self.requests.next() => return Watched::Stopped(stop),
                limit = &mut too_late => return Watched::TimedOut(limit),
                () = self.pump.run(), if !self.pump.is_done() => {}
                noticed = self.meter.next() => match noticed {
                    Noticed::Nothing => {}
                    Noticed::Near(used) => self.pump.remark(&self.meter.warning(used)),
                    Noticed::Over(used) => return Watched::TooLarge(used),
                },
            }
        }
    }

    /// Ends the whole process tree of the command while its output goes on being read.
    pub(super) async fn end(
        &mut self,
        scanner: &Scanner,
        grace: Duration,
        outcome: Outcome,
    ) -> Ended {
        let Watch { attempt, running, pump, meter, requests } = self;
        let mark = Mark {
            instance: attempt.instance.clone(),
            run_id: attempt.run_id.clone(),
            attempt: attempt.attempt.to_string(),
        };
        // Who is killed together with its parent is waited for by nobody that would tell.
        meter.look().await;
        let wanted = Wanted { root: running.root, mark: &|found| *found == mark };
        let ending = async {
            let ended = tree::end(scanner, &wanted, grace_over(grace, requests)).await;
            for survivor in &ended.survivors {
                tracing::error!(run = attempt.run_id, pid = survivor.pid, "a process does not die");
            }
            // Dead processes of the tree are zombies until noticed, so this does not wait for long.
            let status = timeout(REAP_TIME, running.wait()).await;
            let survivors = ended.survivors.len();
            Ended { status: status.ok().and_then(Result::ok), outcome: Some(outcome), survivors }
        };
        let mut ending = std::pin::pin!(ending);
        loop {
            tokio::select! {
                biased;
                ended = &mut ending => return ended,
                () = pump.run(), if !pump.is_done() => {}
                _ = meter.next() => {}
            }
        }
    }
}

/// Completes when the grace period is over, which a later request may bring forward.
async fn grace_over(grace: Duration, requests: &mut Requests) {
    let far = Duration::from_secs(86_400 * 365);
    let mut deadline = Instant::now() + grace.min(far);
    loop {
        tokio::select! {
            () = sleep_until(deadline) => return,
            stop = requests.next() => if let Some(grace) = stop.grace {
                deadline = deadline.min(Instant::now() + grace.min(far));
            },
        }
    }
}
