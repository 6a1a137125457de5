//! Taking shards over when the server starts.

use bellwether_core::settings::Settings;
use bellwether_core::turn::{self, Memory, Turn};
use bellwether_core::waist::{Batch, Shard, StoreError};
use bellwether_store::Engine;

use crate::clock;

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

/// Takes stock of the open runs of all shards, several shards at a time.
///
/// # Errors
/// When the store fails.
pub fn recover_all(
    engine: &dyn Engine,
    mut memories: Vec<Memory>,
) -> Result<Vec<Memory>, StoreError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = memories.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let recovering: Vec<_> = memories
            .chunks_mut(share)
            .map(|part| scope.spawn(|| part.iter_mut().try_for_each(|m| recover(engine, m))))
            .collect();
        recovering.into_iter().try_for_each(|thread| {
            let panicked = |_| Err(StoreError::Failed("taking over a shard panicked".to_owned()));
            thread.join().unwrap_or_else(panicked)
        })
    })?;
    Ok(memories)
}

/// Takes stock of a shard's open runs. Those that a worker of an earlier process had are resolved
/// by their delivery policy: that process is gone, and what it ran has been ended.
fn recover(engine: &dyn Engine, memory: &mut Memory) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let view = engine.view();
        let (shard, term) = (memory.shard, memory.term);
        let mut turn = Turn::new(&*view, memory, clock::now());
        let gone = |_: &str| Some("the server was stopped while it ran".to_owned());
        let last = turn.recover(after, CHUNK, &gone)?;
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
