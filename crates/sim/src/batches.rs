//! Seeing to batches, where their home shard is led.
//!
//! What is to be done is `bellwether_core::batch`, the code that a server runs, and so is what shards
//! do about it. What asks them, step by step, is written down once more: the server's `batches`, but
//! that parts are read from the leaders of their shards and not from replicas of this node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bellwether_core::batch::{Step, made_already, members, next_step, shard_of_chunk};
use bellwether_core::id::{BatchId, JobId};
use bellwether_core::read::{self, StoredBatch};
use bellwether_core::record::PartRow;
use bellwether_core::time::Time;
use bellwether_core::turn::{BatchInput, Input, Rejection, Reply};
use bellwether_core::waist::Shard;
use bellwether_raft::runtime::Runtime;
use bellwether_store::{MemoryTables, Tables};
use futures::future::{join_all, try_join_all};
use openraft::AsyncRuntime;
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use crate::chance::Chance;
use crate::links::Place;
use crate::message::{Part, ToShard, answer};
use crate::steer;
use crate::world::World;

/// How long it is waited for an answer.
const ANSWER: Duration = Duration::from_secs(3);
/// How long it is waited before something is tried or looked at again.
const AGAIN: Duration = Duration::from_secs(1);
/// How much longer than a batch its parts are remembered.
const PARTS_LONGER_MS: u64 = 60_000;

/// Whoever sees to the batches of a shard while a node leads it.
pub struct Batches {
    world: Arc<World>,
    node: Place,
    tables: Arc<MemoryTables>,
    open: BTreeMap<BatchId, AbortHandle>,
}

impl Batches {
    /// Nobody yet.
    pub fn new(world: &Arc<World>, node: Place, tables: Arc<MemoryTables>) -> Batches {
        Batches { world: world.clone(), node, tables, open: BTreeMap::new() }
    }

    /// Sees to a batch from now on.
    pub fn see_to(&mut self, id: BatchId) {
        if self.open.get(&id).is_some_and(|task| !task.is_finished()) {
            return;
        }
        let driver = Driver {
            world: self.world.clone(),
            node: self.node,
            tables: self.tables.clone(),
            id,
            chance: Mutex::new(self.world.fork()),
        };
        let task = Runtime::spawn(driver.run());
        self.open.insert(id, task.abort_handle());
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.open.values().for_each(AbortHandle::abort);
    }
}

/// Why a step came to nothing: there was no answer, or it was refused.
struct NotNow;

/// Whoever sees to one batch.
struct Driver {
    world: Arc<World>,
    node: Place,
    tables: Arc<MemoryTables>,
    id: BatchId,
    chance: Mutex<Chance>,
}

