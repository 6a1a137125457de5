//! Follows one attempt from its start, or from the worker's, to its end.

use std::time::Duration;

use bellwether_agent::protocol::{
    Assignment, Ending, Finished, HandedBack, Held, Output, Report, Started, report,
};
use bellwether_agent::{StopWhy, now_ms};
use tokio::process::Child;
use tokio::time::sleep;

use super::attempt_dir::{AttemptDir, OutputReader, name};
use super::entries::Entry;
use super::runner::Host;
use crate::control::{Control, StopReason};
use crate::orphans::kill_orphans;
use crate::output::LiveOutput;
use crate::wire;

/// An attempt that takes longer than this is reported as started; a shorter one is reported once,
/// at its end.
const STARTED_AFTER: Duration = Duration::from_millis(50);
/// How often its directory is looked at if nobody calls.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The most output in one report.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;
/// How long processes have to end whose supervisor is gone.
const ORPHANS_GRACE: Duration = Duration::from_secs(2);

/// How long an attempt that could not be started is kept before it is handed back: it may come
/// again at once.
const HAND_BACK_AFTER: Duration = Duration::from_secs(1);

/// Why an attempt may be found without anybody who answers for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Settle {
    /// Its supervisor died while this worker lived.
    SupervisorDied,
    /// Its supervisor died with an earlier process of the worker.
    WorkerRestarted,
    /// The machine was restarted.
    Rebooted,
}

impl Settle {
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Settle::SupervisorDied => (
                "supervisor_died",
                "the process that watched the command died; how far it got is unknown",
            ),
            Settle::WorkerRestarted => (
                "worker_restarted",
                "the worker was restarted and nothing of the command was left; how far it got is \
                 unknown",
            ),
            Settle::Rebooted => (
                "worker_restarted",
                "the machine was restarted while the command ran; how far it got is unknown",
            ),
        }
    }
}

/// An attempt that is followed.
pub(super) struct Followed {
    pub(super) host: std::sync::Arc<Host>,
    pub(super) held: Held,
    pub(super) entry: std::sync::Arc<Entry>,
}

impl Followed {
    /// Runs a command.
    pub(super) async fn command(self, assignment: Assignment) {
        self.wait_for_others().await;
        let (runs, meta) = (self.host.state.runs(), self.host.meta(&self.held));
        let create = move || AttemptDir::create(&runs, &meta, Some(&assignment));
        let created = tokio::task::spawn_blocking(create).await.map_err(std::io::Error::other);
        let begun = created.flatten().and_then(|dir| match self.host.spawn(&dir) {
            Ok(child) => Ok((dir, child)),
            Err(error) => {
                dir.remove()?;
                Err(error)
            }
        });
        match begun {
            Ok((dir, child)) => self.follow(dir, Some(child), Settle::SupervisorDied).await,
            Err(error) => {
                tracing::error!(%error, run = self.held.run, "cannot be started: handed back");
                self.entry.over.send_replace(true);
                sleep(HAND_BACK_AFTER).await;
                self.host.hand_back(&self.held);
            }
        }
    }

    /// An attempt that was taken from this worker and comes back as another must not overlap with
    /// what is still being ended.
    async fn wait_for_others(&self) {
        if let Ok(name) = name(&self.held) {
            self.host.entries.others_over(&self.held.run, &name).await;
        }
    }

    /// Follows a command to its end, and reports it.
    pub(super) async fn follow(self, dir: AttemptDir, mut child: Option<Child>, settle: Settle) {
        let mut stops = self.entry.stop.subscribe();
        stops.mark_changed();
        let mut reader = OutputReader::default();
        let mut started = false;
        let mut pause = if child.is_some() { STARTED_AFTER } else { Duration::ZERO };
        loop {
            tokio::select! {
                biased;
                Ok(()) = stops.changed() => {
                    let stop = *stops.borrow_and_update();
                    self.pass_on(&dir, stop);
                }
                () = self.entry.nudge.notified() => {}
                () = exit_of(&mut child) => {}
                () = sleep(pause) => {}
            }
            // Whoever answered for it may be gone: asked before its result is looked for. A command
            // that was being started may hold the lock for a moment longer.
            let lock = if child.is_some() { None } else { dir.try_lock().ok().flatten() };
            if dir.has_result() {
                break;
            }
            if lock.is_some() {
                self.settle(&dir, settle).await;
                break;
            }
            started = started || self.report_started(&dir);
            if started {
                self.report_output(&dir, &mut reader);
            }
            pause = if started { LOOK_EVERY } else { STARTED_AFTER * 2 };
        }
        self.conclude(dir, reader).await;
    }

    /// Tells the supervisor what the server says.
    fn pass_on(&self, dir: &AttemptDir, stop: Option<StopWhy>) {
        let Some(why) = stop else { return };
        let (reason, within) = reason_of(why);
        if let Err(error) = dir.write_stop(reason, within) {
            tracing::error!(%error, run = self.held.run, "cannot be told to stop");
        }
    }

    fn report_started(&self, dir: &AttemptDir) -> bool {
        let Some(at_ms) = dir.started_ms() else { return false };
        self.host.report(&self.held, report::What::Started(Started { at_ms }));
        true
    }

    fn report_output(&self, dir: &AttemptDir, reader: &mut OutputReader) {
        while self.host.handle.has_room() {
            let sequence = reader.sequence;
            let chunks = reader.more(dir, OUTPUT_BYTES_MAX);
            if chunks.is_empty() {
                return;
            }
            self.host.report(&self.held, report::What::Output(Output { sequence, chunks }));
        }
    }

