//! Jobs in a line or two, and what people ask about them.

use bellwether_core::backoff::default_retry;
use bellwether_core::id::{JobId, RunId};
use bellwether_core::key;
use bellwether_core::record::{
    self, CommandTarget, Definition, Delivery, JobRow, Misfire, MisfirePolicy, OnFailure, Overlap,
    OverlapPolicy, Retention, Retry, Rule, RuleForm, Schedule, Target, TargetWorkers,
};
use bellwether_core::time::{Time, parse_duration_ms};
use bellwether_core::turn::{Created, GroupChange, Input, NewJob, Rejection, Reply};
use bellwether_core::waist::{Family, Op};
use bytes::Bytes;

use super::World;

/// Builds a definition.
#[derive(Clone, Debug)]
pub struct Job(pub Definition);

/// A job that does something, without a schedule yet.
pub fn job() -> Job {
    let target = CommandTarget { line: "true".to_owned(), ..CommandTarget::default() };
    Job(Definition {
        target: Some(Target::Command(target)),
        schedule: Some(Schedule::default()),
        ..Definition::default()
    })
}

fn ms(text: &str) -> u64 {
    parse_duration_ms(text).unwrap()
}

impl Job {
    fn with(mut self, change: impl FnOnce(&mut Definition)) -> Job {
        change(&mut self.0);
        self
    }

    fn schedule(mut self, change: impl FnOnce(&mut Schedule)) -> Job {
        change(self.0.schedule.get_or_insert_default());
        self
    }

    fn rule(self, form: RuleForm) -> Job {
        self.schedule(|schedule| schedule.any.push(Rule { form: Some(form) }))
    }

    pub fn at(self, time: Time) -> Job {
        self.rule(RuleForm::AtMs(time.0))
    }

    pub fn delay(self, text: &str) -> Job {
        self.rule(RuleForm::DelayMs(ms(text)))
    }

    pub fn cron(self, text: &str) -> Job {
        self.rule(RuleForm::Cron(text.to_owned()))
    }

    pub fn every(self, text: &str) -> Job {
        self.rule(RuleForm::EveryMs(ms(text)))
    }

    pub fn every_after_finish(self, text: &str) -> Job {
        self.rule(RuleForm::EveryAfterFinishMs(ms(text)))
    }

    pub fn max_runs(self, max: u32) -> Job {
        self.schedule(|schedule| schedule.max_runs = max)
    }

    pub fn start(self, time: Time) -> Job {
        self.schedule(|schedule| schedule.start_ms = Some(time.0))
    }

    pub fn ends(self, time: Time) -> Job {
        self.schedule(|schedule| schedule.end_ms = Some(time.0))
    }

    pub fn jitter(self, text: &str) -> Job {
        self.schedule(|schedule| schedule.jitter_ms = ms(text))
    }

    pub fn without_schedule(self) -> Job {
        self.schedule(|schedule| *schedule = Schedule::default())
    }

    pub fn key(self, key: &str) -> Job {
        self.with(|d| d.key = key.to_owned())
    }

    pub fn namespace(self, name: &str) -> Job {
        self.with(|d| d.namespace = name.to_owned())
    }

    pub fn group(self, group: &str) -> Job {
        self.with(|d| d.group = group.to_owned())
    }

    pub fn owner(self, owner: &str) -> Job {
        self.with(|d| d.owner = owner.to_owned())
    }

    pub fn label(self, name: &str, value: &str) -> Job {
        self.with(|d| {
            d.labels.insert(name.to_owned(), value.to_owned());
        })
    }

    pub fn about(self, text: &str) -> Job {
        self.with(|d| d.description = text.to_owned())
    }

    pub fn queue(self, queue: &str) -> Job {
        self.with(|d| d.queue = queue.to_owned())
    }

    pub fn on_all_workers(self) -> Job {
        self.with(|d| d.target_workers = TargetWorkers::All as i32)
    }

    pub fn priority(self, priority: i32) -> Job {
        self.with(|d| d.priority = priority)
    }

    /// Retries without jitter: 1 s, 2 s, 4 s, …
    pub fn retries(self, max: u32) -> Job {
        self.with(|d| d.retry = Some(Retry { jitter: 0.0, ..default_retry(max) }))
    }

    pub fn delivery(self, delivery: Delivery) -> Job {
        self.with(|d| d.delivery = delivery as i32)
    }

    pub fn at_most_once(self) -> Job {
        self.delivery(Delivery::AtMostOnce)
    }

    pub fn at_least_once(self) -> Job {
        self.delivery(Delivery::AtLeastOnce)
    }

    pub fn misfire(self, policy: MisfirePolicy, window: Option<&str>, max: u32) -> Job {
        let window_ms = window.map(ms);
        self.with(|d| d.misfire = Some(Misfire { policy: policy as i32, window_ms, max }))
    }

    pub fn overlap(self, policy: OverlapPolicy, max: u32) -> Job {
        self.with(|d| d.overlap = Some(Overlap { policy: policy as i32, max }))
    }

    pub fn ordering(self, key: &str) -> Job {
        self.with(|d| d.ordering_key = key.to_owned())
    }

