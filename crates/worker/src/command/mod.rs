//! Runs a command and watches it to its end.
//!
//! ```text
//!  spawn ──► running ──exit──► drain: until the pipes close, a short while at most ──► judged
//!               ├─timeout, stop──► TERM to the tree ──grace──► KILL ──► none left ──► reported
//!               └─too much memory───────────────────────────────┘
//! ```
//!
//! Background processes that a command leaves behind when it exits by itself go on running, as
//! under cron. They do not delay the report, and what they print after it is not kept. A command
//! that is stopped, timed out or too large takes everything it started with it.

mod meter;
mod pump;
mod running;
mod spawn;
mod watch;

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::timeout;

use crate::attempt::{Attempt, CommandTarget};
use crate::cgroup::{self, Group};
use crate::control::{Control, Requests};
use crate::executor::{Ending, Shared, stopped};
use crate::finished::{Failure, Outcome, ReasonCode};
use crate::output::{LiveOutput, Stream};
use crate::rules::Judge;

use meter::{Limit, Meter};
use pump::Pump;
use running::Running;
use spawn::Unstarted;
use watch::{Ended, Watch, Watched};

/// How long after its exit a command's pipes are read if a background process holds them.
const DRAIN_TIME: Duration = Duration::from_millis(250);
/// Runs the command of an attempt.
pub(crate) async fn run(
    shared: &Arc<Shared>,
    attempt: &Arc<Attempt>,
    target: &CommandTarget,
    mut judge: Judge,
    requests: Requests,
    output: &LiveOutput,
) -> Ending {
    let (mut running, limit) = match start(shared, attempt, target, requests.control()).await {
        Ok(started) => started,
        Err(ending) => return ending,
    };
    let pump = Pump::new(&mut running.child, target.stdin.clone(), output, &mut judge);
    let meter = Meter::new(running.root.map(|root| root.pid), limit);
    let mut watch = Watch { attempt, running, pump, meter, requests };
    let mut ended = match watch.watch().await {
        Watched::Exited(status) => Ended { status: status.ok(), outcome: None, survivors: 0 },
        Watched::TimedOut(limit) => {
            watch.end(&shared.scanner, attempt.grace, timed_out(limit)).await
        }
        Watched::Stopped(stop) => {
            let grace = stop.grace.unwrap_or(attempt.grace);
            watch.end(&shared.scanner, grace, stopped(stop.reason)).await
        }
        Watched::TooLarge(used) => {
            // At once, as the kernel does: it would only grow.
            let outcome = Outcome::Failed(watch.meter.over(used));
            watch.end(&shared.scanner, Duration::ZERO, outcome).await
        }
    };
    if timeout(DRAIN_TIME, watch.pump.run()).await.is_err() {
        tracing::debug!(run = attempt.run_id, "a background process holds the command's output");
    }
    let Watch { running, pump, meter, .. } = watch;
    pump.abandon(&shared.leftover_pipes);
    ended.outcome = ended.outcome.or_else(|| meter.ended_by_kernel().map(Outcome::Failed));
    let usage = meter.total(running.spent);
    Ending { usage, ..finish(ended, judge, output) }
}

async fn start(
    shared: &Arc<Shared>,
    attempt: &Arc<Attempt>,
    target: &CommandTarget,
    control: &Control,
) -> Result<(Running, Option<Limit>), Ending> {
    let (shared, attempt, target) = (Arc::clone(shared), Arc::clone(attempt), target.clone());
    let control = control.clone();
    // Starting blocks: it reads directories, asks for accounts and waits for the exec. If nobody
    // waits for the result any more, dropping it ends the command.
    let start = move || {
        let mut limit = target.memory_limit_bytes.map(|bytes| limit(&shared, &attempt, bytes));
        let pass_env = &shared.options.pass_env;
        let spawn = |group: Option<&Group>| spawn::spawn(&attempt, &target, pass_env, group);
        // The last look: it may have waited for a thread, or this process may have stood still.
        if let Some(stop) = control.refusal() {
            return Err(Ending::unbegun(stop));
        }
        let mut child = spawn(limit.as_ref().and_then(|limit| limit.group.as_deref()));
        if let (Err(Unstarted::NoGroup(error)), Some(limit)) = (&child, &mut limit) {
            let run = &attempt.run_id;
            tracing::warn!(%error, run, "the control group lets nobody in: its memory is watched");
            limit.group = None;
            child = spawn(None);
        }
        let child = child.map_err(|unstarted| not_started(unstarted.into()))?;
        Ok((Running::new(child), limit))
    };
    tokio::task::spawn_blocking(start).await.unwrap_or_else(|error| {
        Err(not_started(Failure::new(ReasonCode::Internal, error.to_string())))
    })
}

/// The memory limit of a command, in a group of its own if there can be one.
fn limit(shared: &Shared, attempt: &Attempt, bytes: u64) -> Limit {
    let name = cgroup::name_of(&attempt.run_id, attempt.attempt, attempt.fencing_token);
    let group = shared.groups().map(|groups| groups.create(&name, bytes)).transpose();
    let group = group.unwrap_or_else(|error| {
        tracing::warn!(%error, run = attempt.run_id, "no control group: its memory is watched");
        None
    });
    Limit { bytes, group: group.map(Arc::new) }
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
fn finish(ended: Ended, judge: Judge, output: &LiveOutput) -> Ending {
    let Ended { status, outcome, survivors } = ended;
    let mut outcome = match outcome {
        Some(outcome) => outcome,
        None => match judged(status, judge, output) {
            Ok(()) => Outcome::Succeeded,
            Err(failure) => Outcome::Failed(failure),
        },
    };
    if survivors > 0
        && let Outcome::Failed(failure) | Outcome::TimedOut(failure) | Outcome::Stopped(_, failure) =
            &mut outcome
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
