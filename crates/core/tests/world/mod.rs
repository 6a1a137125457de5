//! A small deterministic world around the rules: a store, a shard's memory and agenda, a virtual
//! clock and virtual workers.
//!
//! It does what a server does, and nothing else: it takes due entries, decides, claims, commits
//! all or nothing, and lets effects out after that. Unlike a server it can be stopped at each of
//! these points, and it remembers what its workers *really* started, whatever became of the
//! records. Every turn ends with a look at the whole store ([`consistency`]).

// Two test programs share this; neither uses all of it.
#![allow(dead_code, unused_imports, clippy::unwrap_used)]

pub mod batches;
pub mod consistency;
pub mod job;
pub mod look;
pub mod store;
pub mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bellwether_core::agenda::Agenda;
use bellwether_core::id::{JobId, RunId};
use bellwether_core::record::Run;
use bellwether_core::settings::Settings;
use bellwether_core::time::Time;
use bellwether_core::turn::{
    Demand, Effect, Halt, Input, Memory, Offer, Rejection, Reply, Roster, Turn, load,
};
use bellwether_core::waist::Shard;

pub use job::job;
pub use store::Store;
pub use worker::{Behaviour, Start};

/// Midnight, the first of January 2026: the world's zero.
pub const ZERO: Time = Time(1_767_225_600_000);
/// The world's shard.
pub const SHARD: Shard = 3;

/// An instant, in seconds from the world's zero.
pub fn t(seconds: i64) -> Time {
    Time(ZERO.0 + seconds * 1_000)
}

/// Where a turn is cut off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crash {
    /// It is not.
    No,
    /// What was decided is lost.
    BeforeCommit,
    /// What was decided is durable, but nobody has been told.
    AfterCommit,
    /// So many effects got out.
    AfterEffects(usize),
}

/// A shard and what is around it.
pub struct World {
    pub store: Store,
    pub memory: Memory,
    pub agenda: Agenda,
    pub settings: Settings,
    pub now: Time,
    /// How many attempts the workers take at a time.
    pub slots: usize,
    /// The workers that are there; `w1` takes what is not meant for one of them.
    pub present: BTreeSet<String>,
    /// How many due entries are taken in one turn.
    pub due_limit: usize,
    /// Whether inputs are decided before due entries.
    pub inputs_first: bool,
    /// What workers do with attempts, unless told otherwise.
    pub behaviour: Behaviour,
    pub behaviour_of: BTreeMap<JobId, Behaviour>,
    /// Attempts that are with a worker.
    pub running: BTreeMap<RunId, Start>,
    /// Everything that was ever started, in order.
    pub starts: Vec<Start>,
    /// Reports that workers will send, and when.
    pub coming: Vec<(Time, Input)>,
    /// What workers were asked to stop.
    pub stops: Vec<(RunId, u64)>,
    /// What the operator was told about jobs that the rules have paused.
    pub held: Vec<(JobId, String)>,
    /// Whether to look at the whole store after every turn.
    pub look_always: bool,
    /// The most keys any turn has written.
    pub most_written: usize,
    /// Whether workers start what they get at once, rather than when they are told.
    pub eager: bool,
    /// What was handed to workers in the last turn, also if the server died right after.
    pub handed: Vec<Start>,
    /// Whether callers' keys of some jobs are kept by other shards.
    pub keys_elsewhere: bool,
    /// The replies of the last turn whose writes became durable, also if nobody got them.
    pub replies: Vec<Result<Reply, Rejection>>,
}

impl World {
    /// An empty world at its zero.
    pub fn new() -> World {
        World::with(Settings::default())
    }

