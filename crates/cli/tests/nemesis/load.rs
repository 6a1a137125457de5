//! What the cluster is asked to do, and what it has promised.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bellwether_api::PauseRequest;
use futures::future::join_all;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::random::Random;
use crate::record::Record;
use crate::server::{Cluster, until};

/// Clients that create one-off jobs.
const CLIENTS: u64 = 3;
/// Ordering keys, each with a client of its own.
pub const ORDERING_KEYS: u64 = 2;
/// What an ordered command takes, in seconds.
const ORDERED_TAKES: f64 = 0.2;
/// What a long command takes: longer than it takes until what a silent worker had is given to another.
pub const LONG_TAKES: Duration = Duration::from_secs(12);
/// The longest time between two jobs with long commands, in milliseconds.
const LONG_EVERY: u64 = 3_000;
/// How soon ordered jobs are due.
const ORDERED_DUE: Duration = Duration::from_millis(300);

/// What a job was promised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// At most once.
    AtMostOnce,
    /// At least once.
    AtLeastOnce,
    /// At most once, one after the other.
    Ordered,
}

/// A job that was asked for.
#[derive(Clone, Debug)]
pub struct Promise {
    /// Its key.
    pub key: String,
    /// What it was promised.
    pub kind: Kind,
    /// Its id, if it was acknowledged. Otherwise nobody knows whether it is there.
    pub id: Option<String>,
}

/// A job that ticks.
#[derive(Clone, Debug)]
pub struct Recurring {
    /// Its key.
    pub key: String,
    /// Its id.
    pub id: String,
    /// The time between two ticks.
    pub period: Duration,
    /// The shard that it is in.
    pub shard: u16,
    /// When it was acknowledged, or later.
    pub since: Timestamp,
}

/// What the cluster is asked to do.
pub struct Load<'a> {
    cluster: &'a Cluster,
    record: &'a Record,
    over: AtomicBool,
    stopped: OnceLock<Timestamp>,
    /// One-off jobs.
    pub promises: Mutex<Vec<Promise>>,
    /// Jobs that tick.
    pub recurring: Vec<Recurring>,
}

