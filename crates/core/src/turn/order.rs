//! Ordering keys: runs of one key in schedule order, one at a time (R72–R74).
//!
//! For each key one run is *current*: the only one that may be claimed. The others wait in the
//! order of their ticks. When the current one ends, the next is released; when it ends badly and
//! its job says `block`, it stays current until somebody retries or cancels it, so that only its
//! own key stands still.

use bytes::Bytes;

use super::{Turn, namespace_name};
use crate::id::{JobId, RunId};
use crate::key;
use crate::record::{Definition, OnFailure, RunStatus};
use crate::time::Time;
use crate::waist::{Family, StoreError};

impl Turn<'_> {
    /// Lines a new run up if it has an ordering key. Whether it must wait.
    pub(super) fn must_wait_for_order(
        &mut self,
        definition: &Definition,
        scheduled: Time,
        id: RunId,
    ) -> Result<bool, StoreError> {
        if definition.ordering_key.is_empty() {
            return Ok(false);
        }
        let (namespace, name) = (namespace_name(definition), definition.ordering_key.as_str());
        let shard = self.memory.shard;
        match self.current_of(definition)? {
            Some(current) if current == id => Ok(false),
            Some(_) => {
                let key = key::order(shard, namespace, name, scheduled, id);
                self.store.put(Family::Order, key, Bytes::new());
                Ok(true)
            }
            None => {
                self.set_current(definition, id);
                Ok(false)
            }
        }
    }

    /// The run of the job's ordering key whose turn it is.
    pub(super) fn current_of(&self, definition: &Definition) -> Result<Option<RunId>, StoreError> {
        let (namespace, name) = (namespace_name(definition), definition.ordering_key.as_str());
        let key = key::order_current(self.memory.shard, namespace, name);
        self.store.get(Family::Order, &key)?.map(|value| key::read_order(&value)).transpose()
    }

    fn set_current(&mut self, definition: &Definition, id: RunId) {
        let (namespace, name) = (namespace_name(definition), definition.ordering_key.as_str());
        let key = key::order_current(self.memory.shard, namespace, name);
        let mut value = Vec::with_capacity(12);
        value.extend_from_slice(&id.job.0.to_be_bytes());
        value.extend_from_slice(&id.n.to_be_bytes());
        self.store.put(Family::Order, key, Bytes::from(value));
    }

    /// A run has ended, or its job is gone: lets the next one of its ordering key go, unless this
    /// one stays in the way.
    pub(super) fn leave_order(
        &mut self,
        definition: &Definition,
        scheduled: Time,
        id: RunId,
        status: RunStatus,
    ) -> Result<(), StoreError> {
        if definition.ordering_key.is_empty() {
            return Ok(());
        }
        let (namespace, name) = (namespace_name(definition), definition.ordering_key.as_str());
        let shard = self.memory.shard;
        if self.current_of(definition)? != Some(id) {
            self.store.delete(Family::Order, key::order(shard, namespace, name, scheduled, id));
            return Ok(());
        }
        let ended_badly = matches!(status, RunStatus::Failed | RunStatus::Lost);
        // What a deleted job leaves behind nobody could retry or give up.
        let blocks = ended_badly && definition.on_failure() == OnFailure::Block;
        if blocks && self.full(id.job)?.is_some() {
            return Ok(());
        }
        let waiting = self.store.scan(Family::Order, &key::ordered(shard, namespace, name), 1)?;
        match waiting.into_iter().next() {
            None => {
                self.store.delete(Family::Order, key::order_current(shard, namespace, name));
            }
            Some((key, _)) => {
                let next = key::read_order(&key)?;
                self.store.delete(Family::Order, key);
                self.set_current(definition, next);
                self.release(next)?;
            }
        }
        Ok(())
    }

    /// A job is being deleted, or does not want to block any more: no ended run of it may stand in
    /// the way of its ordering key.
    pub(super) fn unblock_order(
        &mut self,
        definition: &Definition,
        job: JobId,
    ) -> Result<(), StoreError> {
        match self.current_of(definition)? {
            Some(current) if current.job == job && self.peek_open(current)?.is_none() => {
                self.leave_order(definition, Time(0), current, RunStatus::Canceled)
            }
            _ => Ok(()),
        }
    }
}