impl Driver {
    async fn run(self) {
        loop {
            match self.step().await {
                Ok(true) => {}
                Ok(false) => return,
                Err(NotNow) => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    /// Does what is to be done next. Whether there may be more.
    async fn step(&self) -> Result<bool, NotNow> {
        let found = read::batch(&*self.tables.view(), &[], self.id).map_err(|_| NotNow)?;
        let Some(mut stored) = found else { return Ok(false) };
        stored.parts = self.parts().await?.into_iter().map(|(part, _)| part).collect();
        let now = self.world.now(self.node);
        match next_step(&stored.row, &stored.parts, now) {
            Step::Nothing => return Ok(false),
            Step::Wait(until) => {
                let ms = until.map_or(u64::MAX, |until| until.since_ms(now));
                tokio::time::sleep(AGAIN.min(Duration::from_millis(ms.max(20)))).await;
            }
            Step::Expand { from, to } => self.expand(&stored, from, to).await?,
            Step::Discard => {
                let discard = || BatchInput::Discard { only_if_stale: true };
                self.steps(self.id.shard(), discard).await?;
            }
            Step::Cancel => self.cancel().await?,
            Step::End => self.end(&stored).await?,
            Step::TellParts => self.tell_parts(&stored).await?,
        }
        Ok(true)
    }

    fn shards(&self) -> std::ops::Range<Shard> {
        0..self.world.shards
    }

    /// The way to the leader of a shard: itself, as nodes tell one another who leads; or any node.
    fn way(&self, shard: Shard) -> (Place, Place) {
        let mut chance = self.chance.lock();
        let leader = steer::leader(&self.world, shard).map(|leader| leader.id);
        let any = chance.of(&self.world.places()).copied();
        let to = if chance.one_in(8) { any } else { leader.or(any) };
        (self.node, to.unwrap_or(self.node))
    }

    /// How the batch stands in each shard.
    async fn parts(&self) -> Result<Vec<Part>, NotNow> {
        let asking = self.shards().map(async |shard| {
            let (answer, received) = answer(&self.world, self.node);
            let message = ToShard::Part(self.id, answer);
            self.world.send_to_shard("part", self.way(shard), shard, message);
            let part = tokio::time::timeout(ANSWER, received).await;
            part.map_err(|_| NotNow)?.map_err(|_| NotNow)
        });
        try_join_all(asking).await
    }

    async fn ask(&self, shard: Shard, input: BatchInput) -> Result<Reply, NotNow> {
        self.ask_or_rejected(shard, input).await?.map_err(|_| NotNow)
    }

    async fn ask_or_rejected(
        &self,
        shard: Shard,
        input: BatchInput,
    ) -> Result<Result<Reply, Rejection>, NotNow> {
        let (answer, received) = answer(&self.world, self.node);
        let input = Input::Batch { batch: self.id, input: Box::new(input) };
        let message = ToShard::Ask(input, answer);
        self.world.send_to_shard("ask", self.way(shard), shard, message);
        let answered = tokio::time::timeout(ANSWER, received).await;
        answered.map_err(|_| NotNow)?.map_err(|_| NotNow)
    }

    /// Asks for something that is done in bounded steps until all is done.
    async fn steps(&self, shard: Shard, input: impl Fn() -> BatchInput) -> Result<(), NotNow> {
        while self.ask(shard, input()).await? == Reply::More(true) {}
        Ok(())
    }

    /// Makes jobs of some chunks, one in each shard, all at the same time.
    async fn expand(&self, stored: &StoredBatch, from: u32, to: u32) -> Result<(), NotNow> {
        let view = self.tables.view();
        let mut asked = Vec::new();
        for chunk in from..to {
            let items = read::batch_items(&*view, self.id, chunk).ok().flatten().ok_or(NotNow)?;
            let definitions = members(self.id, &stored.row, items.items).map_err(|_| NotNow)?;
            let shard = shard_of_chunk(self.id, chunk, stored.parts.len()) as Shard;
            asked.push(self.ask(shard, BatchInput::Members { chunk, definitions }));
        }
        for made in join_all(asked).await {
            made?;
        }
        self.ask(self.id.shard(), BatchInput::Expanded { upto: to }).await?;
        Ok(())
    }

    /// Cancels what has been made, and gives up the rest.
    async fn cancel(&self) -> Result<(), NotNow> {
        for shard in self.shards() {
            let actor = "ana".to_owned();
            self.steps(shard, || BatchInput::CancelMembers { actor: actor.clone() }).await?;
        }
        // Now nobody makes any more, and it is known what has been made.
        let (parts, rows): (Vec<PartRow>, Vec<_>) = self.parts().await?.into_iter().unzip();
        let row = rows.into_iter().flatten().next().ok_or(NotNow)?;
        let made = made_already(self.id, &row, &parts);
        self.steps(self.id.shard(), || BatchInput::GiveUp { made: made.clone() }).await
    }

    /// Notes that the batch is over, after triggering what follows it.
    async fn end(&self, stored: &StoredBatch) -> Result<(), NotNow> {
        let mut completion = None;
        if stored.row.on_complete != 0 && stored.row.canceled.is_none() {
            let job = JobId(stored.row.on_complete);
            let complete = BatchInput::Complete { job };
            completion = match self.ask_or_rejected(job.shard(), complete).await? {
                Ok(Reply::Run(run) | Reply::Runs(run, _)) => Some(Ok(run.n)),
                Ok(_) => None,
                Err(rejection) => Some(Err(rejection.message)),
            };
        }
        self.ask(self.id.shard(), BatchInput::End { completion }).await?;
        Ok(())
    }

    /// Says to all shards that the batch is over.
    async fn tell_parts(&self, stored: &StoredBatch) -> Result<(), NotNow> {
        let until = Time(stored.row.forget_ms);
        let keep_ms = until.since_ms(self.world.now(self.node)) + PARTS_LONGER_MS;
        for shard in self.shards() {
            self.ask(shard, BatchInput::PartEnd { keep_ms }).await?;
        }
        self.ask(self.id.shard(), BatchInput::PartsTold).await?;
        Ok(())
    }
}
