//! A worker: a process that talks with nodes, and the attempts that it runs.
//!
//! The process can die while its attempts go on under their supervisors, and the machine can stand
//! still or go down with all of it. Supervisors end attempts whose lease has run out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bellwether_core::id::RunId;
use bellwether_core::turn::{Assignment, Ending, Finished, Report, Reported};
use bellwether_core::waist::{Shard, Term};
use bellwether_raft::runtime::Scope;
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::Instant;

use crate::chance::Chance;
use crate::links::Place;
use crate::message::{Beat, ToShard, ToWorker};
use crate::mutant::Mutant;
use crate::registry::{BEAT, OWN_LEASE};
use crate::steer;
use crate::world::World;

/// How often a worker looks at what it has.
const LOOK: Duration = Duration::from_millis(100);
/// How long it waits for an answer to a report.
const ANSWER: Duration = Duration::from_millis(800);
/// How long it stays with a node by way of which it does not reach the leader of some shard.
const PATIENCE: Duration = Duration::from_secs(3);

/// An attempt that runs.
struct Attempt {
    token: u64,
    ends: Instant,
    how: Ending,
}

/// Something that has yet to be reported.
struct Unreported {
    what: Reported,
    not_before: Instant,
}

/// What is on a worker's machine, whichever process looks after it.
struct Work {
    instance: u64,
    running: BTreeMap<RunId, Attempt>,
    unreported: BTreeMap<(RunId, u64), Unreported>,
    /// The newest token of each run that it was ever given.
    seen: BTreeMap<RunId, u64>,
    /// The newest term of each shard that it has heard of, and when that leader has heard of it.
    leaders: BTreeMap<Shard, (Term, Option<Instant>)>,
    chance: Chance,
}

/// A worker.
pub struct Worker {
    /// Where it is.
    pub place: Place,
    world: Arc<World>,
    slots: usize,
    /// Whether it stays with a node as long as it reaches any leader by way of it.
    loyal: bool,
    work: Arc<Mutex<Work>>,
    machine: Mutex<Arc<Scope>>,
    process: Mutex<Arc<Scope>>,
}

impl Worker {
    /// A worker.
    pub fn start(world: &Arc<World>, place: Place) -> Arc<Worker> {
        let mut chance = world.fork();
        let slots = 4 + chance.below(5) as usize;
        let loyal = chance.one_in(2);
        let work = Work {
            instance: 1,
            running: BTreeMap::new(),
            unreported: BTreeMap::new(),
            seen: BTreeMap::new(),
            leaders: BTreeMap::new(),
            chance,
        };
        let worker = Arc::new(Worker {
            place,
            world: world.clone(),
            slots,
            loyal,
            work: Arc::new(Mutex::new(work)),
            machine: Mutex::new(Scope::new(0)),
            process: Mutex::new(Scope::new(0)),
        });
        worker.machine.lock().spawn(worker.clone().supervise());
        worker.start_process();
        worker
    }

    fn start_process(self: &Arc<Self>) {
        let (sender, inbox) = unbounded_channel();
        self.world.worker_up(self.place, sender);
        let process = Scope::new(0);
        process.spawn(self.clone().talk(inbox));
        *self.process.lock() = process;
    }

    /// Its process dies. With its work, if it is the machine that goes down.
    pub fn die(&self, with_work: bool) {
        self.world.worker_down(self.place);
        self.process.lock().end();
        if with_work {
            self.machine.lock().end();
            let mut work = self.work.lock();
            work.instance += 1;
            work.running.clear();
            work.unreported.clear();
            work.seen.clear();
            work.leaders.clear();
            self.world.record.lock().dies(self.place);
        }
    }

    /// It comes back.
    pub fn come_back(self: &Arc<Self>) {
        let mut machine = self.machine.lock();
        if machine.has_ended() {
            *machine = Scope::new(0);
            machine.spawn(self.clone().supervise());
        }
        drop(machine);
        if self.process.lock().has_ended() {
            self.start_process();
        }
    }

