//! What the processes of a command use, as `/proc` shows it.
//!
//! A look finds a process and its descendants. It misses those whose parent has died, and counts
//! memory that processes share once for each of them: [`shared_memory`] is the truth about that,
//! and takes longer.

use std::fs;
use std::time::Duration;

/// Processes that are looked at, at most: a look must stay cheap.
const PROCESSES_MAX: usize = 4_096;

/// What was seen in one look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    /// The processor time of the living, and of the dead they waited for.
    pub(crate) cpu: Duration,
    /// What is in memory of all of them together.
    pub(crate) memory_bytes: u64,
    /// The most that a single one of them ever had in memory.
    pub(crate) largest_bytes: u64,
}

/// Looks at a process and its descendants.
pub(crate) fn look(root: i32) -> Seen {
    let mut seen = Seen::default();
    for pid in tree(root) {
        seen.cpu += cpu(&pid).unwrap_or_default();
        let (resident, highest) = memory(&pid);
        seen.memory_bytes += resident;
        seen.largest_bytes = seen.largest_bytes.max(highest);
    }
    seen
}

/// The memory of a process and its descendants, what they share counted once. For a process whose
/// share cannot be read, all that it has counts.
pub(crate) fn shared_memory(root: i32) -> u64 {
    let share = |pid: &String| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        kib(&text, "Pss:").unwrap_or_else(|| memory(pid).0)
    };
    tree(root).iter().map(share).sum()
}

fn tree(root: i32) -> Vec<String> {
    let mut found = vec![root.to_string()];
    let mut next = 0;
    while next < found.len() && found.len() < PROCESSES_MAX {
        found.extend(children(&found[next]));
        next += 1;
    }
    found
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

/// What it has in memory, and the most it ever had, since it became the program it is.
fn memory(pid: &str) -> (u64, u64) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = |name| kib(&status, name).unwrap_or(0);
    (line("VmRSS:"), line("VmHWM:"))
}

/// The value of a line that is given in KiB, in bytes.
fn kib(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(rest.split_whitespace().next()?.parse::<u64>().ok()? * 1_024)
}

fn cpu(pid: &str) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    // User and system time, its own and that of the children it waited for.
    let ticks = rest.split_ascii_whitespace().skip(11).take(4);
    let ticks: u64 = ticks.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    let each = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten()?;
    Some(Duration::from_millis(ticks * 1_000 / u64::try_from(each).ok()?.max(1)))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn memory_that_processes_share_can_be_counted_once() {
        let script = "import os, sys; x = bytearray(80_000_000); os.fork(); print('r', flush=True); \
                      sys.stdin.read()";
        let mut child = Command::new("python3")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.next().is_some() && lines.next().is_some(), "parent and child are ready");
        let root = i32::try_from(child.id()).unwrap();
        let (seen, shared) = (look(root), shared_memory(root));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(seen.memory_bytes > 160_000_000, "{seen:?}");
        assert!(seen.largest_bytes < 130_000_000 && !seen.cpu.is_zero(), "{seen:?}");
        assert!((80_000_000..130_000_000).contains(&shared), "{shared}");
    }
}
