//! Taking a shard over: its memory is built again from what is stored.
//!
//! Only the shard's own record, its groups and its open runs are read, so it takes no longer with
//! a hundred million jobs than with ten.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Compiled, Memory, Ready, Tally, Turn};
use crate::bounds::Shares;
use crate::id::{IdSource, JobId, RunId};
use crate::key;
use crate::record::{self, Hold, Run, RunRow, RunStatus, ShardRow};
use crate::run;
use crate::settings::Settings;
use crate::time::Time;
use crate::waist::{Family, Shard, StoreError, Term, View};

/// Builds a shard's memory, but for its open runs (see [`Turn::recover`]).
///
/// # Errors
/// When the store cannot be read.
pub fn load(
    view: &dyn View,
    shard: Shard,
    term: Term,
    settings: Settings,
) -> Result<Memory, StoreError> {
    let row: ShardRow = match view.get(Family::Meta, &key::shard_row(shard))? {
        Some(bytes) => record::decode("shard", bytes)?,
        None => ShardRow::default(),
    };
    let mut groups = BTreeMap::new();
    let (from, to) = key::groups(shard, None);
    for found in view.scan(Family::Meta, &from, &to) {
        let (key, value) = found?;
        groups.insert(key::read_group(&key)?, record::decode("group", value)?);
    }
    let (from, to) = key::audits_before(shard, None);
    let audit_sequence = match view.scan_back(Family::Audit, &from, &to).next() {
        Some(found) => key::read_audit(&found?.0)?,
        None => (Time(0), 0),
    };
    Ok(Memory {
        shard,
        term,
        acts_since: Time(0),
        settings,
        ids: IdSource::new(shard, JobId(row.last_id)),
        row,
        row_changed: false,
        tokens: 0,
        audit_sequence,
        groups,
        ready: Ready::default(),
        parked_by_job: BTreeMap::new(),
        parked_by_group: BTreeMap::new(),
        parts: BTreeMap::new(),
        workers: Arc::default(),
        compiled: Compiled::default(),
        notices: false,
        tally: Tally::default(),
        open_runs: 0,
        shares: Shares::default(),
    })
}

impl Turn<'_> {
    /// Takes stock of up to `limit` open runs after `after`: those that wait for a worker wait
    /// again, and those that were with one are resolved by their job's delivery policy if `gone`
    /// says how that is known: the others are still with it. The last run looked at, or `None` if
    /// there are no more.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn recover(
        &mut self,
        after: Option<RunId>,
        limit: usize,
        gone: &mut dyn FnMut(RunId, &Run) -> Option<String>,
    ) -> Result<Option<RunId>, StoreError> {
        let (from, to) = key::shard_range(self.memory.shard);
        let from = after.map_or(from, |run| {
            let mut next = key::run(run).to_vec();
            next.push(0);
            next.into()
        });
        let rows = self.store.scan(Family::Active, &(from, to), limit)?;
        let mut last = None;
        for (key, value) in &rows {
            let (job, n) = key::read_run(key)?;
            let id = RunId { job, n: n.unwrap_or(1) };
            last = Some(id);
            self.memory.open_runs += 1;
            let row: RunRow = record::decode("active", value.clone())?;
            let Some(run) = &row.run else {
                return Err(StoreError::Corrupt(format!("{id} is open but has no run")));
            };
            if run::is_with_worker(run.status()) {
                if let Some(detail) = gone(id, run) {
                    let (row, run) = match self.take_open(id)? {
                        Some(found) => found,
                        None => continue,
                    };
                    let event = run::event_because(
                        self.now,
                        crate::record::EventKind::Lost,
                        "lost",
                        &detail,
                    );
                    self.unknown(id, row, run, event)?;
                }
            } else if run.status() == RunStatus::Queued
                && run.hold() == Hold::None
                && let Some(definition) = self.definition_of(id, &row)?
            {
                self.memory.ready.add(&definition, id, run);
            }
        }
        Ok(last.filter(|_| rows.len() == limit))
    }
}
