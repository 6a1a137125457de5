//! The attempts that are under way in this process, for stopping them and for reading along.

use std::collections::BTreeMap;
use std::sync::Arc;

use bellwether_core::id::RunId;
use bellwether_worker::{Control, LiveOutput, StopReason};
use parking_lot::Mutex;

use super::permit::Permit;

/// An attempt that is under way.
#[derive(Clone)]
pub struct RunningAttempt {
    /// The namespace of its job.
    pub namespace: String,
    /// Its number.
    pub attempt: u32,
    /// Its fencing token.
    pub token: u64,
    /// How to stop it.
    pub control: Control,
    /// What it prints.
    pub output: Arc<LiveOutput>,
    /// Whether it may go on.
    pub permit: Arc<Permit>,
}

/// All attempts that are under way.
#[derive(Default)]
pub struct Running {
    attempts: Mutex<BTreeMap<RunId, RunningAttempt>>,
}

impl Running {
    /// Adds an attempt.
    pub fn add(&self, run: RunId, attempt: RunningAttempt) {
        self.attempts.lock().insert(run, attempt);
    }

    /// Removes an attempt.
    pub fn remove(&self, run: RunId, token: u64) {
        let mut attempts = self.attempts.lock();
        if attempts.get(&run).is_some_and(|attempt| attempt.token == token) {
            let ended = attempts.remove(&run);
            drop(attempts);
            ended.iter().for_each(|attempt| attempt.permit.release());
        }
    }

    /// The attempt of a run that is under way.
    #[must_use]
    pub fn get(&self, run: RunId) -> Option<RunningAttempt> {
        self.attempts.lock().get(&run).cloned()
    }

    /// Whether an attempt is under way.
    #[must_use]
    pub fn has(&self, run: RunId, token: u64) -> bool {
        self.attempts.lock().get(&run).is_some_and(|attempt| attempt.token == token)
    }

    /// Stops the attempt of a run.
    pub fn stop(&self, run: RunId, token: u64, reason: StopReason) {
        if let Some(attempt) = self.get(run).filter(|attempt| attempt.token == token) {
            attempt.control.stop(reason);
        }
    }

    /// Stops all.
    pub fn stop_all(&self, reason: StopReason) {
        for attempt in self.attempts.lock().values() {
            attempt.control.stop(reason);
        }
    }

    /// All attempts: runs and tokens.
    #[must_use]
    pub fn attempts(&self) -> Vec<(RunId, u64)> {
        self.attempts.lock().iter().map(|(run, attempt)| (*run, attempt.token)).collect()
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<(RunId, RunningAttempt)> {
        self.attempts.lock().iter().map(|(run, attempt)| (*run, attempt.clone())).collect()
    }

    /// Which they are: those of a namespace, or all.
    #[must_use]
    pub fn runs_of(&self, namespace: Option<&str>) -> Vec<RunId> {
        let attempts = self.attempts.lock();
        let theirs = |attempt: &RunningAttempt| namespace.is_none_or(|n| attempt.namespace == n);
        attempts.iter().filter(|(_, attempt)| theirs(attempt)).map(|(run, _)| *run).collect()
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.attempts.lock().len()
    }
}
