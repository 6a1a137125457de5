//! The executor: takes an attempt, has it performed, and puts its end on record.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use bellwether_trust::{Trust, TrustError};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::attempt::{Attempt, Target};
use crate::cgroup::{self, Groups};
use crate::control::{Control, Stop, StopReason};
use crate::finished::{Failure, Finished, HttpResponse, Outcome, ReasonCode, Usage};
use crate::output::LiveOutput;
use crate::tree::Scanner;
use crate::{command, http, os, publish};

/// The most pipes that are kept open for background processes commands have left behind.
const LEFTOVER_PIPES_MAX: usize = 256;
/// How long to wait for control groups to be without processes.
const GROUPS_TIME_MAX: Duration = Duration::from_secs(1);

/// Settings of an [`Executor`].
#[derive(Clone, Debug)]
pub struct ExecutorOptions {
    /// Names of environment variables of this process that commands get too, besides the
    /// harmless few.
    pub pass_env: Vec<String>,
    /// A PEM file with certificate authorities to trust in addition to the system's.
    pub extra_ca_file: Option<PathBuf>,
    /// Whether HTTP targets go through the proxies named by `HTTP_PROXY` and its like.
    pub proxy_from_env: bool,
    /// How long a request or a message for a broker may take if the attempt does not say.
    pub http_timeout: Duration,
    /// Whether the kernel is asked to keep memory limits, where it can be; see
    /// [`crate::prepare_memory_limits`].
    pub kernel_limits: bool,
}

impl Default for ExecutorOptions {
    fn default() -> ExecutorOptions {
        ExecutorOptions {
            pass_env: Vec::new(),
            extra_ca_file: None,
            proxy_from_env: false,
            http_timeout: Duration::from_secs(300),
            kernel_limits: true,
        }
    }
}

/// What all attempts share.
pub(crate) struct Shared {
    pub(crate) options: ExecutorOptions,
    pub(crate) scanner: Scanner,
    pub(crate) leftover_pipes: Arc<Semaphore>,
    pub(crate) http: http::Clients,
    pub(crate) publish: publish::Connections,
    groups: OnceLock<Option<Arc<Groups>>>,
}

impl Shared {
    /// Where commands with a limit get a control group; looked for when it is needed.
    pub(crate) fn groups(&self) -> Option<&Arc<Groups>> {
        let find = || {
            let found = Groups::find();
            if let Err(why) = &found {
                tracing::debug!(why, "memory limits are kept by looking at processes");
            }
            found.ok()
        };
        self.groups.get_or_init(|| find().filter(|_| self.options.kernel_limits)).as_ref()
    }
}

/// Executes attempts. Clones share connections and settings.
#[derive(Clone)]
pub struct Executor {
    shared: Arc<Shared>,
}

impl Executor {
    /// An executor with these settings. Also marks the descriptors this process was started with
    /// as not to be inherited, so that no command gets them.
    ///
    /// # Errors
    /// When the file of certificate authorities cannot be used.
    pub fn new(options: ExecutorOptions) -> Result<Executor, TrustError> {
        if let Err(error) = os::seal_descriptors() {
            tracing::warn!(%error, "descriptors from the parent process may reach commands");
        }
        let trust = Arc::new(Trust::new(options.extra_ca_file.as_deref())?);
        let http = http::Clients::new(trust.clone(), options.proxy_from_env);
        let leftover_pipes = Arc::new(Semaphore::new(LEFTOVER_PIPES_MAX));
        let shared = Shared {
            options,
            scanner: Scanner::default(),
            leftover_pipes,
            http,
            publish: publish::Connections::new(trust),
            groups: OnceLock::new(),
        };
        Ok(Executor { shared: Arc::new(shared) })
    }

    /// Performs one attempt and reports its end. Everything it prints goes to `output`, which is
    /// ended when this returns. Use `control` to stop it; dropping the future instead kills a
    /// command's process group at once and reports nothing.
    pub async fn execute(
        &self,
        attempt: Attempt,
        control: Control,
        output: Arc<LiveOutput>,
    ) -> Finished {
        let attempt = Arc::new(attempt);
        let (started_at, begun) = (SystemTime::now(), Instant::now());
        tracing::debug!(run = attempt.run_id, attempt = attempt.attempt, "attempt begins");
        let ending = match self.refuse(&attempt, &control) {
            Some(ending) => ending,
            None => self.perform(&attempt, &control, &output).await,
        };
        output.end();
        let elapsed = begun.elapsed();
        tracing::debug!(
            run = attempt.run_id,
            attempt = attempt.attempt,
            elapsed_ms = elapsed.as_millis(),
            reason = ending.outcome.failure().map_or("succeeded", |failure| failure.code.as_str()),
            "attempt ended"
        );
        Finished {
            outcome: ending.outcome,
            exit_code: ending.exit_code,
            signal: ending.signal,
            http: ending.http,
            usage: ending.usage,
            started_at,
            finished_at: started_at + elapsed,
            elapsed,
            output: output.captured(),
            started: ending.started,
            retryable: ending.retryable,
        }
    }

