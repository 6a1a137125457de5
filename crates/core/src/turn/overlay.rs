//! The turn's own writes, laid over the stored state.
//!
//! A turn takes many inputs before it commits, and each must see what those before it decided.
//! Later writes to a key replace earlier ones, so that what is committed is one write a key.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::waist::{Family, Op, Row, StoreError, View};

/// Writes that are decided but not yet committed, over a view of what is.
pub struct Overlay<'v> {
    view: &'v dyn View,
    writes: [BTreeMap<Bytes, Option<Bytes>>; Family::ALL.len()],
    drops: Vec<Op>,
    /// Bytes that have been written, also those that were written over.
    bytes: usize,
}

impl<'v> Overlay<'v> {
    /// No writes yet.
    #[must_use]
    pub fn new(view: &'v dyn View) -> Overlay<'v> {
        Overlay { view, writes: Default::default(), drops: Vec::new(), bytes: 0 }
    }

    /// What is under it.
    pub fn view(&self) -> &'v dyn View {
        self.view
    }

    /// The value of a key as the turn sees it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn get(&self, family: Family, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        match self.writes[family as usize].get(key) {
            Some(written) => Ok(written.clone()),
            None => self.view.get(family, key),
        }
    }

    /// Whether the turn has removed this key.
    #[must_use]
    pub fn has_deleted(&self, family: Family, key: &[u8]) -> bool {
        matches!(self.writes[family as usize].get(key), Some(None))
    }

    /// Sets a key.
    pub fn put(&mut self, family: Family, key: Bytes, value: Bytes) {
        self.bytes += key.len() + value.len();
        self.writes[family as usize].insert(key, Some(value));
    }

    /// Removes a key.
    pub fn delete(&mut self, family: Family, key: Bytes) {
        self.writes[family as usize].insert(key, None);
    }

    /// Says that a range will not be looked at again.
    pub fn drop_range(&mut self, family: Family, (from, to): (Bytes, Bytes)) {
        self.drops.push(Op::DropRange { family, from, to });
    }

    /// Up to `limit` rows with `from <= key < to`, ascending, as the turn sees them.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn scan(
        &self,
        family: Family,
        (from, to): &(Bytes, Bytes),
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::new();
        if from >= to {
            return Ok(rows);
        }
        let mut written =
            self.writes[family as usize].range::<Bytes, _>(from.clone()..to.clone()).peekable();
        let mut stored = self.view.scan(family, from, to).peekable();
        while rows.len() < limit {
            let take_written = match (written.peek(), stored.peek()) {
                (None, None) => break,
                (Some(_), None | Some(Err(_))) => stored.peek().is_none(),
                (None, Some(_)) => false,
                (Some((key, _)), Some(Ok((stored_key, _)))) => *key <= stored_key,
            };
            if take_written {
                if let Some((key, value)) = written.next() {
                    if matches!(stored.peek(), Some(Ok((stored_key, _))) if stored_key == key) {
                        stored.next();
                    }
                    if let Some(value) = value {
                        rows.push((key.clone(), value.clone()));
                    }
                }
            } else if let Some(row) = stored.next() {
                rows.push(row?);
            }
        }
        Ok(rows)
    }

    /// How many keys have been written.
    #[must_use]
    pub fn len(&self) -> usize {
        self.writes.iter().map(BTreeMap::len).sum::<usize>() + self.drops.len()
    }

    /// How many bytes have been written at most.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing has been written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.iter().all(BTreeMap::is_empty) && self.drops.is_empty()
    }

    /// All writes, one a key.
    #[must_use]
    pub fn into_ops(self) -> Vec<Op> {
        let mut ops = Vec::with_capacity(self.len());
        for (family, writes) in Family::ALL.into_iter().zip(self.writes) {
            for (key, value) in writes {
                ops.push(match value {
                    Some(value) => Op::Put { family, key, value },
                    None => Op::Delete { family, key },
                });
            }
        }
        ops.extend(self.drops);
        ops
    }
}