    /// An empty world with settings.
    pub fn with(settings: Settings) -> World {
        let store = Store::default();
        let memory = load(&store, SHARD, 1, settings.clone()).unwrap();
        let mut world = World {
            agenda: Agenda::new(SHARD, Time(0), ZERO, 1_000),
            store,
            memory,
            settings,
            now: ZERO,
            slots: 1_000,
            present: BTreeSet::from(["w1".to_owned()]),
            due_limit: 1_000,
            inputs_first: false,
            behaviour: Behaviour::Wait,
            behaviour_of: BTreeMap::new(),
            running: BTreeMap::new(),
            starts: Vec::new(),
            coming: Vec::new(),
            stops: Vec::new(),
            held: Vec::new(),
            look_always: true,
            most_written: 0,
            eager: true,
            handed: Vec::new(),
            keys_elsewhere: false,
            replies: Vec::new(),
        };
        world.agenda.load(&world.store, ZERO).unwrap();
        world
    }

    /// One turn: everything that is due, then the inputs, then claims. The replies are `None` if
    /// the world came to its end first.
    pub fn turn(
        &mut self,
        inputs: Vec<Input>,
        crash: Crash,
    ) -> Option<Vec<Result<Reply, Rejection>>> {
        if self.agenda.wants_load(self.now) {
            self.agenda.load(&self.store, self.now).unwrap();
        }
        let due = self.agenda.take_due(self.now, self.due_limit);
        let due = due.into_iter().map(|(entry, value)| Input::Due { entry, value });
        // Effects of all turns before are in the agenda, and this one has decided nothing yet.
        self.memory.advance_cursor(self.agenda.earliest(self.now));
        let (all, skip) = if self.inputs_first {
            let count = inputs.len();
            (inputs.into_iter().chain(due).collect::<Vec<_>>(), 0..count)
        } else {
            let due: Vec<Input> = due.collect();
            let (count, first) = (inputs.len(), due.len());
            (due.into_iter().chain(inputs).collect(), first..first + count)
        };
        self.memory.workers = Arc::new(roster(&self.present));
        let mut turn = Turn::new(&self.store, &mut self.memory, self.now);
        let mut replies = Vec::new();
        for (number, input) in all.into_iter().enumerate() {
            let reply = match turn.decide(input) {
                Ok(reply) => Ok(reply),
                Err(Halt::Rejected(rejection)) => Err(rejection),
                Err(Halt::Store(error)) => panic!("{error}"),
            };
            if skip.contains(&number) {
                replies.push(reply);
            }
        }
        let mut free = self.slots.saturating_sub(self.running.len());
        for (lane, _) in turn.waiting() {
            let worker = if lane.pinned.is_empty() { "w1" } else { lane.pinned.as_str() };
            if self.present.contains(worker) {
                free -= turn.claim(&lane, worker, free, false).unwrap().claimed;
            }
        }
        let decided = turn.finish();
        self.most_written = self.most_written.max(decided.ops.len());
        self.replies = Vec::new();
        self.handed = Vec::new();
        if crash == Crash::BeforeCommit {
            self.restart(true);
            return None;
        }
        self.replies.clone_from(&replies);
        self.store.commit(&decided.ops);
        let let_out = match crash {
            Crash::AfterCommit => 0,
            Crash::AfterEffects(count) => count,
            _ => usize::MAX,
        };
        for effect in decided.effects.into_iter().take(let_out) {
            self.perform(effect);
        }
        if crash != Crash::No {
            self.restart(true);
            return None;
        }
        if self.look_always {
            consistency::check(self);
        }
        Some(replies)
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Plan(entry, value) => self.agenda.plan(entry, value),
            Effect::Unplan(entry) => self.agenda.unplan(entry),
            Effect::Assign(assignment) => self.start(&assignment),
            Effect::Stop { run, token, .. } => self.asked_to_stop(run, token),
            Effect::Notice(_) | Effect::Batch(_) => {}
            Effect::Held(held) => self.held.push((held.job, held.why)),
        }
    }

    /// The server dies and comes back. Its own worker dies with it (`worker_dies`), or is one of
    /// its own that goes on and reports to whoever leads next.
    pub fn restart(&mut self, worker_dies: bool) {
        if worker_dies {
            self.running.clear();
            self.coming.clear();
        }
        let term = self.memory.term + 1;
        self.memory = load(&self.store, SHARD, term, self.settings.clone()).unwrap();
        let from = Time(self.memory.row.due_from_ms);
        self.agenda = Agenda::new(SHARD, from, self.now, 1_000);
        self.agenda.load(&self.store, self.now).unwrap();
        let mut after = None;
        loop {
            let mut turn = Turn::new(&self.store, &mut self.memory, self.now);
            let mut gone =
                |_: RunId, _: &Run| worker_dies.then(|| "the server was restarted".to_owned());
            after = turn.recover(after, 2, &mut gone).unwrap();
            let decided = turn.finish();
            self.store.commit(&decided.ops);
            for effect in decided.effects {
                self.perform(effect);
            }
            if after.is_none() {
                break;
            }
        }
        self.memory.acts_since = self.now;
        consistency::check(self);
    }

    /// The server dies between two turns.
    pub fn crash(&mut self) {
        self.restart(true);
    }

    /// Asks for one thing and returns the answer.
    pub fn ask(&mut self, input: Input) -> Result<Reply, Rejection> {
        self.turn(vec![input], Crash::No).unwrap().remove(0)
    }

    /// Asks for one thing that is expected to be done.
    pub fn tell(&mut self, input: Input) -> Reply {
        self.ask(input).unwrap()
    }

    /// Lets time pass up to `seconds` from zero, stopping at each instant at which something
    /// comes up. Goes on until nothing more is to be done then.
    pub fn until(&mut self, seconds: i64) {
        self.until_time(t(seconds));
    }

    /// Lets time pass up to an instant.
    pub fn until_time(&mut self, target: Time) {
        loop {
            let reported = self.coming.iter().map(|(at, _)| *at).min();
            let wake = [self.agenda.next_wake(), reported].into_iter().flatten().min();
            match wake {
                Some(wake) if wake <= target => self.now = self.now.max(wake),
                _ => break,
            }
            self.settle();
        }
        self.now = self.now.max(target);
        self.settle();
    }

    /// Turns until nothing more happens now.
    pub fn settle(&mut self) {
        for _ in 0..10_000 {
            let inputs = self.due_reports();
            let quiet = inputs.is_empty();
            let starts = self.starts.len();
            let before = self.store.version;
            self.turn(inputs, Crash::No);
            let idle = self.store.version == before && self.starts.len() == starts;
            let due = self.agenda.next_wake().is_some_and(|wake| wake <= self.now)
                && self.agenda.earliest(self.now) <= self.now
                && !self.agenda.is_empty()
                && self.store.first_due().is_some_and(|first| first <= self.now);
            if quiet && idle && !due {
                return;
            }
        }
        panic!("the world does not come to rest at {}", self.now);
    }

    /// The clock stands still and the server is down until then.
    pub fn down_until(&mut self, seconds: i64) {
        self.now = t(seconds);
        self.restart(true);
        self.settle();
    }

    fn due_reports(&mut self) -> Vec<Input> {
        let now = self.now;
        let mut due: Vec<(Time, Input)> = Vec::new();
        let mut later = Vec::new();
        for report in std::mem::take(&mut self.coming) {
            if report.0 <= now { due.push(report) } else { later.push(report) }
        }
        self.coming = later;
        due.sort_by_key(|(at, _)| *at);
        for (_, input) in &due {
            self.let_go_of(input);
        }
        due.into_iter().map(|(_, input)| input).collect()
    }
}

/// Workers that run commands from any queue.
fn roster(names: &BTreeSet<String>) -> Roster {
    let offer = Offer { commands: true, ..Offer::default() };
    names.iter().map(|name| (name.as_str().into(), offer.clone(), Demand::MOST)).collect()
}
