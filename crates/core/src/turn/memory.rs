//! What a shard keeps in memory between turns: all of it can be derived again from the store.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Demand, Roster};
use crate::bounds::Shares;
use crate::id::{BatchId, IdSource, JobId, RunId};
use crate::record::{Definition, GroupRow, PartRow, Run, ShardRow, Target};
use crate::schedule::Schedule;
use crate::settings::Settings;
use crate::time::Time;
use crate::waist::{Shard, Term};

/// A kind of work that is handed out on its own: what a worker must offer to get a run.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Lane {
    /// The queue.
    pub queue: String,
    /// The namespace: those of a queue take turns.
    pub namespace: String,
    /// What kind of target.
    pub work: Work,
    /// Labels that the worker must have.
    pub requires: BTreeMap<String, String>,
    /// The one worker that may have it; empty for any.
    pub pinned: String,
    /// What a run takes of a worker that counts resources. It comes last, so that lanes that are
    /// alike but for it are neighbours.
    pub demand: Demand,
}

/// Kinds of targets, as far as workers differ in them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Work {
    /// A command.
    Command,
    /// A request, or a message for a broker: both wait for somebody else and cost no process.
    Http,
    /// A handler of this name.
    Handler(String),
}

impl Lane {
    /// The lane of a job's runs that only one worker may have, or any if that is empty.
    #[must_use]
    pub fn of(definition: &Definition, pinned: &str) -> Lane {
        let work = match &definition.target {
            Some(Target::Command(_)) | None => Work::Command,
            Some(Target::Http(_) | Target::Publish(_)) => Work::Http,
            Some(Target::Handler(handler)) => Work::Handler(handler.job_type.clone()),
        };
        let requires = definition.requires.clone();
        let namespace = namespace_name(definition).to_owned();
        let (queue, demand) = (queue_name(definition).to_owned(), Demand::of(definition));
        Lane { queue, namespace, work, requires, pinned: pinned.to_owned(), demand }
    }

    /// Whether it differs from another in the demand at most.
    #[must_use]
    pub fn is_like(&self, other: &Lane) -> bool {
        (&self.queue, &self.namespace, &self.work) == (&other.queue, &other.namespace, &other.work)
            && (&self.requires, &self.pinned) == (&other.requires, &other.pinned)
    }

    /// Whether it is the lane of a job's run.
    #[must_use]
    pub fn is_of(&self, definition: &Definition, run: &Run) -> bool {
        let same_work = match (&self.work, &definition.target) {
            (Work::Command, Some(Target::Command(_)) | None) => true,
            (Work::Http, Some(Target::Http(_) | Target::Publish(_))) => true,
            (Work::Handler(name), Some(Target::Handler(handler))) => *name == handler.job_type,
            _ => false,
        };
        same_work
            && self.queue == queue_name(definition)
            && self.namespace == namespace_name(definition)
            && self.requires == definition.requires
            && self.pinned == run.pinned
            && self.demand == Demand::of(definition)
    }
}

/// A job's queue by name.
#[must_use]
pub fn queue_name(definition: &Definition) -> &str {
    if definition.queue.is_empty() { "default" } else { &definition.queue }
}

/// A job's namespace by name.
#[must_use]
pub fn namespace_name(definition: &Definition) -> &str {
    if definition.namespace.is_empty() { "default" } else { &definition.namespace }
}

/// The place of a run in its lane: higher priority first, then the earlier tick.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Turnstile {
    /// The priority, negated.
    pub rank: i32,
    /// The tick.
    pub scheduled: Time,
    /// The run.
    pub run: RunId,
}

impl Turnstile {
    fn of(definition: &Definition, id: RunId, run: &Run) -> Turnstile {
        let (rank, scheduled) = (definition.priority.saturating_neg(), Time(run.scheduled_ms));
        Turnstile { rank, scheduled, run: id }
    }
}

/// Runs that wait for a worker, by lane.
#[derive(Debug, Default)]
pub struct Ready {
    lanes: BTreeMap<Lane, BTreeSet<Turnstile>>,
}

impl Ready {
    /// Lets a run wait.
    pub fn add(&mut self, definition: &Definition, id: RunId, run: &Run) {
        let lane = Lane::of(definition, &run.pinned);
        self.lanes.entry(lane).or_default().insert(Turnstile::of(definition, id, run));
    }

