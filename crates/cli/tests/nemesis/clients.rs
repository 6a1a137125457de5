//! Clients that write and read a few jobs, which never run, by way of any node, and write down what they were told.
//! Whether all of that can be true is for `register` to say (R69).
//!
//! After a while other jobs take their place, so that histories stay short however long the test lasts, and a
//! change that was never answered does not haunt it to the end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use bellwether_api::{Job, JobSpec};
use bellwether_client::{Client, ClientError};
use futures::future::join_all;
use parking_lot::Mutex;
use serde_json::json;

use crate::linearizable::Call;
use crate::random::Random;
use crate::register::{self, Change, Seen, Step, Told};
use crate::server::Cluster;

/// For how long each client waits for an answer. Most go on soon, so that somebody asks while a fault lasts. Some wait
/// for longer than a node waits for its own replica.
const PATIENCE: [Duration; 5] = [
    Duration::from_millis(700),
    Duration::from_secs(1),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(8),
];
/// Jobs that are in use at a time: few, so that clients get in one another's way.
const JOBS: u64 = 2;
/// For how long the same jobs are used.
const GENERATION: Duration = Duration::from_secs(20);
/// The longest time between two calls of a client, in milliseconds.
const EVERY: u64 = 40;

/// What a client can ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ask {
    Get,
    Put,
    Post,
    PatchOwner,
    PatchLabel,
    Delete,
}

/// How often it asks for what.
const ASKS: [(Ask, u64); 6] = [
    (Ask::Get, 10),
    (Ask::Put, 3),
    (Ask::Post, 1),
    (Ask::PatchOwner, 2),
    (Ask::PatchLabel, 2),
    (Ask::Delete, 3),
];

impl Ask {
    fn any(random: &mut Random) -> Ask {
        let mut drawn = random.below(ASKS.iter().map(|(_, weight)| weight).sum());
        for (ask, weight) in ASKS {
            if drawn < weight {
                return ask;
            }
            drawn -= weight;
        }
        Ask::Get
    }

    /// What it does if it is done.
    fn change(self, number: u32) -> Change {
        match self {
            Ask::Get => Change::None,
            Ask::Put | Ask::Post => Change::Put(number),
            Ask::PatchOwner => Change::Owner(number),
            Ask::PatchLabel => Change::Label(number),
            Ask::Delete => Change::Delete,
        }
    }

    /// How things must have stood if it was done and nobody said so. Otherwise it has done nothing.
    fn needs(self) -> Told {
        match self {
            Ask::Get | Ask::Put => Told::Nothing,
            Ask::Post => Told::Absent,
            Ask::PatchOwner | Ask::PatchLabel | Ask::Delete => Told::There,
        }
    }

    /// Asks for it. Whether there was no job before, if that is told by the answer, and the job.
    async fn send(
        self,
        client: &Client,
        key: &str,
        number: u32,
    ) -> Result<(Option<bool>, Option<Job>), ClientError> {
        let text = number.to_string();
        Ok(match self {
            Ask::Get => (None, Some(client.job(key).await?)),
            Ask::Put => {
                let put = client.put_job(key, spec(key, &text)).await?;
                (Some(put.new), Some(put.job))
            }
            Ask::Post => {
                let created = client.create_job(spec(key, &text)).await?;
                // That it is there with the same number is no change. Nobody else has that number.
                (created.new.then_some(true), Some(created.job))
            }
            Ask::PatchOwner => {
                let job = client.patch_job(key, &json!({"owner": text})).await?;
                (Some(false), Some(job))
            }
            Ask::PatchLabel => {
                let job = client.patch_job(key, &json!({"labels": {"n": text}})).await?;
                (Some(false), Some(job))
            }
            Ask::Delete => {
                client.delete_job(key).await?;
                (Some(false), None)
            }
        })
    }
}

