//! What the processes of a supervisor use.
//!
//! Processor time is exact for everything that was waited for. Memory is the largest sum that was
//! seen in looks at the tree, or the largest single process if that was larger; nothing is said of
//! what was over before the first look.

use std::fs;
use std::time::Duration;

use bellwether_protocol::v1::Usage;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// The pause between two looks grows from the first to the second of these.
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(5);
const LOOK_PAUSE_MAX: Duration = Duration::from_secs(2);
/// Processes that are looked at, at most: a look must stay cheap.
const PROCESSES_MAX: usize = 4_096;

/// Watches the memory of this process's descendants.
pub(super) struct Meter {
    peak_bytes: u64,
    pause: Duration,
    page_bytes: u64,
}

impl Meter {
    pub(super) fn new() -> Meter {
        let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
        let page_bytes = page.and_then(|page| u64::try_from(page).ok()).unwrap_or(4_096);
        Meter { peak_bytes: 0, pause: LOOK_PAUSE_MIN, page_bytes }
    }

    /// How long to wait before the next look.
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    /// Looks once.
    pub(super) fn look(&mut self) {
        self.pause = (self.pause * 2).min(LOOK_PAUSE_MAX);
        let mut found = children("self");
        let mut next = 0;
        while next < found.len() && found.len() < PROCESSES_MAX {
            found.extend(children(&found[next]));
            next += 1;
        }
        let pages: u64 = found.iter().filter_map(|pid| resident_pages(pid)).sum();
        self.peak_bytes = self.peak_bytes.max(pages * self.page_bytes);
    }

    /// What was used in all, once the command is over.
    pub(super) fn total(&self) -> Option<Usage> {
        let children = getrusage(UsageWho::RUSAGE_CHILDREN).ok()?;
        let own = getrusage(UsageWho::RUSAGE_SELF).ok()?;
        let micros = (children.user_time() + children.system_time()).num_microseconds();
        // A process counts what its parent had when it was made: only more than that is its own.
        let own_bytes = kib(own.max_rss());
        let largest = Some(kib(children.max_rss())).filter(|largest| *largest > own_bytes);
        Some(Usage {
            cpu_micros: u64::try_from(micros).unwrap_or(0),
            memory_peak_bytes: self.peak_bytes.max(largest.unwrap_or(0)),
        })
    }
}

fn kib(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0) * 1_024
}

/// The children of a process, by the number of each.
fn children(pid: &str) -> Vec<String> {
    let mut found = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let text = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        found.extend(text.split_whitespace().map(str::to_owned));
    }
    found
}

fn resident_pages(pid: &str) -> Option<u64> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    statm.split_whitespace().nth(1)?.parse().ok()
}
