//! The attempts of a host, by the names of their directories.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bellwether_agent::StopWhy;
use tokio::sync::{Notify, watch};

/// How the task that follows an attempt is told things.
pub(super) struct Entry {
    /// Why it is to stop, if it is.
    pub(super) stop: watch::Sender<Option<StopWhy>>,
    /// There is news in its directory.
    pub(super) nudge: Notify,
}

impl Entry {
    /// Whether nobody waits for its report.
    pub(super) fn is_void(&self) -> bool {
        *self.stop.borrow() == Some(StopWhy::Void)
    }

    /// Waits until nobody waits for its report.
    pub(super) async fn void(&self) {
        let mut stop = self.stop.subscribe();
        // The sender lives as long as this does.
        let _ = stop.wait_for(|stop| *stop == Some(StopWhy::Void)).await;
    }
}

/// All attempts.
#[derive(Default)]
pub(super) struct Entries {
    attempts: Mutex<HashMap<String, Arc<Entry>>>,
}

impl Entries {
    /// Adds one. It is known from here on, so that a stop right behind it finds it.
    pub(super) fn add(&self, name: String) -> Arc<Entry> {
        let entry = Arc::new(Entry { stop: watch::Sender::new(None), nudge: Notify::new() });
        self.lock().insert(name, entry.clone());
        entry
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<Entry>> {
        self.lock().get(name).cloned()
    }

    pub(super) fn remove(&self, name: &str) {
        self.lock().remove(name);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Entry>>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
