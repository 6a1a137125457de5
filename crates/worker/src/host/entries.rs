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
    /// Whether nothing of it runs any more.
    pub(super) over: watch::Sender<bool>,
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
        let entry = Entry {
            stop: watch::Sender::new(None),
            nudge: Notify::new(),
            over: watch::Sender::new(false),
        };
        let entry = Arc::new(entry);
        self.lock().insert(name, entry.clone());
        entry
    }

    /// Waits until nothing runs any more of other attempts of a run.
    pub(super) async fn others_over(&self, run: &str, name: &str) {
        let begin = format!("{run}-");
        let is_other = |other: &&String| other.starts_with(&begin) && *other != name;
        let names: Vec<String> = self.lock().keys().filter(is_other).cloned().collect();
        for other in names {
            if let Some(entry) = self.get(&other) {
                // The sender lives as long as the entry does.
                let _ = entry.over.subscribe().wait_for(|over| *over).await;
            }
        }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn an_attempt_waits_for_what_is_left_of_the_one_before() {
        let entries = Arc::new(Entries::default());
        let first = entries.add("run_a-1-5".to_owned());
        entries.add("run_a-1-6".to_owned());
        // Another run, whose name begins alike.
        entries.add("run_a-10-1".to_owned());
        let waiting = tokio::spawn({
            let entries = entries.clone();
            async move { entries.others_over("run_a-1", "run_a-1-6").await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        first.over.send_replace(true);
        tokio::time::timeout(Duration::from_secs(30), waiting).await.unwrap().unwrap();
    }
}