impl<'a> Load<'a> {
    /// Nothing yet.
    pub fn new(cluster: &'a Cluster, record: &'a Record) -> Load<'a> {
        let (promises, recurring) = (Mutex::default(), Vec::new());
        let (over, stopped) = (AtomicBool::new(false), OnceLock::new());
        Load { cluster, record, over, stopped, promises, recurring }
    }

    /// Adds jobs that tick, on all shards as far as chance wants it: periods and cron, commands and
    /// requests, one at a time and not.
    pub async fn add_recurring(&mut self, count: usize) {
        for n in 0..count {
            let key = format!("tick-{n}");
            let (schedule, period) = match n % 3 {
                2 => (json!({"cron": "*/2 * * * * *"}), 2),
                _ => (json!({"every": "1s"}), 1),
            };
            let mut spec = json!({
                "key": key,
                "schedule": schedule,
                "overlap": if n % 2 == 0 { "skip" } else { "allow" },
                "delivery": "at_most_once",
                "retention": {"runs": 100_000},
            });
            match n % 3 {
                1 => spec["http"] = json!({"url": self.record.url()}),
                _ => spec["command"] = self.record.command(0.0).into(),
            }
            let created = self.cluster.anywhere("a recurring job", async |client| {
                client.create_job(serde_json::from_value(spec.clone()).unwrap()).await
            });
            let info = created.await.job.info;
            let (id, shard, period) = (info.id, info.shard, Duration::from_secs(period));
            let since = Timestamp::now();
            self.recurring.push(Recurring { key, id, period, shard, since });
        }
    }

    /// The node that leads the shard of a job.
    pub async fn leader_of(&self, job: &Recurring) -> usize {
        let mut leader = None;
        until(&format!("somebody leads {job:?}"), async || {
            let now =
                self.cluster.anywhere("who leads", async |client| client.cluster().await).await;
            let shard = now.shards.iter().find(|shard| shard.shard == job.shard).unwrap();
            let name = shard.leader.as_deref();
            leader = (0..self.cluster.len()).find(|at| Some(self.cluster.name(*at)) == name);
            leader.is_some()
        })
        .await;
        leader.unwrap()
    }

    /// The jobs that tick in shards of which most replicas are not at some nodes, with the terms of
    /// their leaders: those that these nodes lead, if there are any.
    pub async fn to_go_on_without(&self, some: &[usize]) -> BTreeMap<String, u64> {
        let now = self.cluster.anywhere("who leads", async |client| client.cluster().await).await;
        let some: Vec<&str> = some.iter().map(|at| self.cluster.name(*at)).collect();
        let (mut led, mut others) = (BTreeMap::new(), BTreeMap::new());
        for job in &self.recurring {
            let shard = now.shards.iter().find(|shard| shard.shard == job.shard).unwrap();
            let lost = shard.voters.iter().filter(|name| some.contains(&&***name)).count();
            if 2 * lost >= shard.voters.len() {
                continue;
            }
            match shard.leader.as_ref().is_some_and(|leader| some.contains(&&**leader)) {
                true => led.insert(job.key.clone(), shard.term),
                false => others.insert(job.key.clone(), 0),
            };
        }
        if led.is_empty() { others } else { led }
    }

    /// Creates jobs until told that it is over.
    pub async fn keep_creating(&self, random: &mut Random) {
        let long = self.create_long(Random::new(random.below(1 << 40)));
        futures::join!(self.keep_creating_brief(random), long);
    }

    /// Creates jobs that take no longer than a node that is stopped waits for them, until told that it is over.
    pub async fn keep_creating_brief(&self, random: &mut Random) {
        let clients: Vec<_> =
            (0..CLIENTS).map(|n| (n, Random::new(random.below(1 << 40)))).collect();
        let lines: Vec<_> =
            (0..ORDERING_KEYS).map(|n| (n, Random::new(random.below(1 << 40)))).collect();
        let clients = clients.into_iter().map(|(n, random)| self.create(n, random));
        let lines = lines.into_iter().map(|(n, random)| self.create_in_order(n, random));
        futures::join!(join_all(clients), join_all(lines));
    }

    /// No more jobs.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Creates jobs that have nothing to do with one another. Some are given up when there is no answer.
    async fn create(&self, client: u64, mut random: Random) {
        for n in 0.. {
            random.moment_within(300).await;
            if self.is_over() {
                return;
            }
            let key = format!("c{client}-{n}");
            let kind = if random.below(2) == 0 { Kind::AtMostOnce } else { Kind::AtLeastOnce };
            let mut spec = json!({
                "key": key,
                "schedule": {"delay": format!("{}ms", random.below(1_500))},
            });
            match kind {
                Kind::AtLeastOnce => spec["retry"] = json!({"max": 5, "initial": "200ms"}),
                _ => spec["delivery"] = "at_most_once".into(),
            }
            match random.below(3) {
                0 => spec["http"] = json!({"url": self.record.url()}),
                _ => spec["command"] = self.record.command(0.0).into(),
            }
            let patient = random.below(3) > 0;
            let id = self.submit(&spec, &mut random, patient).await;
            self.promises.lock().push(Promise { key, kind, id });
        }
    }

    /// Creates a few jobs whose commands take long, of both deliveries.
    async fn create_long(&self, mut random: Random) {
        for n in 0.. {
            random.moment_within(LONG_EVERY).await;
            if self.is_over() {
                return;
            }
            let kind = if n % 2 == 0 { Kind::AtLeastOnce } else { Kind::AtMostOnce };
            self.add_long(&format!("long-{n}"), kind, &mut random).await;
        }
    }

    /// Creates a job whose command takes longer than a worker's lease.
    pub async fn add_long(&self, key: &str, kind: Kind, random: &mut Random) {
        let delivery = if kind == Kind::AtLeastOnce { "at_least_once" } else { "at_most_once" };
        let spec = json!({
            "key": key,
            "schedule": {"delay": "0s"},
            "command": self.record.long_command(LONG_TAKES, random.below(2) == 0),
            "delivery": delivery,
        });
        let id = self.submit(&spec, random, true).await;
        self.promises.lock().push(Promise { key: key.to_owned(), kind, id });
    }

    /// Creates the jobs of an ordering key, each after the one before was acknowledged, and due after it.
    async fn create_in_order(&self, line: u64, mut random: Random) {
        let mut due = Timestamp::now();
        for n in 0.. {
            random.moment_within(600).await;
            if self.is_over() {
                return;
            }
            due = (due + Duration::from_millis(1)).max(Timestamp::now() + ORDERED_DUE);
            let key = format!("line{line}-{n}");
            let spec = json!({
                "key": key,
                "schedule": {"at": format!("{due:.3}")},
                "command": self.record.command(ORDERED_TAKES),
                "delivery": "at_most_once",
                "ordering_key": format!("line{line}"),
                "on_failure": "continue",
            });
            let id = self.submit(&spec, &mut random, true).await;
            let kind = Kind::Ordered;
            self.promises.lock().push(Promise { key, kind, id });
        }
    }

    /// Asks nodes for a job until one acknowledges it, or only once. Its id if it was acknowledged.
    async fn submit(&self, spec: &Value, random: &mut Random, patient: bool) -> Option<String> {
        loop {
            let at = random.below(self.cluster.len() as u64) as usize;
            let job = serde_json::from_value(spec.clone()).unwrap();
            match self.cluster.clients[at].create_job(job).await {
                Ok(created) => return Some(created.job.info.id),
                Err(error) => {
                    // Not there, without a leader, or with a disk that is full.
                    let told = error.problem().is_none_or(|problem| {
                        problem.status == 503 || problem.code == "store_failed"
                    });
                    assert!(told, "{}: {error}", spec["key"]);
                }
            }
            if !patient || self.is_over() {
                return None;
            }
            random.moment_within(50).await;
        }
    }

    /// Pauses the jobs that tick, so that their ledgers stand still.
    pub async fn stop_recurring(&self) {
        self.stopped.get_or_init(Timestamp::now);
        for job in &self.recurring {
            let request = PauseRequest::default();
            let paused = self.cluster.anywhere("a job is paused", async |client| {
                client.pause_job(&job.id, &request).await
            });
            paused.await;
        }
    }

    /// When they were paused, or earlier.
    pub fn stopped(&self) -> Timestamp {
        *self.stopped.get().unwrap()
    }
}
