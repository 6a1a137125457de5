//! One life of a shard.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_core::id::{JobId, RunId};
use bellwether_core::read;
use bellwether_core::settings::Settings;
use bellwether_core::time::{HOUR_MS, Time};
use bellwether_core::turn::{
    BatchInput, Created, Ending, GroupChange, Input, Rejection, Reply, Report, Reported,
};

use crate::pick::Pick;
use crate::world::batches::{batch_id, members};
use crate::world::job::{ANA, Job};
use crate::world::worker::{finished, handed_back, printed, started};
use crate::world::{Crash, Start, World, consistency};
use crate::{ending, promises};

/// What is known from outside about a job that was acknowledged.
pub struct Known {
    pub job: Job,
    pub edited: bool,
}

/// A life: the shard, and what is known about it from outside.
pub struct Life {
    pub world: World,
    pub pick: Pick,
    /// Jobs whose creation is durable and whose deletion is not.
    pub jobs: BTreeMap<JobId, Known>,
    pub deleted: BTreeSet<JobId>,
    /// What really was started, as it happened.
    pub begun: Vec<Start>,
    /// Attempts that are really running now, by run.
    pub alive: BTreeMap<RunId, u64>,
    /// Attempts that have ended, for workers that cannot stop talking.
    pub past: Vec<(RunId, u64)>,
    /// Retries that somebody asked for and got.
    pub asked: BTreeMap<RunId, u32>,
    /// Failures that were reported and accepted.
    pub failed: BTreeMap<RunId, u32>,
    /// Whose turn it is, by ordering key.
    pub current: BTreeMap<Vec<u8>, RunId>,
    /// Whether the clock has ever gone back.
    pub went_back: bool,
    pub crashes: u64,
    /// Whether to tell what happens.
    pub trace: bool,
}

/// What all lives did together: to see that a simulation does anything at all.
#[derive(Debug, Default)]
pub struct Totals {
    pub lives: u64,
    pub jobs: u64,
    pub starts: u64,
    pub crashes: u64,
    pub retried: u64,
    pub ledger_rows: u64,
}

impl Totals {
    pub fn add(&mut self, life: &Totals) {
        self.lives += life.lives;
        self.jobs += life.jobs;
        self.starts += life.starts;
        self.crashes += life.crashes;
        self.retried += life.retried;
        self.ledger_rows += life.ledger_rows;
    }
}

/// Lives one life and checks the promises at its end.
pub fn live(seed: u64, trace: bool) -> Totals {
    let mut pick = Pick::new(seed);
    let settings = Settings { retention_age_ms: 24 * 300 * HOUR_MS, ..Settings::default() };
    let mut world = World::with(settings);
    world.look_always = false;
    world.eager = false;
    world.slots = 1 + pick.below(6) as usize;
    world.due_limit = [1, 3, 1_000][pick.below(3) as usize];
    world.inputs_first = pick.one_in(2);
    let mut life = Life {
        world,
        pick,
        jobs: BTreeMap::new(),
        deleted: BTreeSet::new(),
        begun: Vec::new(),
        alive: BTreeMap::new(),
        past: Vec::new(),
        asked: BTreeMap::new(),
        failed: BTreeMap::new(),
        current: BTreeMap::new(),
        went_back: false,
        crashes: 0,
        trace,
    };
    for step in 0..60 {
        life.pass_time();
        life.step();
        if step % 6 == 0 {
            consistency::check(&life.world);
        }
    }
    consistency::check(&life.world);
    promises::check(&life);
    ending::comes_to_rest(&mut life);
    promises::check(&life);
    let rows = life.jobs.keys().map(|job| life.world.ledger(*job).len() as u64).sum();
    let totals = Totals {
        lives: 1,
        jobs: (life.jobs.len() + life.deleted.len()) as u64,
        starts: life.begun.len() as u64,
        crashes: life.crashes,
        retried: life.asked.values().map(|n| u64::from(*n)).sum(),
        ledger_rows: rows,
    };
    ending::leaves_nothing(&mut life);
    totals
}

impl Life {
    fn pass_time(&mut self) {
        let ms = match self.pick.below(40) {
            0 => 3 * 24 * HOUR_MS,
            1 => 2 * HOUR_MS,
            2..5 => 90_000,
            5..9 => 0,
            9 => {
                self.went_back = true;
                self.world.now = self.world.now.minus_ms(self.pick.below(2_000));
                0
            }
            _ => self.pick.below(6_000),
        };
        self.world.now = self.world.now.plus_ms(ms);
    }

