//! Finding and ending all processes of an attempt, wherever they have moved to.
//!
//! A command gets its own process group, but its descendants may leave it: `setsid`, a shell
//! with job control, a double fork. So an attempt's processes are found by looking through
//! `/proc`. A process belongs to the attempt if
//! - its environment carries the attempt's marks (every command gets them and every descendant
//!   inherits them, whatever group, session or parent it ends up with); or
//! - it is the main process, or in that process's group; or
//! - its parent, group leader or session leader belongs to the attempt, which also catches
//!   descendants that have wiped or overwritten their environment.
//!
//! What escapes: a process that has wiped its environment *and* left the group *and* was orphaned
//! before the first look. The decision record on running commands says why this was preferred to
//! control groups and subreapers. Linux only.
//!
//! Signals go through a pidfd, checked against the process's start time after it was opened, so
//! a recycled process id is never hit.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use tokio::time::{Instant, sleep};

/// How long to go on killing what does not die, which can only be a process stuck in the kernel.
const KILL_TIME_MAX: Duration = Duration::from_secs(5);
/// The pause between two looks grows from the first to the second of these.
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(10);
const LOOK_PAUSE_MAX: Duration = Duration::from_millis(200);

/// What the environment of a process says about the attempt it belongs to.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Mark {
    pub(crate) instance: String,
    pub(crate) run_id: String,
    pub(crate) attempt: String,
}

/// A process, told apart from a later one with the same id by its start time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ProcessId {
    pub(crate) pid: i32,
    /// In clock ticks since boot.
    pub(crate) started: u64,
}

impl ProcessId {
    /// The process that has this id now.
    pub(crate) fn of(pid: i32) -> Option<ProcessId> {
        read_stat(pid).map(|process| process.id)
    }

    /// Sends a signal, unless the process is gone. True if it was sent.
    fn signal(self, signal: Signal) -> bool {
        let Some(pid) = Pid::from_raw(self.pid) else { return false };
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
        // The handle is pinned to a process; now see whether it is the one that was meant.
        ProcessId::of(self.pid) == Some(self) && pidfd_send_signal(handle, signal).is_ok()
    }
}

#[derive(Clone, Debug)]
struct Process {
    id: ProcessId,
    parent: i32,
    group: i32,
    session: i32,
    /// Dead, and only waiting for its parent to notice.
    zombie: bool,
    mark: Option<Mark>,
}

/// Reads `/proc/PID/stat`. The name in it is in parentheses and may itself contain them.
fn read_stat(pid: i32) -> Option<Process> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let rest = std::str::from_utf8(&stat[after_name..]).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(Process {
        id: ProcessId { pid, started: fields.get(19)?.parse().ok()? },
        zombie: matches!(*fields.first()?, "Z" | "X" | "x"),
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        mark: None,
    })
}

fn read_mark(pid: i32) -> Option<Mark> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let value = |name: &str| {
        environment
            .split(|byte| *byte == 0)
            .find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
            .map(|value| String::from_utf8_lossy(value).into_owned())
    };
    Some(Mark {
        instance: value("BELLWETHER_INSTANCE")?,
        run_id: value("BELLWETHER_RUN_ID")?,
        attempt: value("BELLWETHER_ATTEMPT")?,
    })
}

/// All processes at one moment (or rather, during one look through `/proc`).
pub(crate) struct Snapshot {
    processes: HashMap<i32, Process>,
}

impl Snapshot {
    fn take() -> Snapshot {
        let mut processes = HashMap::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
            // Processes come and go during the look; what cannot be read is gone.
            let Some(mut process) = pid.and_then(read_stat) else { continue };
            process.mark = if process.zombie { None } else { read_mark(process.id.pid) };
            processes.insert(process.id.pid, process);
        }
        Snapshot { processes }
    }

    /// The living processes that belong to what `wanted` describes, with the mark they were found
    /// by. Those that were `known` before still belong, since what they were found through may be
    /// dead by now. This process is never among them, nor anything found only through it.
    fn members(&self, wanted: &Wanted<'_>, known: &Known) -> Vec<Found> {
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let mut members: HashMap<i32, Option<&Mark>> = HashMap::new();
        for process in self.processes.values().filter(|process| process.id.pid != own) {
            let marked = process.mark.as_ref().filter(|mark| (wanted.mark)(mark));
            if marked.is_some() || self.is_rooted(process, wanted.root) {
                members.insert(process.id.pid, marked);
            } else if let Some(mark) = known.get(&process.id) {
                members.insert(process.id.pid, mark.as_ref());
            }
        }
        // Groups and sessions outlive their leaders, and their numbers are not reused meanwhile.
        let gone: HashMap<i32, Option<&Mark>> = known
            .iter()
            .filter(|(id, _)| !self.processes.contains_key(&id.pid))
            .map(|(id, mark)| (id.pid, mark.as_ref()))
            .collect();
        loop {
            let found: Vec<_> = self
                .processes
                .values()
                .filter(|process| process.id.pid != own && process.id.pid > 1)
                .filter(|process| !members.contains_key(&process.id.pid))
                .filter_map(|process| {
                    [process.parent, process.group, process.session]
                        .iter()
                        .find_map(|relative| members.get(relative).or_else(|| gone.get(relative)))
                        .map(|mark| (process.id.pid, *mark))
                })
                .collect();
            if found.is_empty() {
                break;
            }
            members.extend(found);
        }
        members
            .into_iter()
            .filter_map(|(pid, mark)| Some((self.processes.get(&pid)?, mark)))
            .filter(|(process, _)| !process.zombie)
            .map(|(process, mark)| (process.id, mark.cloned()))
            .collect()
    }

    /// Whether a process is the root or in the root's group. The kernel does not reuse the number
    /// of a group that has members, so the group is another one only if its leader is.
    fn is_rooted(&self, process: &Process, root: Option<ProcessId>) -> bool {
        let Some(root) = root else { return false };
        let leader_is_another =
            self.processes.get(&root.pid).is_some_and(|leader| leader.id != root);
        process.id == root || (process.group == root.pid && !leader_is_another)
    }

    /// Signals processes, parents before children. The root's group is signalled at one stroke,
    /// so that a shell does not go on to its next command when it sees its last one end, and so
    /// that a process that forks quickly cannot outrun a KILL.
    fn signal(&self, alive: &[Found], root: Option<ProcessId>, signal: Signal) {
        let grouped = |id: ProcessId| {
            root.is_some_and(|root| {
                self.processes.get(&id.pid).is_some_and(|p| p.group == root.pid)
            })
        };
        if let Some(root) = root.filter(|_| alive.iter().any(|(id, _)| grouped(*id))) {
            signal_group(root.pid, signal);
        }
        let mut others: Vec<ProcessId> =
            alive.iter().map(|(id, _)| *id).filter(|id| !grouped(*id)).collect();
        others.sort_by_key(|id| (id.started, id.pid));
        for id in others {
            id.signal(signal);
        }
    }
}

