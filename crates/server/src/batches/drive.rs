//! Seeing to one batch.

use std::time::Duration;

use bellwether_core::batch::{Step, made_already, members, next_step, shard_of_chunk};
use bellwether_core::id::{BatchId, JobId};
use bellwether_core::read::{self, StoredBatch};
use bellwether_core::time::Time;
use bellwether_core::turn::{BatchInput, Input, Reply};
use bellwether_core::waist::StoreError;
use futures::future::try_join_all;
use tokio::sync::Notify;

use crate::clock;
use crate::node::Node;
use crate::shard::{Failure, ShardHandle};

/// The least time between two looks at a batch that waits: its figures change with every commit.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How much longer than a batch its parts are remembered.
const PARTS_LONGER_MS: u64 = 60_000;
/// How long to wait before something that failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// The longest wait for a time to come, since the clock may be set.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Whether this node sees to a batch: it leads its home. The shard may be about to act here.
pub fn is_here(node: &Node, id: BatchId) -> bool {
    let leads = || node.cluster.leader(id.shard()) == Some(node.cluster.identity.node);
    home(node, id).is_ok_and(|home| home.acts_here() || leads())
}

/// Sees to a batch until it is over. False if it is at home elsewhere now: whoever leads its home then
/// sees to it.
pub async fn drive(node: &Node, id: BatchId, news: &Notify) -> bool {
    while is_here(node, id) {
        match step(node, id, news).await {
            Ok(true) => {}
            Ok(false) => return true,
            Err(error @ (Failure::Stopped | Failure::Store(_))) => {
                tracing::warn!(batch = %id, %error, "a batch is left as it is");
                return true;
            }
            Err(error) => {
                tracing::warn!(batch = %id, %error, "a batch could not go on; trying again");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
    false
}

/// Does what is to be done next. Whether there may be more.
async fn step(node: &Node, id: BatchId, news: &Notify) -> Result<bool, Failure> {
    let Some(stored) = read::batch(&*node.view(), &node.shard_numbers(), id)? else {
        return Ok(false);
    };
    let now = clock::now();
    match next_step(&stored.row, &stored.parts, now) {
        Step::Nothing => return Ok(false),
        Step::Wait(until) => {
            // Shards that act on other nodes bring no news.
            let wait = clock::until(until, now, if node.is_alone() { WAIT_MAX } else { AGAIN });
            tokio::time::sleep(LOOK_EVERY).await;
            let _ = tokio::time::timeout(wait, news.notified()).await;
        }
        Step::Expand { from, to } => expand(node, &stored, from, to).await?,
        Step::Discard => {
            steps(home(node, id)?, id, || BatchInput::Discard { only_if_stale: true }).await?;
        }
        Step::Cancel => cancel(node, &stored).await?,
        Step::End => end(node, &stored).await?,
        Step::TellParts => tell_parts(node, &stored).await?,
    }
    Ok(true)
}

fn home(node: &Node, id: BatchId) -> Result<&ShardHandle, Failure> {
    node.shards.get(usize::from(id.shard())).ok_or(Failure::Stopped)
}

async fn ask(shard: &ShardHandle, batch: BatchId, input: BatchInput) -> Result<Reply, Failure> {
    shard.ask(Input::Batch { batch, input: Box::new(input) }).await
}

/// Asks for something that is done in bounded steps until all is done.
async fn steps(
    shard: &ShardHandle,
    batch: BatchId,
    input: impl Fn() -> BatchInput,
) -> Result<(), Failure> {
    while ask(shard, batch, input()).await? == Reply::More(true) {}
    Ok(())
}

/// Makes jobs of some chunks, one in each shard, all at the same time.
async fn expand(node: &Node, stored: &StoredBatch, from: u32, to: u32) -> Result<(), Failure> {
    let (id, view) = (stored.id, node.view());
    let mut asked = Vec::new();
    for chunk in from..to {
        let items = read::batch_items(&*view, id, chunk)?
            .ok_or_else(|| StoreError::Corrupt(format!("chunk {chunk} of {id} is not there")))?;
        let definitions = members(id, &stored.row, items.items)?;
        let shard = &node.shards[shard_of_chunk(id, chunk, node.shards.len())];
        asked.push(ask(shard, id, BatchInput::Members { chunk, definitions }));
    }
    try_join_all(asked).await?;
    ask(home(node, id)?, id, BatchInput::Expanded { upto: to }).await?;
    Ok(())
}

/// Cancels what has been made, and gives up the rest. First all shards are told to make no more:
/// after that it is known what has been made.
async fn cancel(node: &Node, stored: &StoredBatch) -> Result<(), Failure> {
    let id = stored.id;
    let actor = stored.row.canceled.as_ref().map_or("", |mark| mark.by.as_str());
    let each = node
        .shards
        .iter()
        .map(|shard| steps(shard, id, || BatchInput::CancelMembers { actor: actor.to_owned() }));
    try_join_all(each).await?;
    for shard in node.shard_numbers() {
        node.view_of(shard).await?;
    }
    let Some(closed) = read::batch(&*node.view(), &node.shard_numbers(), id)? else {
        return Ok(());
    };
    let made = made_already(id, &closed.row, &closed.parts);
    steps(home(node, id)?, id, || BatchInput::GiveUp { made: made.clone() }).await
}

/// Notes that the batch is over, after triggering what follows it.
async fn end(node: &Node, stored: &StoredBatch) -> Result<(), Failure> {
    let (id, row) = (stored.id, &stored.row);
    let mut completion = None;
    if row.on_complete != 0 && row.canceled.is_none() {
        let job = JobId(row.on_complete);
        let input = Input::Batch { batch: id, input: Box::new(BatchInput::Complete { job }) };
        completion = match node.ask(job, input).await {
            Ok(Reply::Run(run) | Reply::Runs(run, _)) => Some(Ok(run.n)),
            Ok(_) => None,
            Err(Failure::Rejected(rejection)) => Some(Err(rejection.message)),
            Err(error) => return Err(error),
        };
    }
    ask(home(node, id)?, id, BatchInput::End { completion }).await?;
    Ok(())
}

/// Says to all shards that the batch is over. Their parts are forgotten a little after it.
async fn tell_parts(node: &Node, stored: &StoredBatch) -> Result<(), Failure> {
    let id = stored.id;
    let until = Time(stored.row.forget_ms);
    let keep_ms = until.since_ms(clock::now()) + PARTS_LONGER_MS;
    let told = node.shards.iter().map(|shard| ask(shard, id, BatchInput::PartEnd { keep_ms }));
    try_join_all(told).await?;
    ask(home(node, id)?, id, BatchInput::PartsTold).await?;
    Ok(())
}
