//! A store in memory: an ordered map a family.

use std::collections::BTreeMap;

use bellwether_core::key::DueKey;
use bellwether_core::record;
use bellwether_core::time::Time;
use bellwether_core::waist::{Family, Op, Row, Rows, StoreError, View};
use bytes::Bytes;

/// The rows of all families.
#[derive(Clone, Default)]
pub struct Store {
    families: [BTreeMap<Bytes, Bytes>; Family::ALL.len()],
    /// Counts commits that wrote something.
    pub version: u64,
}

impl Store {
    /// Applies a batch.
    pub fn commit(&mut self, ops: &[Op]) {
        self.version += u64::from(!ops.is_empty());
        for op in ops {
            match op {
                Op::Put { family, key, value } => {
                    self.families[*family as usize].insert(key.clone(), value.clone());
                }
                Op::Delete { family, key } => {
                    self.families[*family as usize].remove(key);
                }
                // An engine may keep some of it for a while: every third row stays.
                Op::DropRange { family, from, to } => {
                    let rows = &mut self.families[*family as usize];
                    let all: Vec<Bytes> =
                        rows.range(from.clone()..to.clone()).map(|(key, _)| key.clone()).collect();
                    for (number, key) in all.into_iter().enumerate() {
                        if number % 3 != 2 {
                            rows.remove(&key);
                        }
                    }
                }
            }
        }
    }

    /// All rows of a family.
    pub fn rows(&self, family: Family) -> Vec<Row> {
        self.families[family as usize].iter().map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    /// How many rows a family has.
    pub fn count(&self, family: Family) -> usize {
        self.families[family as usize].len()
    }

    /// Whether a row is there.
    pub fn has(&self, family: Family, key: &[u8]) -> bool {
        self.families[family as usize].contains_key(key)
    }

    /// Reads a record.
    pub fn read<M: prost::Message + Default>(&self, family: Family, key: &[u8]) -> Option<M> {
        let bytes = self.families[family as usize].get(key)?.clone();
        Some(record::decode(family.name(), bytes).unwrap())
    }

    /// The time of the first entry of the due index.
    pub fn first_due(&self) -> Option<Time> {
        let (key, _) = self.families[Family::Due as usize].first_key_value()?;
        Some(DueKey::read(key).unwrap().time)
    }
}

impl View for Store {
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(self.families[family as usize].get(key).cloned())
    }

    fn scan<'a>(&'a self, family: Family, from: &[u8], to: &[u8]) -> Rows<'a> {
        let (from, to) = (Bytes::copy_from_slice(from), Bytes::copy_from_slice(to));
        if from >= to {
            return Box::new(std::iter::empty());
        }
        let rows = self.families[family as usize].range(from..to);
        Box::new(rows.map(|(key, value)| Ok((key.clone(), value.clone()))))
    }

    fn scan_back<'a>(&'a self, family: Family, from: &[u8], to: &[u8]) -> Rows<'a> {
        let mut rows: Vec<_> = self.scan(family, from, to).collect();
        rows.reverse();
        Box::new(rows.into_iter())
    }
}