    /// Takes a run out that no longer waits. It need not be there.
    pub fn remove(&mut self, definition: &Definition, id: RunId, run: &Run) {
        let lane = Lane::of(definition, &run.pinned);
        if let Some(waiting) = self.lanes.get_mut(&lane) {
            waiting.remove(&Turnstile::of(definition, id, run));
            if waiting.is_empty() {
                self.lanes.remove(&lane);
            }
        }
    }

    /// Takes the first run of a lane.
    pub fn pop(&mut self, lane: &Lane) -> Option<Turnstile> {
        let waiting = self.lanes.get_mut(lane)?;
        let first = waiting.pop_first();
        if waiting.is_empty() {
            self.lanes.remove(lane);
        }
        first
    }

    /// Lets a run that was taken wait again where it was.
    pub fn put_back(&mut self, lane: &Lane, place: Turnstile) {
        self.lanes.entry(lane.clone()).or_default().insert(place);
    }

    /// The lanes in which runs wait, and how many.
    pub fn lanes(&self) -> impl Iterator<Item = (&Lane, usize)> {
        self.lanes.iter().map(|(lane, waiting)| (lane, waiting.len()))
    }

    /// The first run of each lane, and how many wait there.
    pub fn heads(&self) -> impl Iterator<Item = (&Lane, Turnstile, usize)> {
        self.lanes
            .iter()
            .filter_map(|(lane, waiting)| Some((lane, *waiting.first()?, waiting.len())))
    }

    /// The first run of a lane.
    #[must_use]
    pub fn first(&self, lane: &Lane) -> Option<Turnstile> {
        self.lanes.get(lane)?.first().copied()
    }

    /// How many runs of a lane do not come after another one, counting no further than `limit`.
    #[must_use]
    pub fn not_after(&self, lane: &Lane, other: Turnstile, limit: usize) -> usize {
        let waiting = self.lanes.get(lane).into_iter().flatten();
        let not_after =
            |place: &&Turnstile| (place.rank, place.scheduled) <= (other.rank, other.scheduled);
        waiting.take_while(not_after).take(limit).count()
    }

    /// What waits in a queue and is served by somebody, by namespace: the first one's priority (negated) and time, how many are
    /// of its priority, counting no further than `limit` in each lane, and how many there are at all.
    #[must_use]
    pub fn line(
        &self,
        queue: &str,
        limit: usize,
        serves: &dyn Fn(&Lane) -> bool,
    ) -> BTreeMap<String, ((i32, Time), usize, usize)> {
        let mut line: BTreeMap<String, ((i32, Time), usize, usize)> = BTreeMap::new();
        let from = Lane {
            queue: queue.to_owned(),
            namespace: String::new(),
            work: Work::Command,
            requires: BTreeMap::new(),
            pinned: String::new(),
            demand: Demand::NONE,
        };
        let lanes = self.lanes.range(from..).take_while(|(lane, _)| lane.queue == queue);
        for (lane, waiting) in lanes.filter(|(lane, _)| serves(lane)) {
            let Some(first) = waiting.first() else { continue };
            let alike = waiting.iter().take_while(|place| place.rank == first.rank);
            let (head, alike) = ((first.rank, first.scheduled), alike.take(limit).count());
            match line.get_mut(&lane.namespace) {
                None => {
                    line.insert(lane.namespace.clone(), (head, alike, waiting.len()));
                }
                Some((best, count, all)) => {
                    *count = match head.0.cmp(&best.0) {
                        Ordering::Less => alike,
                        Ordering::Equal => *count + alike,
                        Ordering::Greater => *count,
                    };
                    *best = head.min(*best);
                    *all += waiting.len();
                }
            }
        }
        line
    }

    /// How many runs wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lanes.values().map(BTreeSet::len).sum()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }
}

/// Compiled schedules of the jobs that ticked last. A pure cache: an entry is right for exactly
/// one revision of its job.
#[derive(Debug, Default)]
pub struct Compiled {
    by_job: BTreeMap<JobId, (u32, Arc<Schedule>)>,
}

const COMPILED_MAX: usize = 4_096;

impl Compiled {
    /// The schedule of a job at a revision.
    #[must_use]
    pub fn get(&self, job: JobId, revision: u32) -> Option<Arc<Schedule>> {
        self.by_job.get(&job).filter(|(at, _)| *at == revision).map(|(_, found)| found.clone())
    }

    /// Remembers it.
    pub fn put(&mut self, job: JobId, revision: u32, schedule: Arc<Schedule>) {
        if self.by_job.len() >= COMPILED_MAX {
            self.by_job.pop_first();
        }
        self.by_job.insert(job, (revision, schedule));
    }
}

