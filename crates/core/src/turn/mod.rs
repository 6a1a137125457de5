//! A turn of a shard: inputs in, one batch of writes and a list of effects out.
//!
//! ```text
//!  inputs ──► decide, decide, decide, claim ──► finish ──► writes    commit them, then
//!                 │ reads view + overlay                   effects   perform these
//! ```
//!
//! This is where all decisions are made, synchronously and deterministically: the same stored
//! state, memory, inputs and time give the same writes and effects. The caller commits the writes
//! and lets the effects out only after that. If the commit fails, the [`Memory`] is void as well:
//! the shard starts again from what is stored.
//!
//! Two forms of a job are stored. The *compact* form, for plain one-off jobs, is one record that
//! moves: from the due index to the open runs to history. Few writes, clustered by time: it is
//! what makes millions of delayed jobs cheap. The *full* form, for all others, has a definition
//! (`job`), what changes (`state`) and an entry in the due index for the next tick. Any uncommon
//! wish about a compact job (pausing, editing, triggering) first promotes it to the full form.
//!
//! Where to start reading: [`Turn::decide`], then `tick` for how time becomes runs and `close` for
//! how runs end.

mod audit;
mod batch;
mod broken;
mod claim;
mod close;
mod control;
mod create;
mod delete;
mod demand;
mod due;
mod edit;
mod group;
mod input;
mod job;
mod load;
mod memory;
mod node;
mod once;
mod order;
mod overlay;
mod promote;
mod prune;
mod queue;
mod report;
mod restore;
mod roster;
mod runs;
mod tick;
mod token;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::id::{BatchId, RunId};
use crate::key::{self, DueKey};
use crate::record::{self, RunRow};
use crate::time::Time;
use crate::waist::{Family, Op, StoreError, View};

pub use batch::BatchInput;
pub(crate) use broken::broken_in_words;
pub use claim::Claims;
pub use control::status_name;
pub use demand::Demand;
pub(crate) use due::mark_in_words;
pub use input::*;
pub(crate) use job::{identity, is_pruned};
pub use load::load;
pub use memory::*;
pub use overlay::Overlay;
pub use restore::{Gap, HeldCount, RestoreCursor};
pub use roster::{Offer, Roster};

/// Bytes after which a turn claims nothing more. Runs that carry their job are written with it each
/// time, and what one commit writes is one record of the log, for which there is a limit.
const CLAIM_BYTES_MAX: usize = 64 << 20;

/// One turn: decisions over a view, not yet committed.
pub struct Turn<'a> {
    store: Overlay<'a>,
    /// Open runs that were read or changed in this turn, decoded; `None` once they have ended.
    runs: BTreeMap<RunId, Option<RunRow>>,
    /// About as many bytes as they will take, and more for those that changed several times.
    run_bytes: usize,
    /// Batches whose part in this shard has changed.
    parts_changed: BTreeSet<BatchId>,
    memory: &'a mut Memory,
    effects: Vec<Effect>,
    now: Time,
}

/// What a turn decided.
#[derive(Debug)]
pub struct Decided {
    /// To be committed whole.
    pub ops: Vec<Op>,
    /// To be performed after that.
    pub effects: Vec<Effect>,
}