    /// Writes the result of an attempt that nobody answers for any more.
    async fn settle(&self, dir: &AttemptDir, why: Settle) {
        let begun = dir.started_ms();
        if let Some(meta) = dir.meta() {
            let is_this = |run: &str| run == self.held.run;
            let orphans = kill_orphans(&meta.instance, ORPHANS_GRACE, is_this).await;
            if !orphans.is_empty() {
                let processes = orphans.len();
                tracing::warn!(run = self.held.run, processes, "ended what was left of it");
            }
        }
        let what = if begun.is_some() || why == Settle::Rebooted {
            report::What::Finished(interrupted(begun, why))
        } else {
            report::What::HandedBack(HandedBack {})
        };
        let report =
            Report { run: self.held.run.clone(), token: self.held.token, what: Some(what) };
        if let Err(error) = dir.write_result(&report) {
            tracing::error!(%error, run = self.held.run, "the result cannot be written");
        }
    }

    /// Reports the result, once there is somebody to take it: it lies on disk until then.
    async fn conclude(self, dir: AttemptDir, mut reader: OutputReader) {
        self.entry.over.send_replace(true);
        tokio::select! {
            () = self.host.handle.room() => {}
            () = self.entry.void() => {}
        }
        if self.entry.is_void() {
            let _ = dir.clear(&self.host.executor);
            return self.forget();
        }
        let mut what = dir.result().and_then(|report| report.what).unwrap_or_else(|| {
            let mut finished = interrupted(dir.started_ms(), Settle::SupervisorDied);
            finished.detail = "the result of the command cannot be read".to_owned();
            report::What::Finished(finished)
        });
        match &mut what {
            report::What::Finished(finished) => {
                let sequence = reader.sequence;
                let mut chunks = reader.more(&dir, usize::MAX - 8);
                chunks.extend(finished.output.take().unwrap_or_default().chunks);
                finished.output = Some(Output { sequence, chunks });
            }
            _ => sleep(HAND_BACK_AFTER).await,
        }
        self.host.report(&self.held, what);
    }

    /// Nobody waits for a word about it.
    fn forget(&self) {
        if let Ok(name) = name(&self.held) {
            self.host.entries.remove(&name);
        }
    }

    /// Makes a request.
    pub(super) async fn request(self, assignment: Assignment) {
        self.wait_for_others().await;
        let meta = self.host.meta(&self.held);
        let Some(attempt) = wire::attempt_of(assignment, &meta.instance) else {
            return self.host.hand_back(&self.held);
        };
        let control = Control::new();
        let output = LiveOutput::new(meta.output_limit);
        let begun_ms = now_ms();
        let executor = self.host.executor.clone();
        let execution = executor.execute(attempt, control.clone(), output);
        let mut execution = std::pin::pin!(execution);
        let mut stops = self.entry.stop.subscribe();
        let mut started = false;
        let finished = loop {
            tokio::select! {
                finished = &mut execution => break finished,
                Ok(()) = stops.changed() => {
                    if let Some(why) = *stops.borrow_and_update() {
                        match reason_of(why) {
                            (reason, Some(within)) => control.stop_within(reason, within),
                            (reason, None) => control.stop(reason),
                        }
                    }
                }
                () = sleep(STARTED_AFTER), if !started => {
                    started = true;
                    let what = report::What::Started(Started { at_ms: begun_ms });
                    self.host.report(&self.held, what);
                }
            }
        };
        self.entry.over.send_replace(true);
        if self.entry.is_void() {
            return self.forget();
        }
        let what = wire::finished_of(finished, 0, 0)
            .map_or(report::What::HandedBack(HandedBack {}), report::What::Finished);
        if self.host.handle.is_connected() {
            return self.host.report(&self.held, what);
        }
        let (run, token) = (self.held.run.clone(), self.held.token);
        let report = Report { run, token, what: Some(what.clone()) };
        let kept = AttemptDir::create(&self.host.state.runs(), &meta, None)
            .and_then(|dir| dir.write_result(&report).map(|()| dir));
        match kept {
            Ok(dir) => self.conclude(dir, OutputReader::default()).await,
            Err(error) => {
                tracing::warn!(%error, run = self.held.run, "the result cannot be kept on disk");
                self.host.report(&self.held, what);
            }
        }
    }
}

/// Waits for a supervisor to end; forever if it is not ours to wait for.
async fn exit_of(child: &mut Option<Child>) {
    match child {
        Some(supervisor) => {
            let _ = supervisor.wait().await;
            *child = None;
        }
        None => std::future::pending().await,
    }
}

fn reason_of(why: StopWhy) -> (StopReason, Option<Duration>) {
    match why {
        StopWhy::Canceled => (StopReason::Canceled, None),
        StopWhy::LeaseLost { within } => (StopReason::LeaseLost, Some(within)),
        StopWhy::Void => (StopReason::LeaseLost, Some(Duration::ZERO)),
    }
}

fn interrupted(started_ms: Option<i64>, why: Settle) -> Finished {
    let (reason, detail) = why.words();
    Finished {
        started_ms,
        finished_ms: now_ms(),
        ending: Ending::Interrupted.into(),
        reason: reason.to_owned(),
        detail: detail.to_owned(),
        ..Default::default()
    }
}