/// A job with a number in both places. Every other one is stored in compact form until it is changed.
fn spec(key: &str, number: &str) -> JobSpec {
    let once = key.ends_with('0');
    let schedule =
        if once { json!({"at": "2099-01-01T00:00:00Z"}) } else { json!({"every": "1000h"}) };
    let spec = json!({
        "key": key,
        "schedule": schedule,
        "job_type": "bellwether.noop",
        "owner": number,
        "labels": {"n": number},
    });
    serde_json::from_value(spec).unwrap()
}

fn seen(job: &Job) -> Seen {
    let number = |text: Option<&String>| text.and_then(|text| text.parse().ok());
    let (owner, label) = (number(job.spec.owner.as_ref()), number(job.spec.labels.get("n")));
    let (Some(owner), Some(label)) = (owner, label) else { panic!("nobody wrote this: {job:?}") };
    Seen { owner, label, revision: job.info.revision }
}

/// What a client knows of a change that was refused, or not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Failed {
    /// It was not made, because this is how things stood.
    Because(Told),
    /// It was not made.
    Undone,
    /// Nobody knows.
    Unknown,
}

impl Failed {
    /// What an error promises: see `docs/errors.md`.
    fn of(error: &ClientError) -> Failed {
        match error {
            ClientError::Unreachable { .. } => Failed::Undone,
            ClientError::Interrupted { .. } => Failed::Unknown,
            ClientError::Problem(problem) => match &*problem.code {
                "job_not_found" => Failed::Because(Told::Absent),
                "key_exists" | "changed_meanwhile" => Failed::Because(Told::There),
                "no_leader" | "overloaded" | "stopping" | "try_again" => Failed::Undone,
                "outcome_unknown" | "store_failed" => Failed::Unknown,
                _ => panic!("nobody should be told this: {error}"),
            },
            _ => panic!("nobody should be told this: {error}"),
        }
    }
}

/// How much was checked.
#[derive(Debug, Default)]
pub struct Figures {
    /// Jobs.
    pub jobs: usize,
    /// Times that a client was told how a job stands.
    pub looks: usize,
    /// Changes that were acknowledged.
    pub changes: usize,
    /// Changes of which nobody knew whether they were made.
    pub unanswered: usize,
    /// Positions that the search went through.
    pub positions: usize,
}

/// The clients of a cluster, and what they were told of each job.
pub struct Clients<'a> {
    cluster: &'a Cluster,
    over: AtomicBool,
    numbers: AtomicU32,
    histories: Mutex<BTreeMap<String, Vec<Call<Step>>>>,
}

impl<'a> Clients<'a> {
    /// Clients that have not asked for anything yet.
    pub fn new(cluster: &'a Cluster) -> Clients<'a> {
        let (over, numbers) = (AtomicBool::new(false), AtomicU32::new(1));
        Clients { cluster, over, numbers, histories: Mutex::default() }
    }

    /// They ask until told that it is over, as a seed wants it.
    pub async fn keep_asking(&self, seed: u64) {
        let mut random = Random::new(seed);
        let each = PATIENCE.iter().enumerate().map(|(client, patience)| {
            self.ask(client, *patience, Random::new(random.below(1 << 40)))
        });
        join_all(each).await;
    }

    /// No more.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    fn now(&self) -> Duration {
        self.cluster.history.elapsed()
    }

    async fn ask(&self, client: usize, patience: Duration, mut random: Random) {
        let to = |known: &Client| {
            Client::builder().server(known.server()).timeout(patience).build().unwrap()
        };
        let nodes: Vec<Client> = self.cluster.clients.iter().map(to).collect();
        let since = self.now();
        loop {
            random.moment_within(EVERY).await;
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            let generation = (self.now() - since).as_secs() / GENERATION.as_secs();
            let key = format!("register-{generation}-{}", random.below(JOBS));
            let at = random.below(nodes.len() as u64) as usize;
            let ask = Ask::any(&mut random);
            let number = self.numbers.fetch_add(1, Ordering::Relaxed);
            let begun = self.now();
            let answer = ask.send(&nodes[at], &key, number).await;
            let ended = self.now();
            let asked = match ask.change(number) {
                Change::None | Change::Delete => format!("{ask:?}"),
                _ => format!("{ask:?} {number}"),
            };
            let words = format!("{key}, {client} asks {}: {asked}", self.cluster.name(at));
            let calls = calls(ask, number, &answer, (begun, ended), &words);
            self.add(&key, calls);
        }
    }