impl<'a> Turn<'a> {
    /// Starts a turn at `now` over the newest view.
    pub fn new(view: &'a dyn View, memory: &'a mut Memory, now: Time) -> Turn<'a> {
        Turn {
            store: Overlay::new(view),
            runs: BTreeMap::new(),
            run_bytes: 0,
            parts_changed: BTreeSet::new(),
            memory,
            effects: Vec::new(),
            now,
        }
    }

    /// Decides about one input.
    ///
    /// # Errors
    /// A rejection changes nothing and the turn goes on; after a store error it is over.
    pub fn decide(&mut self, input: Input) -> Result<Reply, Halt> {
        match input {
            Input::Create { actor, jobs } => self.create(&actor, jobs),
            Input::NewId => {
                let job = self.memory.ids.next(self.now);
                Ok(Reply::Created(vec![Ok(Created { job, new: false })]))
            }
            Input::ReserveKey { namespace, key, job, replace } => {
                self.reserve_key(&namespace, &key, job, replace)
            }
            Input::FreeKey { namespace, key, job } => self.free_key(&namespace, &key, job),
            Input::Replace { actor, job, definition, hash, enabled, expected_revision } => {
                self.expect_revision(job, expected_revision)?;
                self.replace(&actor, job, *definition, hash, enabled)
            }
            Input::Delete { actor, job } => self.delete(&actor, job),
            Input::Pause { actor, job, note } => self.pause(&actor, job, &note),
            Input::Resume { actor, job } => self.resume(&actor, job),
            Input::Maintenance { actor, job, until, note } => {
                self.maintenance(&actor, job, until, &note)
            }
            Input::Trigger { actor, job } => self.trigger(&actor, job),
            Input::Group { actor, namespace, group, change } => {
                self.change_group(&actor, &namespace, &group, change)
            }
            Input::Cancel { actor, run } => self.cancel(&actor, run),
            Input::Retry { actor, run } => self.retry(&actor, run),
            Input::Due { entry, value } => self.due(entry, value),
            Input::Report(report) => self.report(report),
            Input::Lost { run, token, detail } => self.lost(run, token, &detail),
            Input::Prune => self.prune(),
            Input::Batch { batch, input } => self.batch(batch, *input),
            Input::PutToken { actor, token } => self.put_token(&actor, token),
            Input::PutQueue { actor, name, change } => self.put_queue(&actor, &name, change),
            Input::Node { actor, change } => self.change_node(&actor, change),
            Input::RevokeToken { actor, name, keep_admin } => {
                self.revoke_token(&actor, &name, keep_admin)
            }
        }
    }

    /// How many keys the turn would write.
    #[must_use]
    pub fn size(&self) -> usize {
        self.store.len() + self.runs.len()
    }

    /// About how many bytes the turn would write, or more.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.store.bytes() + self.run_bytes
    }

    /// Whether it writes so much that runs are claimed in the next one.
    #[must_use]
    pub fn is_full_of_claims(&self) -> bool {
        self.bytes() >= CLAIM_BYTES_MAX
    }

    /// The lanes in which runs wait, and how many.
    #[must_use]
    pub fn waiting(&self) -> Vec<(Lane, usize)> {
        self.memory.ready.lanes().map(|(lane, count)| (lane.clone(), count)).collect()
    }

    /// The lanes in which runs wait: the first run of each, and how many.
    #[must_use]
    pub fn heads(&self) -> Vec<(Lane, Turnstile, usize)> {
        let heads = self.memory.ready.heads();
        heads.map(|(lane, first, count)| (lane.clone(), first, count)).collect()
    }

    /// The first run that waits in a lane.
    #[must_use]
    pub fn first_of(&self, lane: &Lane) -> Option<Turnstile> {
        self.memory.ready.first(lane)
    }

    /// How many runs of a lane do not come after another one, counting no further than `limit`.
    #[must_use]
    pub fn not_after(&self, lane: &Lane, other: Turnstile, limit: usize) -> usize {
        self.memory.ready.not_after(lane, other, limit)
    }

    /// Says whether anybody wants notices from here on.
    pub fn set_notices(&mut self, on: bool) {
        self.memory.notices = on;
    }

    /// Ends the turn.
    #[must_use]
    pub fn finish(mut self) -> Decided {
        self.put_parts();
        for (run, row) in std::mem::take(&mut self.runs) {
            match row {
                Some(row) => self.store.put(Family::Active, key::run(run), record::encode(&row)),
                None => self.store.delete(Family::Active, key::run(run)),
            }
        }
        let last_id = self.memory.ids.last().0;
        if self.memory.row_changed || self.memory.row.last_id != last_id {
            self.memory.row.last_id = last_id;
            self.memory.row_changed = false;
            let row = record::encode(&self.memory.row);
            self.store.put(Family::Meta, key::shard_row(self.memory.shard), row);
        }
        Decided { ops: self.store.into_ops(), effects: self.effects }
    }

    /// Adds an entry to the due index. One before the cursor from which the index is read lowers
    /// the cursor, in the same batch: the clock may have been ahead when it was stored.
    fn plan(&mut self, entry: DueKey, value: Bytes) {
        if entry.time.0 < self.memory.row.due_from_ms {
            self.memory.row.due_from_ms = entry.time.0;
            self.memory.row_changed = true;
        }
        self.store.put(Family::Due, entry.key(self.memory.shard), value.clone());
        self.effects.push(Effect::Plan(entry, value));
    }

    /// Takes an entry out of the due index.
    fn unplan(&mut self, entry: DueKey) {
        self.store.delete(Family::Due, entry.key(self.memory.shard));
        self.effects.push(Effect::Unplan(entry));
    }

    fn read<M: prost::Message + Default>(
        &self,
        family: Family,
        key: &[u8],
    ) -> Result<Option<M>, StoreError> {
        match self.store.get(family, key)? {
            Some(bytes) => record::decode(family.name(), bytes).map(Some),
            None => Ok(None),
        }
    }
}
