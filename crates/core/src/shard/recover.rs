//! Taking stock of a shard's open runs, chunk by chunk.

use crate::id::RunId;
use crate::key;
use crate::read;
use crate::record::{self, Run, RunRow};
use crate::run;
use crate::time::Time;
use crate::turn::{Lane, Memory, Turn};
use crate::waist::{Family, Op, Shard, StoreError, View};

/// Open runs looked at in one commit.
const CHUNK: usize = 1_000;

/// A run that is still with a worker, as the store says.
#[derive(Clone, Debug)]
pub struct StillHeld {
    /// The worker.
    pub worker: String,
    /// The run.
    pub run: RunId,
    /// The attempt's token.
    pub token: u64,
    /// Whether it is to be stopped.
    pub stop: bool,
    /// What it takes up.
    pub lane: Lane,
}

/// What came of a chunk.
#[derive(Debug)]
pub struct Recovered {
    /// To be committed before the next.
    pub ops: Vec<Op>,
    /// Where the next one begins; `None` if this was the last.
    pub after: Option<RunId>,
    /// What is still with workers.
    pub held: Vec<StillHeld>,
}

/// Takes stock of the open runs after `after`: a bounded number of them. Those with a worker of which
/// `gone` knows that it is no more, and how, are resolved by their delivery policy.
///
/// What is planned here is read from the store when the agenda is loaded.
///
/// # Errors
/// When the store cannot be read.
pub fn recover(
    view: &dyn View,
    memory: &mut Memory,
    now: Time,
    after: Option<RunId>,
    gone: &dyn Fn(RunId, &Run) -> Option<String>,
) -> Result<Recovered, StoreError> {
    let mut turn = Turn::new(view, memory, now);
    let mut found = Vec::new();
    let mut is_gone = |id: RunId, run: &Run| {
        let detail = gone(id, run);
        if detail.is_none() {
            found.push((id, run.clone()));
        }
        detail
    };
    let after = turn.recover(after, CHUNK, &mut is_gone)?;
    let mut held = Vec::with_capacity(found.len());
    for (id, run) in found {
        let definition = read::definition_of_open(view, id)?.unwrap_or_default();
        let lane = Lane::of(&definition, &run.pinned);
        let Run { worker, token, cancel_requested: stop, .. } = run;
        held.push(StillHeld { worker, run: id, token, stop, lane });
    }
    let ops = turn.finish().ops;
    for held in &held {
        memory.shares.found(held.run, &held.lane);
    }
    Ok(Recovered { ops, after, held })
}

/// The open runs of a shard that are with workers, of those that are `wanted`.
///
/// # Errors
/// When the store cannot be read.
pub fn with_workers(
    view: &dyn View,
    shard: Shard,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<StillHeld>, StoreError> {
    let (from, to) = key::shard_range(shard);
    let mut held = Vec::new();
    for row in view.scan(Family::Active, &from, &to) {
        let (key, value) = row?;
        let row: RunRow = record::decode("active", value)?;
        let Some(run) = row.run.filter(|run| run::is_with_worker(run.status())) else { continue };
        if !wanted(&run.worker) {
            continue;
        }
        let (job, n) = key::read_run(&key)?;
        let id = RunId { job, n: n.unwrap_or(1) };
        let definition = read::definition_of_open(view, id)?.unwrap_or_default();
        let lane = Lane::of(&definition, &run.pinned);
        let Run { worker, token, cancel_requested: stop, .. } = run;
        held.push(StillHeld { worker, run: id, token, stop, lane });
    }
    Ok(held)
}
