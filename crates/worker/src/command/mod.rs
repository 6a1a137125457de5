//! Runs a command and watches it to its end.
//!
//! ```text
//!  spawn ──► running ──exit──► drain: until the pipes close, a short while at most ──► judged
//!               │
//!               └─timeout, stop──► TERM to the tree ──grace──► KILL ──► none left ──► reported
//! ```
//!
//! Background processes that a command leaves behind when it exits by itself go on running, as
//! under cron. They do not delay the report, and what they print after it is not kept. A command
//! that is stopped or timed out takes everything it started with it.

mod pump;
mod spawn;

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::process::Child;
use tokio::time::{Instant, sleep_until, timeout};

use crate::attempt::{Attempt, CommandTarget};
use crate::control::{Requests, Stop};
use crate::executor::{Ending, Shared};
use crate::finished::{Failure, Outcome, ReasonCode};
use crate::output::{LiveOutput, Stream};
use crate::rules::Judge;
use crate::tree::{self, Mark, ProcessId, Wanted};

use pump::Pump;

/// How long after its exit a command's pipes are read if a background process holds them.
const DRAIN_TIME: Duration = Duration::from_millis(250);
/// How long to wait for the exit status of a process that is known to be dead.
const REAP_TIME: Duration = Duration::from_secs(1);

/// Why watching a command ended.
enum Watched {
    Exited(std::io::Result<ExitStatus>),
    TimedOut(Duration),
    Stopped(Stop),
}

/// A started command. Dropping it before its exit was noticed kills its process group: this
/// happens only if the future that runs it is dropped.
struct Running {
    child: Child,
    root: Option<ProcessId>,
    reaped: bool,
}

impl Running {
    fn new(child: Child) -> Running {
        let root = child.id().and_then(|pid| ProcessId::of(i32::try_from(pid).ok()?));
        Running { child, root, reaped: false }
    }

    async fn wait(&mut self) -> std::io::Result<ExitStatus> {
        let status = self.child.wait().await;
        self.reaped = true;
        status
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let (false, Some(root)) = (self.reaped, self.root) {
            tree::kill_group(root.pid);
        }
    }
}

/// Runs the command of an attempt.
pub(crate) async fn run(
    shared: &Arc<Shared>,
    attempt: &Arc<Attempt>,
    target: &CommandTarget,
    mut judge: Judge,
    mut requests: Requests,
    output: &LiveOutput,
) -> Ending {
    let mut running = match start(shared, attempt, target).await {
        Ok(running) => running,
        Err(failure) => return not_started(failure),
    };
    let mut pump = Pump::new(&mut running.child, target.stdin.clone(), output, &mut judge);
    let mut survivors = 0;
    let watched = watch(&mut running, &mut pump, &mut requests, attempt.timeout).await;
    let (status, stopped) = match watched {
        Watched::Exited(status) => (status.ok(), None),
        Watched::TimedOut(limit) => {
            let ended =
                end(shared, attempt, &mut running, &mut pump, &mut requests, attempt.grace).await;
            survivors = ended.1;
            (ended.0, Some(timed_out(limit)))
        }
        Watched::Stopped(stop) => {
            let grace = stop.grace.unwrap_or(attempt.grace);
            let ended = end(shared, attempt, &mut running, &mut pump, &mut requests, grace).await;
            survivors = ended.1;
            (ended.0, Some(crate::executor::stopped(stop.reason)))
        }
    };
    if timeout(DRAIN_TIME, pump.run()).await.is_err() {
        tracing::debug!(run = attempt.run_id, "a background process holds the command's output");
    }
    pump.abandon(&shared.leftover_pipes);
    finish(status, stopped, survivors, judge, output)
}

async fn start(
    shared: &Arc<Shared>,
    attempt: &Arc<Attempt>,
    target: &CommandTarget,
) -> Result<Running, Failure> {
    let (shared, attempt, target) = (Arc::clone(shared), Arc::clone(attempt), target.clone());
    // Starting blocks: it reads directories, asks for accounts and waits for the exec. If nobody
    // waits for the result any more, dropping it ends the command.
    let start = move || spawn::spawn(&attempt, &target, &shared.options.pass_env).map(Running::new);
    tokio::task::spawn_blocking(start)
        .await
        .unwrap_or_else(|error| Err(Failure::new(ReasonCode::Internal, error.to_string())))
}