/// Counts of what the rules decided, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Attempts promised to workers.
    pub launches: u64,
    /// Runs that ended well.
    pub succeeded: u64,
    /// Runs that ended badly.
    pub failed: u64,
    /// Runs that were canceled.
    pub canceled: u64,
    /// Runs whose outcome is unknown.
    pub lost: u64,
    /// Runs and ticks that led to nothing.
    pub skipped: u64,
    /// Attempts that failed and will be followed by another.
    pub retried: u64,
    /// Attempts started again because the outcome of one before is unknown: each may be a second
    /// execution (R68).
    pub repeated: u64,
    /// Reports that came too late or under a void token.
    pub stale_reports: u64,
    /// Jobs created.
    pub created: u64,
    /// Ticks of recurring jobs that came late, were merged or skipped.
    pub misfired: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.launches += other.launches;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.canceled += other.canceled;
        self.lost += other.lost;
        self.skipped += other.skipped;
        self.retried += other.retried;
        self.repeated += other.repeated;
        self.stale_reports += other.stale_reports;
        self.created += other.created;
        self.misfired += other.misfired;
    }
}

/// A shard's memory.
#[derive(Debug)]
pub struct Memory {
    /// Which shard.
    pub shard: Shard,
    /// The term under which it acts.
    pub term: Term,
    /// Since when it does.
    pub acts_since: Time,
    /// The server's settings.
    pub settings: Settings,
    /// What it has stored about itself.
    pub row: ShardRow,
    /// Whether `row` is to be stored with the next batch.
    pub row_changed: bool,
    /// Where ids come from.
    pub ids: IdSource,
    /// Fencing tokens given out in this term.
    pub tokens: u64,
    /// Entries written to the audit log in this millisecond.
    pub audit_sequence: (Time, u32),
    /// The switches of groups, by namespace and group.
    pub groups: BTreeMap<(String, String), GroupRow>,
    /// Runs that wait for a worker.
    pub ready: Ready,
    /// Queued runs whose job is paused, by job.
    pub parked_by_job: BTreeMap<JobId, Vec<RunId>>,
    /// Queued runs whose group is paused, by namespace and group.
    pub parked_by_group: BTreeMap<(String, String), Vec<RunId>>,
    /// The parts of batches that were looked at last, as they are stored.
    pub parts: BTreeMap<BatchId, PartRow>,
    /// The workers that are there. The shell keeps it up to date between turns.
    pub workers: Arc<Roster>,
    /// Compiled schedules.
    pub compiled: Compiled,
    /// Whether anybody wants notices.
    pub notices: bool,
    /// What was decided so far.
    pub tally: Tally,
    /// Open runs, of any status.
    pub open_runs: u64,
    /// What it may have of queues with bounds, and what is with workers.
    pub shares: Shares,
}

/// Bits of a fencing token that count: years of launches within one term.
const TOKEN_BITS: u32 = 36;

/// How far the cursor of the due index may be behind before it is stored again.
const CURSOR_STEP_MS: u64 = 1_000;

impl Memory {
    /// Notes that no entry of the due index is earlier than `earliest`. It is stored with the next
    /// batch if it has moved by a second or more.
    ///
    /// To be called before a turn begins, with the effects of all turns before it in the agenda
    /// that `earliest` comes from: what is planned afterwards lowers the cursor if need be, what
    /// was planned before does not.
    pub fn advance_cursor(&mut self, earliest: Time) {
        if earliest.since_ms(Time(self.row.due_from_ms)) >= CURSOR_STEP_MS {
            self.row.due_from_ms = earliest.0;
            self.row_changed = true;
        }
    }

    /// What waits and may be launched now, by lane: the first run of each, and how many.
    #[must_use]
    pub fn open_heads(&self) -> Vec<(Lane, Turnstile, usize)> {
        let heads = self.ready.heads().filter_map(|(lane, first, count)| {
            let count = count.min(self.shares.room(lane));
            (count > 0).then(|| (lane.clone(), first, count))
        });
        heads.collect()
    }

    /// A fencing token higher than all before it: the term, then a count.
    pub fn next_token(&mut self) -> u64 {
        self.tokens += 1;
        self.term << TOKEN_BITS | self.tokens
    }

    /// Whether a fencing token was given out in an earlier term.
    #[must_use]
    pub fn is_of_earlier_term(&self, token: u64) -> bool {
        token >> TOKEN_BITS < self.term
    }
}
