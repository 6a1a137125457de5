//! What a shard begins with when it has been taken over.

use bellwether_core::id::RunId;
use bellwether_core::record::Run;
use bellwether_core::shard::{self, StillHeld};
use bellwether_core::turn::Memory;
use bellwether_core::waist::{Batch, StoreError};
use bellwether_store::Engine;

use crate::clock;

/// Takes stock of a shard's open runs. Those that are `gone` are resolved by their delivery policy.
/// Returns what is still with workers.
///
/// # Errors
/// When the store fails.
pub fn recover(
    engine: &dyn Engine,
    memory: &mut Memory,
    gone: &dyn Fn(RunId, &Run) -> Option<String>,
) -> Result<Vec<StillHeld>, StoreError> {
    let mut still_held = Vec::new();
    let mut after = None;
    loop {
        let recovered = shard::recover(&*engine.view(), memory, clock::now(), after, gone)?;
        still_held.extend(recovered.held);
        if !recovered.ops.is_empty() {
            let (shard, term) = (memory.shard, memory.term);
            engine.commit(Batch { shard, term, ops: recovered.ops })?;
        }
        match recovered.after {
            Some(run) => after = Some(run),
            None => return Ok(still_held),
        }
    }
}
