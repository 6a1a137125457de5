//! Taking shards over when the server starts.

use bellwether_core::record::Run;
use bellwether_core::settings::Settings;
use bellwether_core::shard::{self, StillHeld};
use bellwether_core::turn::{self, Memory};
use bellwether_core::waist::{Batch, Shard, StoreError};
use bellwether_store::Engine;

use crate::clock;
use crate::work::is_built_in;

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
    let gone = |run: &Run| {
        is_built_in(&run.worker).then(|| "the server was stopped while it ran".to_owned())
    };
    let mut after = None;
    loop {
        let recovered = shard::recover(&*engine.view(), memory, clock::now(), after, &gone)?;
        still_held.extend(recovered.held);
        if !recovered.ops.is_empty() {
            let (shard, term) = (memory.shard, memory.term);
            engine.commit(Batch { shard, term, ops: recovered.ops })?;
        }
        match recovered.after {
            Some(run) => after = Some(run),
            None => return Ok(()),
        }
    }
}
