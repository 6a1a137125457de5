//! Questions about stored state: jobs, runs, ledgers and lists, over a [`View`].
//!
//! These are pure like the rest of the core and change nothing. A job looks the same here in
//! whichever of its two forms it is stored. Lists do a bounded amount of work per page: a page may
//! come back with fewer rows than asked for, and a place to go on from.

mod ahead;
mod batches;
mod groups;
mod jobs;
mod ledger;
mod lists;
mod runs;
mod why;

pub use batches::*;
pub use groups::*;
pub use jobs::*;
pub use ledger::*;
pub use lists::*;
pub use runs::*;
pub use why::*;

use prost::Message;

use crate::key;
use crate::record::{self, ShardRow};
use crate::waist::{Family, Shard, StoreError, View};

/// Rows looked at for one page of a list before it is cut short.
pub const LOOK_MAX: usize = 20_000;

fn read<M: Message + Default>(
    view: &dyn View,
    family: Family,
    key: &[u8],
) -> Result<Option<M>, StoreError> {
    match view.get(family, key)? {
        Some(bytes) => record::decode(family.name(), bytes).map(Some),
        None => Ok(None),
    }
}

fn shard_row(view: &dyn View, shard: Shard) -> Result<ShardRow, StoreError> {
    Ok(read(view, Family::Meta, &key::shard_row(shard))?.unwrap_or_default())
}