    pub fn on_failure(self, on_failure: OnFailure) -> Job {
        self.with(|d| d.on_failure = on_failure as i32)
    }

    pub fn expires(self, text: &str) -> Job {
        self.with(|d| d.expires_after_ms = ms(text))
    }

    pub fn retention(self, runs: u32, age: &str) -> Job {
        self.with(|d| d.retention = Some(Retention { runs, age_ms: ms(age) }))
    }

    pub fn disabled(self) -> Job {
        self.with(|d| d.disabled = true)
    }

    /// The request that creates it.
    pub fn request(&self) -> NewJob {
        NewJob { definition: self.0.clone(), hash: self.hash(), reserved: None }
    }

    pub fn hash(&self) -> Bytes {
        record::encode(&self.0)
    }
}

/// Who asks in these tests.
pub const ANA: &str = "ana";

fn ana() -> String {
    ANA.to_owned()
}

impl World {
    /// Creates a job, or says why not.
    pub fn try_add(&mut self, job: &Job) -> Result<Created, Rejection> {
        self.try_create(job.request())
    }

    pub fn try_create(&mut self, job: NewJob) -> Result<Created, Rejection> {
        match self.tell(Input::Create { actor: ana(), jobs: vec![job] }) {
            Reply::Created(mut results) => results.remove(0),
            other => panic!("{other:?}"),
        }
    }

    /// Creates a job.
    pub fn add(&mut self, job: Job) -> JobId {
        let created = self.try_add(&job).unwrap();
        assert!(created.new);
        created.job
    }

    pub fn delete(&mut self, job: JobId) {
        self.tell(Input::Delete { actor: ana(), job });
        self.settle();
    }

    pub fn pause(&mut self, job: JobId) {
        self.tell(Input::Pause { actor: ana(), job, note: String::new() });
    }

    pub fn resume(&mut self, job: JobId) {
        self.tell(Input::Resume { actor: ana(), job });
        self.settle();
    }

    pub fn maintenance(&mut self, job: JobId, until: Option<Time>) {
        self.tell(Input::Maintenance { actor: ana(), job, until, note: String::new() });
    }

    pub fn group(&mut self, group: &str, change: GroupChange) {
        let (namespace, group) = ("default".to_owned(), group.to_owned());
        self.tell(Input::Group { actor: ana(), namespace, group, change });
        self.settle();
    }

    pub fn pause_group(&mut self, group: &str) {
        self.group(group, GroupChange::Pause { note: String::new() });
    }

    pub fn try_trigger(&mut self, job: JobId) -> Result<RunId, Rejection> {
        let reply = self.ask(Input::Trigger { actor: ana(), job });
        self.settle();
        reply.map(run_of)
    }

    pub fn trigger(&mut self, job: JobId) -> RunId {
        self.try_trigger(job).unwrap()
    }

    pub fn try_cancel(&mut self, run: RunId) -> Result<RunId, Rejection> {
        let reply = self.ask(Input::Cancel { actor: ana(), run });
        self.settle();
        reply.map(run_of)
    }

    pub fn cancel(&mut self, run: RunId) {
        self.try_cancel(run).unwrap();
    }

    pub fn try_retry(&mut self, run: RunId) -> Result<RunId, Rejection> {
        let reply = self.ask(Input::Retry { actor: ana(), run });
        self.settle();
        reply.map(run_of)
    }

    pub fn retry(&mut self, run: RunId) {
        self.try_retry(run).unwrap();
    }

    pub fn try_replace(
        &mut self,
        job: JobId,
        by: &Job,
        enabled: Option<bool>,
    ) -> Result<Reply, Rejection> {
        let reply = self.ask(Input::Replace {
            actor: ana(),
            job,
            definition: Box::new(by.0.clone()),
            hash: by.hash(),
            enabled,
            expected_revision: None,
        });
        self.settle();
        reply
    }

    pub fn replace(&mut self, job: JobId, by: &Job) {
        self.try_replace(job, by, None).unwrap();
    }

    /// The server is stopped, and the next version's zone database lacks the zone of a job, which
    /// is shown by giving it one that no database has. `UTC` brings it back.
    pub fn rename_zone(&mut self, job: JobId, zone: &str) {
        let key = key::job(job);
        let mut row: JobRow = self.store.read(Family::Job, &key).unwrap();
        let mut definition: Definition =
            record::decode("definition", row.definition.clone()).unwrap();
        definition.schedule.get_or_insert_default().timezone = zone.to_owned();
        row.definition = record::encode(&definition);
        let value = record::encode(&row);
        self.store.commit(&[Op::Put { family: Family::Job, key, value }]);
        self.restart(true);
    }

    /// Removes what is older than its retention.
    pub fn prune(&mut self) {
        for _ in 0..1_000 {
            if self.tell(Input::Prune) == Reply::More(false) {
                return;
            }
        }
        panic!("pruning does not come to an end");
    }
}

fn run_of(reply: Reply) -> RunId {
    match reply {
        Reply::Run(run) => run,
        other => panic!("{other:?}"),
    }
}

/// The n-th run of a job.
pub fn run(job: JobId, n: u32) -> RunId {
    RunId { job, n }
}
