//! Taking shards over when the server starts.

use bellwether_core::id::RunId;
use bellwether_core::read;
use bellwether_core::record::Run;
use bellwether_core::settings::Settings;
use bellwether_core::turn::{self, Lane, Memory, Turn};
use bellwether_core::waist::{Batch, Shard, StoreError};
use bellwether_store::Engine;

use crate::clock;
use crate::work::{StillHeld, is_built_in};

/// Open runs looked at in one commit.
const CHUNK: usize = 1_000;

/// Takes a shard over: from here on older terms are void. Its open runs are not looked at yet.
///
/// # Errors
/// When the store fails.
pub fn take_over(
    engine: &dyn Engine,
    shard: Shard,
    settings: &Settings,
) -> Result<Memory, StoreError> {
    let term = engine.acquire(shard)?;
    turn::load(&*engine.view(), shard, term, settings.clone())
}

/// Takes stock of the open runs of all shards, several shards at a time. Returns what is still with
/// workers of other processes.
///
/// # Errors
/// When the store fails.
pub fn recover_all(
    engine: &dyn Engine,
    mut memories: Vec<Memory>,
) -> Result<(Vec<Memory>, Vec<StillHeld>), StoreError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = memories.len().div_ceil(threads).max(1);
    let mut still_held = Vec::new();
    std::thread::scope(|scope| {
        let recovering: Vec<_> = memories
            .chunks_mut(share)
            .map(|part| {
                scope.spawn(move || {
                    let mut held = Vec::new();
                    for memory in part {
                        recover(engine, memory, &mut held)?;
                    }
                    Ok::<_, StoreError>(held)
                })
            })
            .collect();
        for thread in recovering {
            let panicked = |_| Err(StoreError::Failed("taking over a shard panicked".to_owned()));
            still_held.extend(thread.join().unwrap_or_else(panicked)?);
        }
        Ok::<_, StoreError>(())
    })?;
    Ok((memories, still_held))
}

/// Takes stock of a shard's open runs. Those that the worker inside an earlier server process had
/// are resolved by their delivery policy: that process is gone, and what it ran has been ended.
fn recover(
    engine: &dyn Engine,
    memory: &mut Memory,
    still_held: &mut Vec<StillHeld>,
) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let view = engine.view();
        let (shard, term) = (memory.shard, memory.term);
        let mut turn = Turn::new(&*view, memory, clock::now());
        let mut found = Vec::new();
        let mut gone = |id: RunId, run: &Run| {
            if is_built_in(&run.worker) {
                return Some("the server was stopped while it ran".to_owned());
            }
            found.push((id, run.worker.clone(), run.token, run.cancel_requested));
            None
        };
        let last = turn.recover(after, CHUNK, &mut gone)?;
        for (run, worker, token, stop) in found {
            if let Some(stored) = read::run(&*view, run)? {
                let lane = Lane::of(&stored.definition, &stored.run.pinned);
                still_held.push(StillHeld { worker, run, token, stop, lane });
            }
        }
        // Entries planned here are read from the store when the agenda is loaded.
        let ops = turn.finish().ops;
        if !ops.is_empty() {
            engine.commit(Batch { shard, term, ops })?;
        }
        match last {
            Some(run) => after = Some(run),
            None => return Ok(()),
        }
    }
}