/// Watches a command until it exits, takes too long or is to be stopped.
async fn watch(
    running: &mut Running,
    pump: &mut Pump<'_>,
    requests: &mut Requests,
    limit: Option<Duration>,
) -> Watched {
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
            status = running.wait() => return Watched::Exited(status),
            stop = requests.next() => return Watched::Stopped(stop),
            limit = &mut too_late => return Watched::TimedOut(limit),
            () = pump.run(), if !pump.is_done() => {}
        }
    }
}

/// Ends the whole process tree of a command while its output goes on being read. Returns its exit
/// status and how many processes could not be ended.
async fn end(
    shared: &Shared,
    attempt: &Attempt,
    running: &mut Running,
    pump: &mut Pump<'_>,
    requests: &mut Requests,
    grace: Duration,
) -> (Option<ExitStatus>, usize) {
    let mark = Mark {
        instance: attempt.instance.clone(),
        run_id: attempt.run_id.clone(),
        attempt: attempt.attempt.to_string(),
    };
    let wanted = Wanted { root: running.root, mark: &|found| *found == mark };
    let ending = async {
        let ended = tree::end(&shared.scanner, &wanted, grace_over(grace, requests)).await;
        for survivor in &ended.survivors {
            tracing::error!(run = attempt.run_id, pid = survivor.pid, "a process does not die");
        }
        // Dead processes of the tree are zombies until noticed, so this does not wait for long.
        let status = timeout(REAP_TIME, running.wait()).await;
        (status.ok().and_then(Result::ok), ended.survivors.len())
    };
    let mut ending = std::pin::pin!(ending);
    loop {
        tokio::select! {
            biased;
            ended = &mut ending => return ended,
            () = pump.run(), if !pump.is_done() => {}
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

fn timed_out(limit: Duration) -> Outcome {
    let message = format!("the command took longer than {limit:?} and was ended");
    Outcome::TimedOut(Failure::new(ReasonCode::Timeout, message))
}

fn not_started(failure: Failure) -> Ending {
    use ReasonCode::{CommandNotFound, NotExecutable, SpawnFailed};
    Ending {
        exit_code: match failure.code {
            CommandNotFound => Some(127),
            NotExecutable => Some(126),
            _ => None,
        },
        // A program may be missing for a moment, while it is being replaced.
        retryable: matches!(failure.code, CommandNotFound | NotExecutable | SpawnFailed),
        started: false,
        ..Ending::new(Outcome::Failed(failure))
    }
}

/// Judges a command that has ended.
fn finish(
    status: Option<ExitStatus>,
    stopped: Option<Outcome>,
    survivors: usize,
    judge: Judge,
    output: &LiveOutput,
) -> Ending {
    let mut outcome = match stopped {
        Some(outcome) => outcome,
        None => match judged(status, judge, output) {
            Ok(()) => Outcome::Succeeded,
            Err(failure) => Outcome::Failed(failure),
        },
    };
    if survivors > 0
        && let Outcome::TimedOut(failure) | Outcome::Stopped(_, failure) = &mut outcome
    {
        failure.message.push_str(&format!("; {survivors} of its processes do not die"));
    }
    Ending {
        exit_code: status.and_then(|status| status.code()),
        signal: status.and_then(|status| status.signal()),
        ..Ending::new(outcome)
    }
}

fn judged(status: Option<ExitStatus>, judge: Judge, output: &LiveOutput) -> Result<(), Failure> {
    let status = status.ok_or_else(|| {
        Failure::new(ReasonCode::Internal, "the exit status of the command could not be read")
    })?;
    if let Some(number) = status.signal() {
        let name = Signal::try_from(number).map_or("unknown", Signal::as_str);
        let message = format!("the command was ended by signal {number} ({name})");
        return Err(Failure::new(ReasonCode::Signal, message));
    }
    judge.exit_code(status.code().unwrap_or(-1))?;
    let captured = output.captured();
    let stdout: Vec<u8> = captured
        .head
        .iter()
        .chain(&captured.tail)
        .filter(|chunk| chunk.stream == Stream::Stdout)
        .flat_map(|chunk| chunk.bytes.iter().copied())
        .collect();
    let document = (captured.dropped_bytes == 0).then_some(stdout.as_slice());
    judge.content(&captured.stretches(), document)
}
