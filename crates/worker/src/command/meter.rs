//! Measures what a command uses while it runs.
//!
//! A command that is over quickly costs nothing: what the kernel counted for it is read once, at its
//! end. One that lasts is looked at again and again, ever more rarely.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use tokio::time::{Instant, sleep_until};

use crate::finished::Usage;
use crate::os::Spent;
use crate::usage::{self, Seen};

/// The pause between two looks grows from the first to the second of these.
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(20);
const LOOK_PAUSE_MAX: Duration = Duration::from_secs(2);

/// The measurement of one command.
pub(super) struct Meter {
    root: Option<i32>,
    most: Seen,
    pause: Duration,
    look_at: Instant,
}

impl Meter {
    /// For a command whose main process this is.
    pub(super) fn new(root: Option<i32>) -> Meter {
        let look_at = Instant::now() + LOOK_PAUSE_MIN;
        Meter { root, most: Seen::default(), pause: LOOK_PAUSE_MIN, look_at }
    }

    /// Waits until it is time, and looks. May be dropped and called again.
    pub(super) async fn next(&mut self) {
        if self.root.is_none() {
            return std::future::pending().await;
        }
        sleep_until(self.look_at).await;
        self.look().await;
        self.pause = (self.pause * 2).min(LOOK_PAUSE_MAX);
        self.look_at = Instant::now() + self.pause;
    }

    /// Looks now.
    pub(super) async fn look(&mut self) {
        let Some(root) = self.root else { return };
        // A large tree takes a while, and others wait on this thread.
        let Ok(seen) = tokio::task::spawn_blocking(move || usage::look(root)).await else { return };
        self.most.cpu = self.most.cpu.max(seen.cpu);
        self.most.memory_bytes = self.most.memory_bytes.max(seen.memory_bytes);
        self.most.largest_bytes = self.most.largest_bytes.max(seen.largest_bytes);
    }

    /// What was used in all, given what the kernel counted for the main process and for those that
    /// were waited for. Processes that were killed with the main process are waited for by nobody:
    /// of them there is what was seen.
    pub(super) fn total(&self, spent: Option<Spent>) -> Option<Usage> {
        let spent = spent?;
        Some(Usage {
            cpu: spent.cpu.max(self.most.cpu),
            memory_peak_bytes: self
                .most
                .memory_bytes
                .max(self.most.largest_bytes)
                .max(own_part(spent.memory_peak_bytes)),
        })
    }
}

/// A process counts what its parent had when it was made: only more than that is its own.
fn own_part(peak_bytes: u64) -> u64 {
    let own = getrusage(UsageWho::RUSAGE_SELF).map_or(0, |own| own.max_rss());
    let own_bytes = u64::try_from(own).unwrap_or(0) * 1_024;
    if peak_bytes > own_bytes { peak_bytes } else { 0 }
}