    /// Its machine stands still.
    pub fn pause(&self) {
        self.machine.lock().pause();
        self.process.lock().pause();
        self.world.record.lock().stands_still(self.place, true);
    }

    /// Its machine goes on. What has run out of its lease meanwhile ends before it does anything.
    pub fn resume(&self) {
        self.world.record.lock().stands_still(self.place, false);
        self.look();
        self.machine.lock().resume();
        self.process.lock().resume();
    }

    async fn supervise(self: Arc<Self>) {
        loop {
            self.look();
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Ends attempts whose time has come, or whose lease has run out.
    fn look(&self) {
        let now = Instant::now();
        let mut work = self.work.lock();
        let work = &mut *work;
        let over: Vec<(RunId, Ending)> = work
            .running
            .iter()
            .filter_map(|(run, attempt)| {
                if !has_lease(&work.leaders, run.job.shard(), now) {
                    return Some((*run, Ending::Interrupted));
                }
                (attempt.ends <= now).then_some((*run, attempt.how))
            })
            .collect();
        for (run, how) in over {
            work.end(&self.world, run, how);
        }
    }

    /// Talks with nodes.
    async fn talk(self: Arc<Self>, mut inbox: UnboundedReceiver<ToWorker>) {
        let mut home = self.some_node();
        let mut since = Instant::now();
        let mut beat = Instant::now();
        loop {
            let message = tokio::select! {
                biased;
                message = inbox.recv() => message,
                () = tokio::time::sleep(LOOK) => None,
            };
            if let Some(message) = message {
                self.take(message);
            }
            if since.elapsed() > PATIENCE && self.misses_a_leader() {
                home = self.some_node();
                since = Instant::now();
            }
            if beat <= Instant::now() {
                beat = Instant::now() + BEAT;
                self.beat(home);
            }
            self.report(home);
        }
    }

    /// Whether leaders have not said for long that they have heard: one of them, or all if it is
    /// loyal.
    fn misses_a_leader(&self) -> bool {
        let work = self.work.lock();
        let misses = |shard: Shard| {
            let heard = work.leaders.get(&shard).and_then(|leader| leader.1);
            heard.is_none_or(|heard| heard.elapsed() > PATIENCE)
        };
        let mut shards = 0..self.world.shards;
        if self.loyal { shards.all(misses) } else { shards.any(misses) }
    }

    /// Any node; one that leads, if it is loyal, more often than not.
    fn some_node(&self) -> Place {
        let shard = self.work.lock().chance.below(u64::from(self.world.shards) * 2) as Shard;
        if self.loyal
            && shard < self.world.shards
            && let Some(leader) = steer::leader(&self.world, shard)
        {
            return leader.id;
        }
        self.work.lock().chance.of(&self.world.places()).copied().unwrap_or(1)
    }

    /// Tells the leaders of all shards that it is there, and what it has.
    fn beat(&self, home: Place) {
        let work = self.work.lock();
        for shard in 0..self.world.shards {
            let running = work.running.iter().map(|(run, attempt)| (*run, attempt.token));
            let all = running.chain(work.unreported.keys().copied());
            let beat = Beat {
                worker: self.place,
                instance: work.instance,
                sent: Instant::now(),
                fence: work.leaders.get(&shard).map_or(0, |leader| leader.0),
                has: all.filter(|(run, _)| run.job.shard() == shard).collect(),
                slots: self.slots,
            };
            let message = ToShard::Beat(beat);
            self.world.send_to_shard("beat", (self.place, home), shard, message);
        }
    }

    /// Reports what has yet to be, by way of any node.
    fn report(&self, home: Place) {
        let now = Instant::now();
        let mut work = self.work.lock();
        let Work { unreported, chance, .. } = &mut *work;
        for ((run, token), waiting) in unreported {
            if waiting.not_before > now {
                continue;
            }
            waiting.not_before = now + ANSWER;
            let node = chance.one_in(4).then(|| chance.of(&self.world.places()).copied()).flatten();
            let report = Report { run: *run, token: *token, what: waiting.what.clone() };
            let message = ToShard::Reports(self.place, vec![report]);
            let way = (self.place, node.unwrap_or(home));
            self.world.send_to_shard("report", way, run.job.shard(), message);
        }
    }

    fn take(&self, message: ToWorker) {
        let mut work = self.work.lock();
        match message {
            ToWorker::Heard { shard, term, sent } => {
                let leader = work.leaders.entry(shard).or_insert((term, None));
                if term > leader.0 {
                    *leader = (term, None);
                }
                if term == leader.0 {
                    leader.1 = leader.1.max(Some(sent));
                }
            }
            ToWorker::Stored(reports) => {
                for report in reports {
                    work.unreported.remove(&report);
                }
            }
            ToWorker::Stop(run, token) => {
                if work.running.get(&run).is_some_and(|attempt| attempt.token == token) {
                    work.end(&self.world, run, Ending::Canceled);
                }
            }
            ToWorker::Run { assignment, instance, term } if instance == work.instance => {
                work.run(&self.world, self.place, self.slots, *assignment, term);
            }
            ToWorker::Run { .. } => {} // For a process that is no more.
        }
    }
}

fn has_lease(
    leaders: &BTreeMap<Shard, (Term, Option<Instant>)>,
    shard: Shard,
    now: Instant,
) -> bool {
    let heard = leaders.get(&shard).and_then(|leader| leader.1);
    heard.is_some_and(|heard| now.duration_since(heard) <= OWN_LEASE)
}

impl Work {
    /// Runs something, unless it is too late or there is no room for it.
    fn run(
        &mut self,
        world: &Arc<World>,
        place: Place,
        slots: usize,
        start: Assignment,
        term: Term,
    ) {
        let (run, token, shard) = (start.run, start.token, start.run.job.shard());
        let newest = self.leaders.get(&shard).map_or(0, |leader| leader.0);
        let void = term < newest && world.mutant != Some(Mutant::ForgetWorkersFence);
        if void || self.seen.get(&run).is_some_and(|seen| *seen >= token) {
            return;
        }
        self.seen.insert(run, token);
        let now = Instant::now();
        let full = self.running.len() >= slots || self.running.contains_key(&run);
        if full || !has_lease(&self.leaders, shard, now) {
            world.trace.tell(format_args!("worker {place} hands {run} under {token:x} back"));
            let waiting = Unreported { what: Reported::HandedBack, not_before: now };
            self.unreported.insert((run, token), waiting);
            return;
        }
        let ms = match self.chance.below(10) {
            0..5 if world.long_work => self.chance.between(8_000, 24_000),
            0 => self.chance.between(5_000, 15_000),
            1..4 => self.chance.between(1_000, 5_000),
            _ => self.chance.between(10, 1_000),
        };
        let how = match self.chance.below(12) {
            0 | 1 => Ending::Failed,
            2 => Ending::FailedForGood,
            _ => Ending::Succeeded,
        };
        world.trace.tell(format_args!(
            "worker {place} starts {run}, attempt {} under {token:x}",
            start.attempt
        ));
        world.record.lock().begins(place, &start);
        self.running.insert(run, Attempt { token, ends: now + Duration::from_millis(ms), how });
    }

    /// An attempt is over.
    fn end(&mut self, world: &Arc<World>, run: RunId, how: Ending) {
        let Some(Attempt { token, .. }) = self.running.remove(&run) else { return };
        let failed = matches!(how, Ending::Failed | Ending::FailedForGood);
        world.trace.tell(format_args!("{run} under {token:x} ends: {how:?}"));
        world.record.lock().ends(run, token, failed);
        let now = Instant::now();
        let late = if self.chance.one_in(10) { self.chance.below(6_000) } else { 0 };
        let exit_code = Some(i32::from(failed));
        let finished = Finished { exit_code, ..Finished::at(world.now(0), how) };
        let what = Reported::Finished(Box::new(finished));
        let not_before = now + Duration::from_millis(late);
        self.unreported.insert((run, token), Unreported { what, not_before });
    }
}