    /// One turn with a few inputs, and perhaps the end of the server in the midst of it.
    fn step(&mut self) {
        if self.pick.one_in(8) {
            let worker = ["w2", "w3"][self.pick.below(2) as usize];
            if !self.world.present.remove(worker) {
                self.world.present.insert(worker.to_owned());
            }
        }
        let mut inputs = Vec::new();
        for _ in 0..self.pick.below(3) {
            inputs.extend(self.wish());
        }
        for _ in 0..self.pick.below(4) {
            inputs.extend(self.say());
        }
        let crash = match self.pick.below(40) {
            0 => Crash::BeforeCommit,
            1 => Crash::AfterCommit,
            2 | 3 => Crash::AfterEffects(self.pick.below(6) as usize),
            _ => Crash::No,
        };
        self.act(inputs, crash);
        if crash == Crash::No && self.pick.one_in(40) {
            self.crashes += 1;
            let worker_dies = self.pick.one_in(2);
            if worker_dies {
                self.alive.clear();
            }
            self.world.restart(worker_dies);
        }
    }

    /// A turn, and what is known from outside after it.
    pub fn act(&mut self, inputs: Vec<Input>, crash: Crash) {
        self.world.turn(inputs.clone(), crash);
        if self.trace && crash != Crash::No {
            println!("{} {crash:?}", self.world.now);
        }
        if crash != Crash::No {
            self.crashes += 1;
            // Handed over just before the end, a worker may have begun; all die with the server.
            self.alive.clear();
            for start in self.world.handed.clone() {
                if self.pick.one_in(2) {
                    self.begun.push(start);
                }
            }
        }
        for (input, reply) in inputs.into_iter().zip(self.world.replies.clone()) {
            if self.trace {
                println!("{} {input:?}\n    -> {reply:?}", self.world.now);
            }
            self.learn(input, &reply);
        }
        promises::check_turns(self);
    }

    fn learn(&mut self, input: Input, reply: &Result<Reply, Rejection>) {
        match (input, reply) {
            (Input::Create { jobs, .. }, Ok(Reply::Created(results))) => {
                for (new, result) in jobs.into_iter().zip(results) {
                    if let Ok(Created { job, new: true }) = result {
                        assert!(!self.jobs.contains_key(job), "ids are given out once (R29)");
                        self.jobs.insert(*job, Known { job: Job(new.definition), edited: false });
                    }
                }
            }
            (Input::Replace { job, definition, .. }, Ok(_)) => {
                if let Some(known) = self.jobs.get_mut(&job) {
                    *known = Known { job: Job(*definition), edited: true };
                }
            }
            (Input::Delete { job, .. }, Ok(_)) => {
                self.jobs.remove(&job);
                self.deleted.insert(job);
            }
            (Input::Batch { batch, .. }, Ok(_)) => {
                for job in self.world.members_of(batch) {
                    if !self.jobs.contains_key(&job) && !self.deleted.contains(&job) {
                        let stored = read::job(&self.world.store, job).expect("readable");
                        let definition = stored.expect("a member exists").definition;
                        self.jobs.insert(job, Known { job: Job(definition), edited: false });
                    }
                }
            }
            (Input::Retry { run, .. }, Ok(_)) => *self.asked.entry(run).or_default() += 1,
            (Input::Report(report), Ok(Reply::Done)) => {
                if let Reported::Finished(finished) = &report.what
                    && finished.how == Ending::Failed
                {
                    *self.failed.entry(report.run).or_default() += 1;
                }
            }
            _ => {}
        }
    }

    /// Something that people ask for.
    fn wish(&mut self) -> Option<Input> {
        let ids: Vec<JobId> = self.jobs.keys().copied().collect();
        let now = self.world.now;
        let actor = ANA.to_owned();
        if ids.len() < 3 || (ids.len() < 9 && self.pick.one_in(4)) {
            let count = 1 + self.pick.below(2);
            let jobs = (0..count).map(|_| self.pick.job(now).request()).collect();
            return Some(Input::Create { actor, jobs });
        }
        let job = *self.pick.of(&ids)?;
        let run = RunId { job, n: 1 + self.pick.below(4) as u32 };
        let until = self.pick.one_in(2).then(|| now.plus_ms(self.pick.below(60_000)));
        let note = String::new();
        Some(match self.pick.below(15) {
            0 => Input::Delete { actor, job },
            1 => Input::Pause { actor, job, note },
            2 | 3 => Input::Resume { actor, job },
            4 => Input::Maintenance { actor, job, until, note },
            5 | 6 => Input::Trigger { actor, job },
            7 => Input::Cancel { actor, run },
            8 | 9 => Input::Retry { actor, run: self.some_run().unwrap_or(run) },
            10 => self.edit(job),
            11 => Input::Prune,
            12 => self.batch(),
            _ => {
                let change = match self.pick.below(4) {
                    0 => GroupChange::Pause { note },
                    1 => GroupChange::Maintenance { until, note },
                    _ => GroupChange::Resume,
                };
                let group = ["g1", "g2"][self.pick.below(2) as usize].to_owned();
                Input::Group { actor, namespace: "default".to_owned(), group, change }
            }
        })
    }

