//! Control groups (v2): where they can be had, the kernel itself keeps a command within its memory.
//!
//! ```text
//!  BASE/                  the group that was handed to this process
//!    bellwether-main/     this process, its supervisors, and commands without a limit
//!    bellwether-run-…/    one attempt with a limit, for as long as it has processes
//! ```
//!
//! A group with processes of its own cannot pass controllers on (except the root of all), so this
//! process must be in a group below the one that was handed to it. Either whoever started it has
//! seen to that (systemd: `DelegateSubgroup=bellwether-main`), or [`prepare`] does, if nobody else is
//! in the group. Supervisors are children of a worker that has: they only [`Groups::find`] it.
//!
//! Nothing here is needed to find or end processes; see `tree`.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::unistd::{AccessFlags, access};

/// The group for everything that has no limit.
const MAIN: &str = "bellwether-main";
/// How the groups of attempts begin.
const RUN: &str = "bellwether-run-";
/// An empty group that is younger than this may be about to get its process.
const LEFTOVER_AGE_MIN: Duration = Duration::from_secs(10);

/// The place for groups of attempts.
pub(crate) struct Groups {
    base: PathBuf,
    /// Groups whose command left processes behind.
    busy: Mutex<Vec<PathBuf>>,
}

/// Makes this process ready to have the kernel keep commands within their memory, and removes what
/// an earlier one left. For the start of a program: it may move the process into a group of its own.
/// Returns the group below which there will be one for each command with a limit.
///
/// # Errors
/// Why the kernel cannot be had for that. Then limits are kept by looking at processes.
pub fn prepare() -> Result<PathBuf, String> {
    let base = base()?;
    if !lists_memory(&base.join("cgroup.controllers")) {
        return Err(format!("{} has no memory controller", base.display()));
    }
    may_write(&base)?;
    if !lists_memory(&base.join("cgroup.subtree_control")) {
        let told = |error| format!("{} does not pass memory on: {error}", base.display());
        pass_memory_on(&base).map_err(told)?;
    }
    sweep(&base);
    Ok(base)
}

impl Groups {
    /// The place, if there is one.
    pub(crate) fn find() -> Result<Arc<Groups>, String> {
        let base = base()?;
        may_write(&base)?;
        if !lists_memory(&base.join("cgroup.subtree_control")) {
            return Err(format!("{} does not pass the memory controller on", base.display()));
        }
        Ok(Groups::at(base))
    }

    fn at(base: PathBuf) -> Arc<Groups> {
        Arc::new(Groups { base, busy: Mutex::default() })
    }

    /// Makes a group for one attempt, whose processes may use this much memory together.
    pub(crate) fn create(self: &Arc<Self>, name: &str, limit_bytes: u64) -> io::Result<Group> {
        self.busy().retain(|path| fs::remove_dir(path).is_err() && path.exists());
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
        let name: String = name.chars().map(plain).collect();
        let path = self.base.join(format!("{RUN}{name}"));
        fs::create_dir(&path)?;
        let group = Group { path, groups: Arc::clone(self) };
        group.limit(limit_bytes)?;
        Ok(group)
    }

    fn busy(&self) -> std::sync::MutexGuard<'_, Vec<PathBuf>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The group of one attempt. Dropping it removes it, later if it still has processes.
pub(crate) struct Group {
    path: PathBuf,
    groups: Arc<Groups>,
}

impl Drop for Group {
    fn drop(&mut self) {
        if fs::remove_dir(&self.path).is_err() {
            self.groups.busy().push(self.path.clone());
        }
    }
}

impl Group {
    fn limit(&self, bytes: u64) -> io::Result<()> {
        // All of the attempt is killed, not just its largest process: half of it is of no use.
        fs::write(self.path.join("memory.oom.group"), "1")?;
        // Missing where there is no swap, or none that is counted.
        let _ = fs::write(self.path.join("memory.swap.max"), "0");
        fs::write(self.path.join("memory.max"), bytes.to_string())
    }

    /// Where a process writes `0` to become a member.
    pub(crate) fn entrance(&self) -> io::Result<File> {
        OpenOptions::new().write(true).open(self.path.join("cgroup.procs"))
    }

    /// The memory in use, without files that are only kept in memory because there is room.
    pub(crate) fn used_bytes(&self) -> Option<u64> {
        let current: u64 = self.read("memory.current")?.trim().parse().ok()?;
        let stat = self.read("memory.stat")?;
        let files = value(&stat, "inactive_file")? + value(&stat, "active_file")?;
        Some(current.saturating_sub(files))
    }

    /// The most memory that was ever in use, as the kernel counts.
    pub(crate) fn peak_bytes(&self) -> Option<u64> {
        self.read("memory.peak")?.trim().parse().ok()
    }

    /// The processor time of all members, the dead included.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        value(&self.read("cpu.stat")?, "usage_usec").map(Duration::from_micros)
    }

    /// Whether members were killed because of the limit. If the whole machine is short of memory,
    /// members may be killed too, and the limit is not reached.
    pub(crate) fn was_exceeded(&self) -> bool {
        let events = self.read("memory.events").unwrap_or_default();
        let happened = |event| value(&events, event).is_some_and(|count| count > 0);
        happened("oom") && happened("oom_kill")
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.path.join(file)).ok()
    }
}

/// The value in a line `NAME VALUE`.
fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// The group below which groups for attempts may be made.
fn base() -> Result<PathBuf, String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    base_of(&mounts, &own).ok_or_else(|| "there are no control groups (v2)".to_owned())
}

fn base_of(mounts: &str, own: &str) -> Option<PathBuf> {
    let (root, mount) = mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut fields = place.split(' ').skip(3);
        kind.starts_with("cgroup2 ").then(|| fields.next().zip(fields.next()))?
    })?;
    let path = Path::new(own.lines().find_map(|line| line.strip_prefix("0::"))?);
    let own = Path::new(mount).join(path.strip_prefix(root).ok()?);
    match own.file_name() {
        Some(name) if name == MAIN => own.parent().map(Path::to_owned),
        _ => Some(own),
    }
}

fn may_write(base: &Path) -> Result<(), String> {
    access(base, AccessFlags::W_OK).map_err(|error| format!("{}: {error}", base.display()))
}

fn lists_memory(file: &Path) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.split_whitespace().any(|name| name == "memory"))
}

/// Passes the memory controller on to groups below; goes into one of them first if it must and may.
fn pass_memory_on(base: &Path) -> io::Result<()> {
    let pass_on = || fs::write(base.join("cgroup.subtree_control"), "+memory");
    match pass_on() {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => match step_aside(base)? {
            true => pass_on(),
            false => Err(error),
        },
        result => result,
    }
}

/// Goes into the main group, if nobody else is in this one: others are not ours to move.
fn step_aside(base: &Path) -> io::Result<bool> {
    let own = std::process::id().to_string();
    if fs::read_to_string(base.join("cgroup.procs"))?.trim() != own {
        return Ok(false);
    }
    let main = base.join(MAIN);
    fs::create_dir_all(&main)?;
    fs::write(main.join("cgroup.procs"), own)?;
    Ok(true)
}

/// Removes the groups of attempts that are long over. Those that have processes stay by themselves.
fn sweep(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let made = entry.metadata().and_then(|found| found.modified());
        let age = made.ok().and_then(|made| made.elapsed().ok()).unwrap_or_default();
        let is_run = entry.file_name().to_str().is_some_and(|name| name.starts_with(RUN));
        if is_run && age >= LEFTOVER_AGE_MIN {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests;