/// A process and the mark by which it was found.
type Found = (ProcessId, Option<Mark>);
/// All processes found so far.
type Known = HashMap<ProcessId, Option<Mark>>;

/// Which processes are meant.
pub(crate) struct Wanted<'a> {
    /// The main process, leader of its group.
    pub(crate) root: Option<ProcessId>,
    /// Marks that belong.
    pub(crate) mark: &'a (dyn Fn(&Mark) -> bool + Send + Sync),
}

/// Looks through `/proc` on behalf of many. Those who ask while a look is under way share the
/// next one, so that ending a thousand attempts at once does not mean a thousand looks.
#[derive(Default)]
pub(crate) struct Scanner {
    last: tokio::sync::Mutex<Option<(Instant, Arc<Snapshot>)>>,
}

impl Scanner {
    /// A look that began after this call.
    pub(crate) async fn look(&self) -> Arc<Snapshot> {
        let asked = Instant::now();
        let mut last = self.last.lock().await;
        if let Some((begun, snapshot)) = &*last
            && *begun > asked
        {
            return Arc::clone(snapshot);
        }
        let begun = Instant::now();
        match tokio::task::spawn_blocking(Snapshot::take).await {
            Ok(snapshot) => {
                let snapshot = Arc::new(snapshot);
                *last = Some((begun, Arc::clone(&snapshot)));
                snapshot
            }
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down and will not poll this again.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

/// The processes that were found, each with the mark it was found by, and whether it is gone.
#[derive(Default)]
pub(crate) struct Ended {
    pub(crate) found: Known,
    pub(crate) survivors: HashSet<ProcessId>,
}

/// Ends everything `wanted` describes: TERM once to what is there at first, KILL to all that is
/// there once `grace_over` completes. What is started in between gets no TERM, since it may be the
/// work of a handler that cleans up. Returns when none is left, or when some do not die of KILL.
pub(crate) async fn end(
    scanner: &Scanner,
    wanted: &Wanted<'_>,
    grace_over: impl Future<Output = ()>,
) -> Ended {
    let mut grace_over = std::pin::pin!(grace_over);
    let mut ended = Ended::default();
    let mut kill_until: Option<Instant> = None;
    let mut pause = LOOK_PAUSE_MIN;
    loop {
        let snapshot = scanner.look().await;
        let alive = snapshot.members(wanted, &ended.found);
        let give_up = kill_until.is_some_and(|until| Instant::now() >= until);
        if alive.is_empty() || give_up {
            ended.survivors = alive.into_iter().map(|(id, _)| id).collect();
            return ended;
        }
        if kill_until.is_some() {
            snapshot.signal(&alive, wanted.root, Signal::KILL);
        } else if ended.found.is_empty() {
            snapshot.signal(&alive, wanted.root, Signal::TERM);
            // A stopped process would not notice before it is continued.
            snapshot.signal(&alive, wanted.root, Signal::CONT);
        }
        ended.found.extend(alive);
        tokio::select! {
            biased;
            () = &mut grace_over, if kill_until.is_none() => {
                kill_until = Some(Instant::now() + KILL_TIME_MAX);
                pause = LOOK_PAUSE_MIN;
            }
            () = sleep(pause) => pause = (pause * 2).min(LOOK_PAUSE_MAX),
        }
    }
}

/// KILLs a process group at one stroke.
pub(crate) fn kill_group(leader: i32) {
    signal_group(leader, Signal::KILL);
}

fn signal_group(leader: i32, signal: Signal) {
    if let Some(leader) = Pid::from_raw(leader).filter(|_| leader > 1) {
        // It fails only if there is no such group left.
        let _ = kill_process_group(leader, signal);
    }
}

#[cfg(test)]
mod tests;
