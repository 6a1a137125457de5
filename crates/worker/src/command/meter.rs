//! Measures what a command uses while it runs, and sees to its memory limit.
//!
//! A command that is over quickly costs nothing: what the kernel counted for it is read once, at its
//! end. One that lasts is looked at again and again, ever more rarely; one with a limit is looked at
//! all the time.
//!
//! A limit is kept by the kernel if the command is in a group of its own; then looks only serve the
//! warning. Otherwise looks find out that it was passed, and the command has to be ended.

use std::sync::Arc;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use tokio::time::{Instant, sleep_until};

use crate::cgroup::Group;
use crate::finished::{Failure, ReasonCode, Usage};
use crate::os::Spent;
use crate::usage::{self, Seen};

/// The pause between two looks grows from the first to the second of these.
const LOOK_PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));
/// The same for a command with a limit.
const LIMITED_PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));
/// The part of the limit, in percent, from which on there is a warning.
const NEAR_PERCENT: u64 = 90;

/// How much memory the processes of a command may use together.
pub(super) struct Limit {
    pub(super) bytes: u64,
    /// The group in which the kernel sees to it.
    pub(super) group: Option<Arc<Group>>,
}

impl Limit {
    fn is_near(&self, used_bytes: u64) -> bool {
        used_bytes / NEAR_PERCENT >= self.bytes / 100
    }

    /// What counts against it: for the kernel what the kernel counts; otherwise what was seen,
    /// looked at more closely if it matters.
    fn used_bytes(&self, root: i32, seen: &Seen) -> Option<u64> {
        match &self.group {
            Some(group) => group.used_bytes(),
            None if self.is_near(seen.memory_bytes) => Some(usage::shared_memory(root)),
            None => Some(seen.memory_bytes),
        }
    }
}

/// What a look has shown, besides what is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Noticed {
    Nothing,
    /// So many bytes are in use, and that is near the limit. Said once.
    Near(u64),
    /// So many bytes are in use, and that is too much.
    Over(u64),
}

/// The measurement of one command.
pub(super) struct Meter {
    root: Option<i32>,
    limit: Option<Arc<Limit>>,
    warned: bool,
    most: Seen,
    pause: Duration,
    pause_max: Duration,
    look_at: Instant,
}

impl Meter {
    /// For a command whose main process this is.
    pub(super) fn new(root: Option<i32>, limit: Option<Limit>) -> Meter {
        let (pause, pause_max) = if limit.is_some() { LIMITED_PAUSE } else { LOOK_PAUSE };
        let (most, look_at) = (Seen::default(), Instant::now() + pause);
        let limit = limit.map(Arc::new);
        Meter { root, limit, warned: false, most, pause, pause_max, look_at }
    }

    /// Waits until it is time, and looks. May be dropped and called again.
    pub(super) async fn next(&mut self) -> Noticed {
        if self.root.is_none() {
            return std::future::pending().await;
        }
        sleep_until(self.look_at).await;
        let noticed = self.look().await;
        self.pause = (self.pause * 2).min(self.pause_max);
        self.look_at = Instant::now() + self.pause;
        noticed
    }

    /// Looks now.
    pub(super) async fn look(&mut self) -> Noticed {
        let Some(root) = self.root else { return Noticed::Nothing };
        let limit = self.limit.clone();
        let look = move || {
            let seen = usage::look(root);
            (seen, limit.and_then(|limit| limit.used_bytes(root, &seen)))
        };
        // A large tree takes a while, and others wait on this thread.
        let Ok((seen, used)) = tokio::task::spawn_blocking(look).await else {
            return Noticed::Nothing;
        };
        self.most.cpu = self.most.cpu.max(seen.cpu);
        self.most.memory_bytes = self.most.memory_bytes.max(seen.memory_bytes);
        self.most.largest_bytes = self.most.largest_bytes.max(seen.largest_bytes);
        self.judge(used)
    }