    /// Waits until no process that a command left behind holds its output any more. A process that
    /// ends before would take the pipes with it.
    pub(crate) async fn leftovers_ended(&self) {
        let all = u32::try_from(LEFTOVER_PIPES_MAX).unwrap_or(u32::MAX);
        // It fails only if the semaphore was closed, which nobody does.
        let _ = self.shared.leftover_pipes.acquire_many(all).await;
        // Whoever held the output last may not be quite dead yet.
        if let Some(Some(groups)) = self.shared.groups.get() {
            let _ = timeout(GROUPS_TIME_MAX, groups.emptied()).await;
        }
    }

    /// Removes the control group of an attempt that is over and was run by another process, now or
    /// when what it left behind has ended.
    pub(crate) fn remove_group(&self, run_id: &str, attempt: u32, fencing_token: u64) {
        if let Some(groups) = self.shared.groups() {
            groups.remove(&cgroup::name_of(run_id, attempt, fencing_token));
        }
    }

    /// One that makes control groups in this place.
    #[cfg(test)]
    pub(crate) fn with_groups(groups: Arc<Groups>) -> Executor {
        let executor = Executor::new(ExecutorOptions::default()).unwrap();
        assert!(executor.shared.groups.set(Some(groups)).is_ok());
        executor
    }

    /// An attempt that was stopped before it began is not begun.
    fn refuse(&self, attempt: &Attempt, control: &Control) -> Option<Ending> {
        let stop = control.refusal()?;
        tracing::debug!(run = attempt.run_id, "stopped before it began");
        Some(Ending::unbegun(stop))
    }

    async fn perform(
        &self,
        attempt: &Arc<Attempt>,
        control: &Control,
        output: &LiveOutput,
    ) -> Ending {
        let judge = match attempt.success.compile() {
            Ok(judge) => judge,
            Err(error) => {
                let failure = Failure::new(ReasonCode::InvalidRule, error);
                return Ending {
                    started: false,
                    retryable: false,
                    ..Ending::new(Outcome::Failed(failure))
                };
            }
        };
        let requests = control.watch();
        match &attempt.target {
            Target::Command(target) => {
                command::run(&self.shared, attempt, target, judge, requests, output).await
            }
            Target::Http(target) => {
                http::run(&self.shared, attempt, target, judge, requests, output).await
            }
            Target::Publish(target) => {
                publish::run(&self.shared, attempt, target, requests, output).await
            }
        }
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

/// How a target ended; what [`Finished`] says besides times and output.
pub(crate) struct Ending {
    pub(crate) outcome: Outcome,
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) http: Option<HttpResponse>,
    pub(crate) usage: Option<Usage>,
    pub(crate) started: bool,
    pub(crate) retryable: bool,
}

impl Ending {
    /// The end of an attempt that was not begun.
    pub(crate) fn unbegun(stop: Stop) -> Ending {
        Ending { started: false, ..Ending::new(stopped(stop.reason)) }
    }

    /// An end after a start, about which nothing else is known.
    pub(crate) fn new(outcome: Outcome) -> Ending {
        let retryable = outcome != Outcome::Succeeded;
        Ending {
            outcome,
            exit_code: None,
            signal: None,
            http: None,
            usage: None,
            started: true,
            retryable,
        }
    }
}

/// The outcome of an attempt that was stopped.
pub(crate) fn stopped(reason: StopReason) -> Outcome {
    let (code, message) = match reason {
        StopReason::Canceled => (ReasonCode::Canceled, "the run was canceled"),
        StopReason::Shutdown => (ReasonCode::Shutdown, "the worker was shut down"),
        StopReason::LeaseLost => {
            (ReasonCode::LeaseLost, "the worker could not keep its lease on the run")
        }
    };
    Outcome::Stopped(reason, Failure::new(code, message))
}
