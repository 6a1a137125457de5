//! Processes that outlived the server that started them.
//!
//! After a `kill -9` of the server its commands go on running. Before it decides what to do with
//! the runs that were open, the next server ends them, so that a run that is declared lost or
//! started again can never overlap with its former self.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::sleep;

use crate::tree::{self, Mark, Scanner, Wanted};

/// A process that was left over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Orphan {
    /// Its process id.
    pub pid: i32,
    /// The run it belonged to.
    pub run_id: String,
    /// The attempt it belonged to.
    pub attempt: u32,
    /// Whether it is gone now. False only if it could not be killed.
    pub gone: bool,
}

/// Ends all processes that belong to attempts of this `instance` (the id of a store) and to a run
/// for which `is_open` says yes, with their descendants: TERM, and KILL after `grace`. Returns
/// when they are gone, ordered by process id.
///
/// `is_open` is asked because a command may have left a daemon behind on purpose, in a run that
/// ended long ago; such a daemon carries the same marks and must be left alone.
///
/// Call this before any attempt of the instance is started. The caller itself is never a match.
pub async fn kill_orphans(
    instance: &str,
    grace: Duration,
    is_open: impl Fn(&str) -> bool + Send + Sync,
) -> Vec<Orphan> {
    let matches = |mark: &Mark| mark.instance == instance && is_open(&mark.run_id);
    let wanted = Wanted { root: None, mark: &matches };
    let ended = tree::end(&Scanner::default(), &wanted, sleep(grace)).await;
    let mut orphans = BTreeMap::new();
    for (id, mark) in ended.found {
        let Some(mark) = mark else { continue };
        let gone = !ended.survivors.contains(&id);
        let attempt = mark.attempt.parse().unwrap_or(0);
        orphans.insert(id.pid, Orphan { pid: id.pid, run_id: mark.run_id, attempt, gone });
    }
    orphans.into_values().collect()
}