    fn judge(&mut self, used: Option<u64>) -> Noticed {
        let (Some(limit), Some(used)) = (&self.limit, used) else { return Noticed::Nothing };
        if used > limit.bytes && limit.group.is_none() {
            return Noticed::Over(used);
        }
        if limit.is_near(used) && !std::mem::replace(&mut self.warned, true) {
            return Noticed::Near(used);
        }
        Noticed::Nothing
    }

    /// The line that warns whoever reads the output.
    pub(super) fn warning(&self, used: u64) -> String {
        let (used, limit) = (size(used), size(self.limit_bytes()));
        format!(
            "bellwether: the processes of this command use {used} of memory; the limit is {limit}\n"
        )
    }

    /// Why a command is ended that uses so much.
    pub(super) fn over(&self, used: u64) -> Failure {
        let (used, limit) = (size(used), size(self.limit_bytes()));
        let message = format!(
            "the processes of the command used {used} of memory together; the limit is {limit}, so \
             they were killed"
        );
        Failure::new(ReasonCode::MemoryLimit, message)
    }

    /// Why the kernel has ended a command, if it has.
    pub(super) fn ended_by_kernel(&self) -> Option<Failure> {
        let group = self.group().filter(|group| group.was_exceeded())?;
        let (peak, limit) = (group.peak_bytes().unwrap_or(0), size(self.limit_bytes()));
        let message = format!(
            "the processes of the command needed more memory than their limit of {limit}, so the \
             kernel killed them; they had {}",
            size(peak.max(self.most.memory_bytes))
        );
        Some(Failure::new(ReasonCode::MemoryLimit, message))
    }

    /// What was used in all, given what the kernel counted for the main process and for those that
    /// were waited for. Processes that were killed with the main process are waited for by nobody:
    /// of them there is what was seen. A group knows it all.
    pub(super) fn total(&self, spent: Option<Spent>) -> Option<Usage> {
        let spent = spent?;
        let seen = self.most.memory_bytes.max(self.most.largest_bytes);
        let seen = seen.max(own_part(spent.memory_peak_bytes));
        let cpu = self.group().and_then(Group::cpu);
        let peak = self.group().and_then(Group::peak_bytes);
        Some(Usage {
            cpu: cpu.unwrap_or_else(|| spent.cpu.max(self.most.cpu)),
            memory_peak_bytes: peak.unwrap_or(seen),
        })
    }

    fn limit_bytes(&self) -> u64 {
        self.limit.as_ref().map_or(0, |limit| limit.bytes)
    }

    fn group(&self) -> Option<&Group> {
        self.limit.as_ref()?.group.as_deref()
    }
}

/// A process counts what its parent had when it was made: only more than that is its own.
fn own_part(peak_bytes: u64) -> u64 {
    let own = getrusage(UsageWho::RUSAGE_SELF).map_or(0, |own| own.max_rss());
    let own_bytes = u64::try_from(own).unwrap_or(0) * 1_024;
    if peak_bytes > own_bytes { peak_bytes } else { 0 }
}

/// A number of bytes for people.
fn size(bytes: u64) -> String {
    let mib = 1_u64 << 20;
    match bytes.is_multiple_of(mib) {
        true => format!("{} MiB", bytes / mib),
        false => format!("{}.{} MiB", bytes / mib, bytes % mib * 10 / mib),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warning_comes_once_and_before_the_end() {
        let limit = Limit { bytes: 100 << 20, group: None };
        let mut meter = Meter::new(None, Some(limit));
        let noticed = [80_u64, 89, 91, 95, 100, 101].map(|mib| meter.judge(Some(mib << 20)));
        let near = Noticed::Near(91 << 20);
        let over = Noticed::Over(101 << 20);
        use Noticed::Nothing;
        assert_eq!(noticed, [Nothing, Nothing, near, Nothing, Nothing, over]);
        assert_eq!(meter.judge(None), Nothing);
        assert!(meter.warning(91 << 20).contains("use 91 MiB of memory; the limit is 100 MiB"));
    }

    #[test]
    fn sizes_are_written_for_people() {
        assert_eq!(size(512 << 20), "512 MiB");
        assert_eq!(size((3 << 20) + (1 << 19)), "3.5 MiB");
    }
}