    /// Adds calls to the history of a job, the second of them behind the first.
    fn add(&self, key: &str, calls: Vec<Call<Step>>) {
        let mut histories = self.histories.lock();
        let history = histories.entry(key.to_owned()).or_default();
        let first = history.len();
        for (n, call) in calls.into_iter().enumerate() {
            history.push(Call { behind: (n > 0).then_some(first), ..call });
        }
    }

    /// Looks at every job once more, now that nothing fails any longer, and checks that what was told of it,
    /// then and before, can be true.
    pub async fn checked(&self) -> Figures {
        let keys: Vec<String> = self.histories.lock().keys().cloned().collect();
        for key in keys {
            let begun = self.now();
            let look = async |client: &Client| match client.job(&key).await {
                Err(error) if error.is_not_found() => Ok(None),
                found => found.map(Some),
            };
            let found = self.cluster.anywhere(&key, look).await;
            let told = found.map_or(Told::Absent, |job| Told::Like(seen(&job)));
            let words = format!("{key}, in the end: {told:?}");
            let step = Step { told, change: Change::None };
            self.add(&key, vec![call(step, begun, Some(self.now()), words)]);
        }
        let mut figures = Figures::default();
        for (key, history) in &*self.histories.lock() {
            match register::check(history) {
                Ok(positions) => figures.positions += positions,
                Err(story) => panic!("R69: {key} is not linearizable: {story}"),
            }
            figures.jobs += 1;
            let (looks, changes): (Vec<_>, Vec<_>) =
                history.iter().partition(|call| call.operation.change == Change::None);
            let told = |call: &&&Call<Step>| call.operation.told != Told::Nothing;
            figures.looks += looks.iter().filter(told).count();
            figures.unanswered += changes.iter().filter(|call| call.ended.is_none()).count();
            figures.changes += changes.iter().filter(|call| call.ended.is_some()).count();
        }
        figures
    }
}

fn call(operation: Step, begun: Duration, ended: Option<Duration>, words: String) -> Call<Step> {
    Call { operation, begun, ended, behind: None, words }
}

/// What is known after an answer, or without one: what was changed, and then what was seen. An answer to a change shows
/// the job as it was after that, perhaps changed once more by others.
fn calls(
    ask: Ask,
    number: u32,
    answer: &Result<(Option<bool>, Option<Job>), ClientError>,
    (begun, ended): (Duration, Duration),
    words: &str,
) -> Vec<Call<Step>> {
    let change = ask.change(number);
    let known = |told, change, words| call(Step { told, change }, begun, Some(ended), words);
    match answer {
        Ok((new, job)) => {
            let changed = new.map(|new| {
                let told = if new { Told::Absent } else { Told::There };
                known(told, change, format!("{words}: done, before it was {told:?}"))
            });
            let looked = job.as_ref().map(|job| {
                let seen = seen(job);
                known(Told::Like(seen), Change::None, format!("{words}: {seen:?}"))
            });
            changed.into_iter().chain(looked).collect()
        }
        Err(error) => match Failed::of(error) {
            Failed::Because(told) => {
                vec![known(told, Change::None, format!("{words}: refused, it is {told:?}"))]
            }
            Failed::Unknown if change != Change::None => {
                let step = Step { told: ask.needs(), change };
                vec![call(step, begun, None, format!("{words}: {error}"))]
            }
            // It says nothing, but whoever wants to know why a check failed looks for it.
            Failed::Undone | Failed::Unknown => {
                vec![known(Told::Nothing, Change::None, format!("{words}: {error}"))]
            }
        },
    }
}
