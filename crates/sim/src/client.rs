//! Clients: they ask for things by way of any node, and again if they hear nothing.

use std::sync::Arc;
use std::time::Duration;

use bellwether_core::id::{JobId, RunId};
use bellwether_core::turn::{Created, Input, NewJob, Rejection, Reply};
use bellwether_core::waist::Shard;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::chance::Chance;
use crate::jobs::some_job;
use crate::links::Place;
use crate::message::{Answer, ToShard};
use crate::record::Known;
use crate::world::World;

/// How long a client waits for an answer.
const ANSWER: Duration = Duration::from_secs(3);
/// How often it asks for the same.
const TRIES: usize = 6;

/// Somebody who asks for things.
pub struct Client {
    place: Place,
    world: Arc<World>,
    nodes: Vec<Place>,
    chance: Chance,
    keys: u64,
}

impl Client {
    /// A client that knows these nodes.
    pub fn new(world: &Arc<World>, place: Place, nodes: Vec<Place>) -> Client {
        Client { place, world: world.clone(), nodes, chance: world.fork(), keys: 0 }
    }

    /// Asks for one thing after another.
    pub async fn run(mut self) {
        loop {
            let ms = self.chance.between(100, 2_500);
            tokio::time::sleep(Duration::from_millis(ms)).await;
            let known = self.known();
            if known.len() < 4 || (known.len() < 30 && self.chance.one_in(2)) {
                self.create().await;
            } else if let Some(job) = self.chance.of(&known).copied() {
                self.change(job).await;
            }
        }
    }

    fn known(&self) -> Vec<JobId> {
        let record = self.world.record.lock();
        record.jobs.iter().filter(|(_, job)| !job.deleted).map(|(id, _)| *id).collect()
    }

    async fn create(&mut self) {
        self.keys += 1;
        let key = format!("{}-{}", self.place, self.keys);
        let new = some_job(&mut self.chance, key, self.world.now(self.place));
        // What must be done in order is done in one shard.
        let shard = match new.definition.ordering_key.as_str() {
            "" => self.chance.below(u64::from(self.world.shards)) as Shard,
            key => Shard::from(key.as_bytes()[key.len() - 1]) % self.world.shards,
        };
        let actor = "ana".to_owned();
        let NewJob { definition, .. } = new.clone();
        let input = Input::Create { actor, jobs: vec![new] };
        if let Some(Ok(Reply::Created(made))) = self.ask(shard, input).await {
            for created in made {
                match created {
                    Ok(Created { job, .. }) => self.created(job, definition.clone()),
                    Err(error) => self.wrong(format!("a good job is refused: {error:?}")),
                }
            }
        }
    }

    fn created(&self, job: JobId, definition: bellwether_core::record::Definition) {
        self.world.trace.tell(format_args!("{job} is acknowledged"));
        let known = Known { definition, deleted: false };
        if self.world.record.lock().jobs.insert(job, known).is_some() {
            self.wrong(format!("R29: {job} was given out twice"));
        }
    }

    fn wrong(&self, what: String) {
        self.world.record.lock().wrong(what);
    }

    async fn change(&mut self, job: JobId) {
        let (actor, note) = ("ana".to_owned(), String::new());
        let input = match self.chance.below(12) {
            0 => {
                if let Some(known) = self.world.record.lock().jobs.get_mut(&job) {
                    known.deleted = true;
                }
                Input::Delete { actor, job }
            }
            1 | 2 => Input::Pause { actor, job, note },
            3..6 => Input::Resume { actor, job },
            6..9 => Input::Trigger { actor, job },
            9 => Input::Cancel { actor, run: self.some_run(job) },
            _ => {
                let run = self.some_run(job);
                // It may be done as often as it is asked for.
                *self.world.record.lock().asked.entry(run).or_default() += TRIES as u32 * 2;
                Input::Retry { actor, run }
            }
        };
        self.ask(job.shard(), input).await;
    }

    fn some_run(&mut self, job: JobId) -> RunId {
        let record = self.world.record.lock();
        let started: Vec<RunId> = record.starts.keys().filter(|r| r.job == job).copied().collect();
        drop(record);
        self.chance.of(&started).copied().unwrap_or(RunId { job, n: 1 })
    }

    /// Asks until there is an answer, or it has had enough.
    async fn ask(&mut self, shard: Shard, input: Input) -> Option<Result<Reply, Rejection>> {
        for _ in 0..TRIES {
            let (sender, received) = oneshot::channel();
            let node = self.chance.of(&self.nodes).copied()?;
            let answer = self.answer(sender);
            let message = ToShard::Ask(input.clone(), answer);
            self.world.send_to_shard("ask", (self.place, node), shard, message);
            if let Ok(Ok(answer)) = tokio::time::timeout(ANSWER, received).await {
                self.world.record.lock().answers += 1;
                return Some(answer);
            }
        }
        None
    }

    /// Where the answer goes: back over a network.
    fn answer(&self, sender: oneshot::Sender<Result<Reply, Rejection>>) -> Answer {
        let (world, place) = (self.world.clone(), self.place);
        let sender = Arc::new(Mutex::new(Some(sender)));
        Arc::new(move |from, result| {
            let sender = sender.clone();
            world.send("answer", (from, place), move |_| {
                if let Some(sender) = sender.lock().take() {
                    let _ = sender.send(result.clone());
                }
            });
        })
    }
}
