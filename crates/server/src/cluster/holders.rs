//! The workers of other nodes that hold runs of shards that act here.
//!
//! A worker is looked after by the node to which it is connected: that notices when it falls silent.
//! When that node itself is gone, the leaders of the runs do. A worker that is connected nowhere for
//! as long as its lease lasts has stopped by itself, and its runs are given up.

use std::collections::BTreeMap;
use std::time::Instant;

use bellwether_core::id::RunId;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::wire::claims::ToStop;

/// Who they are, and since when they have been seen nowhere.
#[derive(Default)]
pub struct Holders {
    seen: Mutex<BTreeMap<String, Instant>>,
    stops: Mutex<Vec<ToStop>>,
    news: Notify,
}

impl Holders {
    /// A worker holds runs.
    pub fn note(&self, worker: &str) {
        let mut seen = self.seen.lock();
        if !seen.contains_key(worker) {
            seen.insert(worker.to_owned(), Instant::now());
        }
    }

    /// Has an attempt of a worker elsewhere stopped.
    pub fn stop(&self, worker: String, run: RunId, token: u64) {
        self.stops.lock().push((worker, run, token));
        self.news.notify_one();
    }

    /// Waits for attempts that are to be stopped, and takes them.
    pub async fn stops(&self) -> Vec<ToStop> {
        loop {
            let stops = std::mem::take(&mut *self.stops.lock());
            if !stops.is_empty() {
                return stops;
            }
            self.news.notified().await;
        }
    }

    /// Looks at each of them: `Some(true)` if it is seen now, `Some(false)` if not, `None` if it is
    /// somebody else's business. Takes out those that have not been seen for `lease`.
    pub fn unseen(
        &self,
        lease: std::time::Duration,
        look: impl Fn(&str) -> Option<bool>,
    ) -> Vec<String> {
        let mut seen = self.seen.lock();
        let mut unseen = Vec::new();
        seen.retain(|worker, last| match look(worker) {
            None => false,
            Some(true) => {
                *last = Instant::now();
                true
            }
            Some(false) if last.elapsed() > lease => {
                unseen.push(worker.clone());
                false
            }
            Some(false) => true,
        });
        unseen
    }
}
