//! What can be made to go wrong with the engine in memory.

use std::sync::Arc;

use super::{Inner, MemoryEngine};

/// A handle with which a test makes a [`MemoryEngine`] misbehave the way a disk does.
#[derive(Clone)]
pub struct Faults {
    inner: Arc<Inner>,
}

impl Faults {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

    /// From now on batches wait, as if the disk took its time over a sync.
    pub fn hold(&self) {
        self.inner.state.lock().holding = true;
    }

    /// How many batches wait.
    #[must_use]
    pub fn held(&self) -> usize {
        self.inner.state.lock().waiting.len()
    }

    /// Syncs the oldest `limit` batches that wait and calls their callbacks; holding goes on.
    pub fn sync(&self, limit: usize) {
        let mut state = self.inner.state.lock();
        self.inner.sync(&mut state, limit);
        self.inner.deliver(state);
    }

    /// Syncs what waits and stops holding.
    pub fn release(&self) {
        self.inner.state.lock().holding = false;
        self.sync(usize::MAX);
    }

    /// Lets `batches` more through; the one after them meets a failed sync. It changes nothing,
    /// and the engine fails everything from then on.
    pub fn fail_after(&self, batches: u64) {
        self.inner.state.lock().batches_until_failure = Some(batches);
    }

    /// Plays a crash: of the batches that wait, the oldest `survivors` reached the disk and the
    /// others are lost; none is acknowledged, their callbacks are dropped. The old engine is
    /// dead; returned is the one that a restart finds.
    #[must_use]
    pub fn crash(&self, survivors: usize) -> MemoryEngine {
        let mut state = self.inner.state.lock();
        self.inner.sync(&mut state, survivors);
        state.stats.failure = Some("crashed, as a test asked for".to_owned());
        let unanswered = (std::mem::take(&mut state.waiting), std::mem::take(&mut state.ready));
        drop(state);
        drop(unanswered);
        self.inner.reopen()
    }
}