    /// Members of one of two batches, some of them asked for again; now and then one is canceled.
    fn batch(&mut self) -> Input {
        let batch = batch_id(1 + self.pick.below(2) as u16);
        if self.pick.one_in(4) {
            let input = Box::new(BatchInput::CancelMembers { actor: ANA.to_owned() });
            return Input::Batch { batch, input };
        }
        let chunk = self.pick.below(4) as u32;
        let count = 1 + self.pick.below(3);
        let jobs = (0..count).map(|_| self.pick.member()).collect();
        members(batch, chunk, jobs)
    }

    fn some_run(&mut self) -> Option<RunId> {
        let begun: Vec<RunId> = self.begun.iter().map(|start| start.run).collect();
        self.pick.of(&begun).copied()
    }

    fn edit(&mut self, job: JobId) -> Input {
        let now = self.world.now;
        let mut by = self.jobs[&job].job.clone();
        if self.pick.one_in(2) {
            by = self.pick.scheduled(by.without_schedule(), now);
        } else {
            by = self.pick.with_policies(by);
        }
        if self.pick.one_in(4) {
            by = by.group("g2");
        }
        let enabled = [None, Some(true), Some(false)][self.pick.below(3) as usize];
        let hash = by.hash();
        let definition = Box::new(by.0);
        Input::Replace {
            actor: ANA.to_owned(),
            job,
            definition,
            hash,
            enabled,
            expected_revision: None,
        }
    }

    /// Something that a worker does or says.
    fn say(&mut self) -> Option<Input> {
        let now = self.world.now;
        if self.pick.one_in(6)
            && let Some((run, token)) = self.pick.of(&self.past).copied()
        {
            // It has said so before, or it was written off long ago.
            if self.pick.one_in(4) {
                let detail = "noticed late".to_owned();
                return Some(Input::Lost { run, token, detail });
            }
            let how = [Ending::Succeeded, Ending::Failed][self.pick.below(2) as usize];
            return Some(finished(run, token, now, how));
        }
        let runs = self.world.with_workers();
        let run = *self.pick.of(&runs)?;
        let token = self.world.running[&run].token;
        if self.alive.get(&run) != Some(&token) {
            if self.pick.one_in(6) {
                self.world.running.remove(&run);
                self.past.push((run, token));
                return Some(handed_back(run, token));
            }
            self.begin(run);
            return self.pick.one_in(2).then(|| started(run, token, now));
        }
        let how = match self.pick.below(16) {
            0..6 => Ending::Succeeded,
            6..9 => Ending::Failed,
            9 => Ending::FailedForGood,
            10 => Ending::Canceled,
            11 => Ending::Interrupted,
            12 => return Some(printed(run, token, self.pick.below(3) as u32, "hello")),
            13 => {
                // It dies, and after a while somebody notices.
                self.gone(run, token);
                let detail = "no heartbeat".to_owned();
                return Some(Input::Lost { run, token, detail });
            }
            14 => {
                let token = token.wrapping_add(self.pick.below(3)).wrapping_sub(2);
                let what = Reported::HandedBack;
                return Some(Input::Report(Report { run, token: token | 1 << 60, what }));
            }
            _ => return None,
        };
        self.gone(run, token);
        Some(finished(run, token, now, how))
    }

    fn gone(&mut self, run: RunId, token: u64) {
        self.world.running.remove(&run);
        self.alive.remove(&run);
        self.past.push((run, token));
    }

    /// A worker really starts an attempt: from here on it has happened, whatever is recorded.
    pub fn begin(&mut self, run: RunId) {
        let start = self.world.running[&run].clone();
        promises::check_start(self, &start);
        self.alive.insert(run, start.token);
        self.begun.push(Start { at: self.world.now, ..start });
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.world.now
    }
}
