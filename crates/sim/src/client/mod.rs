//! Clients: they ask for things by way of any node, and again if they hear nothing.

mod batch;
mod change;

use std::sync::Arc;
use std::time::Duration;

use bellwether_core::id::JobId;
use bellwether_core::record::Definition;
use bellwether_core::turn::{Created, Input, NewJob, Rejection, Reply};
use bellwether_core::waist::Shard;

use crate::chance::Chance;
use crate::jobs::some_job;
use crate::links::Place;
use crate::message::{ToShard, answer};
use crate::record::{Known, Record};
use crate::world::World;

/// How long a client waits for an answer.
const ANSWER: Duration = Duration::from_secs(3);
/// How often it asks for the same.
const TRIES: usize = 6;

/// Somebody who asks for things.
pub struct Client {
    place: Place,
    world: Arc<World>,
    chance: Chance,
    keys: u64,
}

impl Client {
    /// A client.
    pub fn new(world: &Arc<World>, place: Place) -> Client {
        Client { place, world: world.clone(), chance: world.fork(), keys: 0 }
    }

    /// Asks for one thing after another.
    pub async fn run(mut self) {
        loop {
            let ms = self.chance.between(100, 2_500);
            tokio::time::sleep(Duration::from_millis(ms)).await;
            let known = self.known();
            if known.len() < 4 || (known.len() < 30 && self.chance.one_in(2)) {
                self.create().await;
            } else if self.chance.one_in(8) {
                self.batch(&known).await;
            } else if self.chance.one_in(10) {
                self.switch_group().await;
            } else if let Some(job) = self.chance.of(&known).copied() {
                self.change(job).await;
            }
        }
    }

    fn record<T>(&self, work: impl FnOnce(&mut Record) -> T) -> T {
        work(&mut self.world.record.lock())
    }

    fn known(&self) -> Vec<JobId> {
        self.record(|record| {
            record.jobs.iter().filter(|(_, job)| !job.deleted).map(|(id, _)| *id).collect()
        })
    }

    fn some_shard(&mut self) -> Shard {
        self.chance.below(u64::from(self.world.shards)) as Shard
    }

    /// A name that nobody else uses.
    fn fresh_name(&mut self) -> String {
        self.keys += 1;
        format!("{}-{}", self.place, self.keys)
    }

    async fn create(&mut self) {
        let key = self.fresh_name();
        let new = some_job(&mut self.chance, key, self.world.now(self.place));
        // What must be done in order is done in one shard.
        let shard = match new.definition.ordering_key.as_str() {
            "" => self.some_shard(),
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

    fn created(&self, job: JobId, definition: Definition) {
        self.world.trace.tell(format_args!("{job} is acknowledged"));
        self.world.saw("a job was created");
        let known = Known { definition, deleted: false };
        if self.record(|record| record.jobs.insert(job, known)).is_some() {
            self.wrong(format!("R29: {job} was given out twice"));
        }
    }

    fn wrong(&self, what: String) {
        self.record(|record| record.wrong(what));
    }

    /// Asks until there is an answer, or it has had enough.
    async fn ask(&mut self, shard: Shard, input: Input) -> Option<Result<Reply, Rejection>> {
        for _ in 0..TRIES {
            let node = self.chance.of(&self.world.places()).copied()?;
            let (answer, received) = answer(&self.world, self.place);
            let message = ToShard::Ask(input.clone(), answer);
            self.world.send_to_shard("ask", (self.place, node), shard, message);
            if let Ok(Ok(answer)) = tokio::time::timeout(ANSWER, received).await {
                self.record(|record| record.answers += 1);
                return Some(answer);
            }
        }
        None
    }
}
