//! The rows themselves: one persistent ordered map per family, which is also the view.

use std::collections::HashMap;
use std::ops::Bound;

use bellwether_core::waist::{Batch, Family, Op, Rows, Shard, StoreError, Term, View};
use bytes::Bytes;
use imbl::OrdMap;

use crate::rules::{decode_term, encode_term, meta_term_key, shard_of};

/// All rows at one moment. Cloning shares them.
#[derive(Clone, Default)]
pub(super) struct Tables {
    families: [OrdMap<Bytes, Bytes>; Family::ALL.len()],
}

impl Tables {
    pub(super) fn apply(&mut self, batch: &Batch) {
        for op in &batch.ops {
            match op {
                Op::Put { family, key, value } => {
                    self.rows_mut(*family).insert(key.clone(), value.clone());
                }
                Op::Delete { family, key } => {
                    self.rows_mut(*family).remove(key);
                }
                Op::DropRange { family, from, to } => self.drop_range(*family, from, to),
            }
        }
    }

    pub(super) fn set_term(&mut self, shard: Shard, term: Term) {
        self.rows_mut(Family::Meta).insert(meta_term_key(shard), encode_term(term));
    }

    /// The terms of all shards, read back from their rows.
    pub(super) fn terms(&self) -> HashMap<Shard, Term> {
        let rows = self.rows_of(Family::Meta).iter();
        let terms = rows.filter_map(|(key, value)| {
            let shard = shard_of(key)?;
            if *key != meta_term_key(shard) {
                return None;
            }
            Some((shard, decode_term(shard, value).ok()?))
        });
        terms.collect()
    }

    pub(super) fn rows(&self, family: Family) -> usize {
        self.rows_of(family).len()
    }

    fn drop_range(&mut self, family: Family, from: &[u8], to: &[u8]) {
        let keys: Vec<Bytes> = self.range(family, from, to).map(|(k, _)| k.clone()).collect();
        let rows = self.rows_mut(family);
        for key in keys {
            rows.remove(&key);
        }
    }

    fn range<'a>(
        &'a self,
        family: Family,
        from: &[u8],
        to: &[u8],
    ) -> impl DoubleEndedIterator<Item = (&'a Bytes, &'a Bytes)> + use<'a> {
        // An inverted range is empty; the map would panic on it.
        let to = to.max(from);
        self.rows_of(family).range::<_, [u8]>((Bound::Included(from), Bound::Excluded(to)))
    }

    fn rows_of(&self, family: Family) -> &OrdMap<Bytes, Bytes> {
        &self.families[family as usize]
    }

    fn rows_mut(&mut self, family: Family) -> &mut OrdMap<Bytes, Bytes> {
        &mut self.families[family as usize]
    }
}

impl View for Tables {
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(self.rows_of(family).get(key).cloned())
    }

    fn scan<'a>(&'a self, family: Family, from: &[u8], to: &[u8]) -> Rows<'a> {
        let rows = self.range(family, from, to);
        Box::new(rows.map(|(key, value)| Ok((key.clone(), value.clone()))))
    }

    fn scan_back<'a>(&'a self, family: Family, from: &[u8], to: &[u8]) -> Rows<'a> {
        let rows = self.range(family, from, to).rev();
        Box::new(rows.map(|(key, value)| Ok((key.clone(), value.clone()))))
    }
}
