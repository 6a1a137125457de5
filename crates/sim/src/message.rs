//! What nodes, workers and clients say to one another, besides what Raft says.

use std::sync::Arc;

use bellwether_core::id::{BatchId, RunId};
use bellwether_core::record::{BatchRow, PartRow};
use bellwether_core::turn::{Assignment, Input, Rejection, Reply, Report};
use bellwether_core::waist::{Shard, Term};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::links::Place;
use crate::world::World;

/// Where an answer goes. It may be called twice, if the request came twice.
pub type AnswerOf<T> = Arc<dyn Fn(Place, T) + Send + Sync>;
/// The answer to a request.
pub type Answer = AnswerOf<Result<Reply, Rejection>>;

/// An answer that goes back over a network to `place`, and where it arrives.
pub fn answer<T: Clone + Send + Sync + 'static>(
    world: &Arc<World>,
    place: Place,
) -> (AnswerOf<T>, oneshot::Receiver<T>) {
    let (sender, received) = oneshot::channel();
    let (world, sender) = (world.clone(), Arc::new(Mutex::new(Some(sender))));
    let answer = Arc::new(move |from, result: T| {
        let sender = sender.clone();
        world.send("answer", (from, place), move |_| {
            if let Some(sender) = sender.lock().take() {
                let _ = sender.send(result.clone());
            }
        });
    });
    (answer, received)
}

/// For the leader of a shard.
#[derive(Clone)]
pub enum ToShard {
    /// Decide, and answer once it is durable.
    Ask(Input, Answer),
    /// A worker is there.
    Beat(Beat),
    /// What a worker says, and which worker.
    Reports(Place, Vec<Report>),
    /// Say how a batch stands in this shard.
    Part(BatchId, AnswerOf<Part>),
}

/// How a batch stands in a shard; and its record, if it is at home there.
pub type Part = (PartRow, Option<BatchRow>);

/// A sign of life of a worker.
#[derive(Clone, Debug)]
pub struct Beat {
    /// Who.
    pub worker: Place,
    /// Which process of it.
    pub instance: u64,
    /// When it was sent, by the worker's own count.
    pub sent: Instant,
    /// The newest term of the shard that the worker has heard of: it takes nothing older.
    pub fence: Term,
    /// What it runs of the shard, and what it has yet to report about.
    pub has: Vec<(RunId, u64)>,
    /// How much it runs at once.
    pub slots: usize,
}

/// For a worker.
#[derive(Clone)]
pub enum ToWorker {
    /// Run this.
    Run {
        /// What.
        assignment: Box<Assignment>,
        /// The process that was meant.
        instance: u64,
        /// The term in which it was decided.
        term: Term,
    },
    /// Stop this.
    Stop(RunId, u64),
    /// The leader of a shard has heard.
    Heard {
        /// Which shard.
        shard: Shard,
        /// Its term.
        term: Term,
        /// When what it heard was sent.
        sent: Instant,
    },
    /// Reports about these are durable.
    Stored(Vec<(RunId, u64)>),
}
