//! Groups: pausing, resuming and maintaining many jobs at once.
//!
//! A group's switches are stored once in every shard and looked at when a tick comes, so switching
//! a group of a million jobs costs one small write a shard.

use bytes::Bytes;

use super::{GroupChange, Halt, Reply, Turn};
use crate::key::{self, DueKey, DueKind};
use crate::record::{self, Audit, GroupRow};
use crate::waist::{Family, StoreError};

/// One-off jobs released in one step.
const STEP: usize = 1_000;

impl Turn<'_> {
    pub(super) fn change_group(
        &mut self,
        actor: &str,
        namespace: &str,
        group: &str,
        change: GroupChange,
    ) -> Result<Reply, Halt> {
        let name = (namespace.to_owned(), group.to_owned());
        let mut row = self.memory.groups.get(&name).cloned().unwrap_or_default();
        let before = row.clone();
        let (action, detail) = match change {
            GroupChange::Pause { note } => {
                let paused = row.paused.take().unwrap_or_else(|| self.mark(actor, None, &note));
                row.paused = Some(paused);
                ("group.pause", note)
            }
            GroupChange::Maintenance { until, note } => {
                row.maintenance = Some(self.mark(actor, until, &note));
                ("group.maintenance", note)
            }
            GroupChange::Resume => {
                row = GroupRow::default();
                ("group.resume", String::new())
            }
        };
        let resumed = row == GroupRow::default();
        if row != before {
            let key = key::group(self.memory.shard, namespace, group);
            if resumed {
                self.memory.groups.remove(&name);
                self.store.delete(Family::Meta, key);
            } else {
                self.store.put(Family::Meta, key, record::encode(&row));
                self.memory.groups.insert(name.clone(), row);
            }
            self.note(Audit {
                actor: actor.to_owned(),
                action: action.to_owned(),
                subject: group.to_owned(),
                namespace: namespace.to_owned(),
                detail,
                jobs: Vec::new(),
            });
        }
        if !resumed {
            return Ok(Reply::More(false));
        }
        let parked = self.memory.parked_by_group.remove(&name);
        self.unpark(parked)?;
        let released = self.release_group(namespace, group, STEP)?;
        Ok(Reply::More(released == STEP))
    }

    /// Releases up to `limit` of the one-off jobs that a group held back, and says how many.
    pub(super) fn release_group(
        &mut self,
        namespace: &str,
        group: &str,
        limit: usize,
    ) -> Result<usize, StoreError> {
        let range = key::held_by(self.memory.shard, namespace, group);
        let held = self.store.scan(Family::Order, &range, limit)?;
        for (key, _) in &held {
            let job = key::read_held(key)?;
            self.store.delete(Family::Order, key.clone());
            let time = self.now;
            self.plan(DueKey { time, kind: DueKind::Release, job, n: 0 }, Bytes::new());
        }
        Ok(held.len())
    }
}
