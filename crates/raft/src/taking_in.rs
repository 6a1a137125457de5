//! Making the rows of a shard those of a copy.
//!
//! Only what is different is written: a replica that was away for an hour has most of the rows already,
//! and to remove and write all of them would keep its store busy for much longer than to look at
//! them. Copies have their rows in order, so both are gone through side by side.
//!
//! Until all is done, the tables have no position: whatever interrupts it, the copy is taken in again.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bellwether_core::key::shard_range;
use bellwether_core::waist::{Family, Op, Shard, StoreError, View};
use bellwether_protocol::peer::v1::SnapshotRows;
use bellwether_store::{Applied, Replicated, Tables, op_bytes, position_key};
use bytes::Bytes;
use prost::Message;

use crate::codec::malformed;
use crate::snapshot::{PART_BYTES, PART_ROWS, ShardView, Stored, discard, failed};

/// Makes the rows of a shard those of a copy, and removes its file. Blocks.
///
/// # Errors
/// When the file cannot be read or the tables cannot be written.
pub fn take_in(tables: &dyn Tables, shard: Shard, path: &Path) -> io::Result<()> {
    let (position, mut stored) = Stored::open(path)?;
    let mut taking = TakingIn::new(tables, shard)?;
    while let Some(bytes) = stored.next()? {
        taking.part(SnapshotRows::decode(bytes).map_err(|_| malformed("a part of a copy"))?)?;
    }
    taking.end(position)?;
    discard(path)
}

/// Makes the rows of a shard those of a view. Blocks.
///
/// # Errors
/// When the tables cannot be read or written.
pub fn copy_rows(tables: &dyn Tables, from: &ShardView, position: Bytes) -> io::Result<()> {
    let mut taking = TakingIn::new(tables, from.shard)?;
    let mut result = Ok(());
    from.parts(|rows| {
        result = taking.part(rows);
        result.is_ok()
    })?;
    result?;
    taking.end(position)
}

/// Removes everything that is stored of a shard. Blocks.
///
/// # Errors
/// When the tables cannot be read or written.
pub fn erase(tables: &dyn Tables, shard: Shard) -> io::Result<()> {
    TakingIn::new(tables, shard)?.end(Bytes::new())
}

/// A copy that is being taken in, part by part.
struct TakingIn<'a> {
    tables: &'a dyn Tables,
    shard: Shard,
    /// What was there before. Nobody else writes to the shard meanwhile.
    view: Arc<dyn View>,
    /// The family that is gone through.
    family: usize,
    /// Where in it the next part begins.
    from: Bytes,
    /// What is to be written.
    ops: Vec<Op>,
    bytes: usize,
}

impl<'a> TakingIn<'a> {
    fn new(tables: &'a dyn Tables, shard: Shard) -> io::Result<TakingIn<'a>> {
        // After this all that was on its way to the tables can be seen as well.
        load(tables, shard, Vec::new(), Bytes::new())?;
        let (view, from) = (tables.view(), shard_range(shard).0);
        Ok(TakingIn { tables, shard, view, family: 0, from, ops: Vec::new(), bytes: 0 })
    }

    /// The next rows of the copy.
    fn part(&mut self, rows: SnapshotRows) -> io::Result<()> {
        let family = rows.family as usize;
        if family >= Family::ALL.len() || rows.keys.len() != rows.values.len() {
            return Err(malformed("a part of a copy"));
        }
        while self.family < family {
            self.end_family()?;
        }
        let Some(last) = rows.keys.last() else { return Ok(()) };
        let ascend = rows.keys.is_sorted_by(|a, b| a < b);
        if family < self.family || !ascend || rows.keys.first().is_some_and(|key| *key < self.from)
        {
            return Err(malformed("the order of the rows of a copy"));
        }
        let next = Bytes::from([last, &b"\0"[..]].concat());
        self.rows_until(next, rows.keys.into_iter().zip(rows.values))
    }

    /// Makes the rows from where it is up to some key be these.
    fn rows_until(
        &mut self,
        to: Bytes,
        rows: impl Iterator<Item = (Bytes, Bytes)>,
    ) -> io::Result<()> {
        let (view, family) = (self.view.clone(), Family::ALL[self.family]);
        let position = position_key(self.shard);
        let stored = view.scan(family, &self.from, &to);
        let mut stored =
            stored.filter(|row| !matches!(row, Ok((key, _)) if *key == position)).peekable();
        for (key, value) in rows {
            let mut is_there = false;
            while let Some(row) =
                stored.next_if(|row| row.as_ref().map_or(true, |(old, _)| *old <= key))
            {
                let (old, old_value) = row.map_err(failed)?;
                if old == key {
                    is_there = old_value == value;
                } else {
                    self.add(Op::Delete { family, key: old })?;
                }
            }
            if !is_there {
                self.add(Op::Put { family, key, value })?;
            }
        }
        for row in stored {
            let (key, _) = row.map_err(failed)?;
            self.add(Op::Delete { family, key })?;
        }
        self.from = to;
        Ok(())
    }

    /// The copy has no more rows of this family.
    fn end_family(&mut self) -> io::Result<()> {
        let (from, to) = shard_range(self.shard);
        self.rows_until(to, std::iter::empty())?;
        (self.family, self.from) = (self.family + 1, from);
        Ok(())
    }

    fn add(&mut self, op: Op) -> io::Result<()> {
        self.bytes += op_bytes(&op);
        self.ops.push(op);
        if self.ops.len() < PART_ROWS && self.bytes < PART_BYTES {
            return Ok(());
        }
        self.bytes = 0;
        let ops = std::mem::take(&mut self.ops);
        load(self.tables, self.shard, ops, Bytes::new())
    }

    /// That was all: the shard is at this position now, and nothing of it can be lost.
    fn end(mut self, position: Bytes) -> io::Result<()> {
        while self.family < Family::ALL.len() {
            self.end_family()?;
        }
        if !self.ops.is_empty() {
            load(self.tables, self.shard, self.ops, Bytes::new())?;
        }
        load(self.tables, self.shard, Vec::new(), position)?;
        self.tables.persist().map_err(failed)
    }
}

/// Writes rows as they are, and waits until they can be seen.
fn load(tables: &dyn Tables, shard: Shard, ops: Vec<Op>, position: Bytes) -> io::Result<()> {
    let (sender, done) = crossbeam_channel::bounded(1);
    let call = Box::new(move |result: Result<Applied, StoreError>| {
        // The receiver waits below, so this cannot fail.
        let _ = sender.send(result);
    });
    tables.apply(shard, Replicated::Load(ops), position, call);
    done.recv().unwrap_or(Err(StoreError::Closed)).map(drop).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bellwether_store::{AppliedDone, MemoryTables};
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;

    /// Tables that count what is written to them.
    #[derive(Default)]
    struct Counting {
        tables: MemoryTables,
        ops: AtomicUsize,
    }

    impl Tables for Counting {
        fn view(&self) -> Arc<dyn View> {
            self.tables.view()
        }

        fn apply(&self, shard: Shard, what: Replicated, position: Bytes, done: AppliedDone) {
            if let Replicated::Load(ops) = &what {
                self.ops.fetch_add(ops.len(), Ordering::Relaxed);
            }
            self.tables.apply(shard, what, position, done);
        }

        fn persist(&self) -> Result<(), StoreError> {
            self.tables.persist()
        }
    }

    const SHARD: Shard = 3;

    /// Rows by family and key.
    type Rows = BTreeMap<(usize, Bytes), Bytes>;

    fn key(shard: Shard, name: &[u8]) -> Bytes {
        Bytes::from([&shard.to_be_bytes()[..], name].concat())
    }

    fn some_rows() -> impl Strategy<Value = Rows> {
        let place = (0..3_usize, vec(0..3_u8, 0..3));
        btree_map(place, any::<bool>(), 0..24).prop_map(|rows| {
            let of_family = |n: usize| [0, 5, Family::ALL.len() - 1][n];
            rows.into_iter()
                .map(|((n, name), value)| {
                    ((of_family(n), key(SHARD, &name)), Bytes::from(vec![u8::from(value)]))
                })
                .collect()
        })
    }

    fn stored(tables: &dyn Tables, shard: Shard) -> Rows {
        let (view, (from, to)) = (tables.view(), shard_range(shard));
        let mut rows = Rows::new();
        for family in Family::ALL {
            for row in view.scan(family, &from, &to) {
                let (key, value) = row.unwrap();
                if key != position_key(shard) {
                    rows.insert((family as usize, key), value);
                }
            }
        }
        rows
    }

    fn write(tables: &dyn Tables, shard: Shard, rows: &Rows) {
        let ops = rows.iter().map(|((family, key), value)| Op::Put {
            family: Family::ALL[*family],
            key: key.clone(),
            value: value.clone(),
        });
        load(tables, shard, ops.collect(), Bytes::from_static(b"before")).unwrap();
    }

    /// The rows in parts of so many.
    fn parts(rows: &Rows, most: usize) -> Vec<SnapshotRows> {
        let mut parts: Vec<SnapshotRows> = Vec::new();
        for ((family, key), value) in rows {
            let family = u32::try_from(*family).unwrap();
            if parts.last().is_none_or(|part| part.family != family || part.keys.len() >= most) {
                parts.push(SnapshotRows { family, ..SnapshotRows::default() });
            }
            let part = parts.last_mut().unwrap();
            part.keys.push(key.clone());
            part.values.push(value.clone());
        }
        parts
    }

    proptest! {
        #[test]
        fn r115_a_shard_becomes_its_copy_and_only_what_differs_is_written(
            before in some_rows(), copy in some_rows(), most in 1..5_usize,
        ) {
            let tables = Counting::default();
            write(&tables, SHARD, &before);
            // Those next to it are not to be touched.
            for other in [SHARD - 1, SHARD + 1] {
                write(&tables, other, &Rows::from([((5, key(other, b"")), Bytes::new())]));
            }
            tables.ops.store(0, Ordering::Relaxed);
            let mut taking = TakingIn::new(&tables, SHARD).unwrap();
            for part in parts(&copy, most) {
                taking.part(part).unwrap();
            }
            taking.end(Bytes::from_static(b"after")).unwrap();
            prop_assert_eq!(stored(&tables, SHARD), copy.clone());
            for other in [SHARD - 1, SHARD + 1] {
                prop_assert_eq!(stored(&tables, other).len(), 1);
            }
            let position = tables.view().get(Family::Meta, &position_key(SHARD)).unwrap();
            prop_assert_eq!(position, Some(Bytes::from_static(b"after")));
            let gone = before.keys().filter(|key| !copy.contains_key(*key)).count();
            let new = copy.iter().filter(|(key, value)| before.get(*key) != Some(*value)).count();
            prop_assert_eq!(tables.ops.load(Ordering::Relaxed), gone + new);
        }
    }

    #[test]
    fn r115_a_copy_that_is_interrupted_leaves_no_position() {
        let tables = MemoryTables::default();
        write(&tables, SHARD, &Rows::from([((5, key(SHARD, b"old")), Bytes::new())]));
        let many = (0..=PART_ROWS).map(|n| {
            let name = u32::try_from(n).unwrap().to_be_bytes();
            ((5, key(SHARD, &name)), Bytes::from_static(b"row"))
        });
        let mut taking = TakingIn::new(&tables, SHARD).unwrap();
        for part in parts(&many.collect(), PART_ROWS) {
            taking.part(part).unwrap();
        }
        drop(taking);
        let rows = stored(&tables, SHARD).len();
        assert_eq!(rows, PART_ROWS + 1, "a part of it has been written, and the old one is there");
        let position = tables.view().get(Family::Meta, &position_key(SHARD)).unwrap();
        assert_eq!(position, Some(Bytes::new()));
    }

    #[test]
    fn rows_out_of_order_are_refused() {
        let tables = MemoryTables::default();
        let one = |family, name| {
            parts(&Rows::from([((family, key(SHARD, name)), Bytes::new())]), 1).remove(0)
        };
        for (first, then) in
            [((5, b"b"), (5, b"a")), ((5, b"a"), (5, b"a")), ((6, b"a"), (5, b"b"))]
        {
            let mut taking = TakingIn::new(&tables, SHARD).unwrap();
            taking.part(one(first.0, first.1)).unwrap();
            let error = taking.part(one(then.0, then.1)).unwrap_err().to_string();
            assert!(error.contains("the order of the rows"), "{error}");
        }
        let mut taking = TakingIn::new(&tables, SHARD).unwrap();
        let unknown = SnapshotRows { family: 99, ..SnapshotRows::default() };
        taking.part(unknown).unwrap_err();
    }

    #[test]
    fn a_shard_that_is_erased_leaves_nothing() {
        let tables = MemoryTables::default();
        write(&tables, SHARD, &Rows::from([((5, key(SHARD, b"old")), Bytes::new())]));
        erase(&tables, SHARD).unwrap();
        assert_eq!(stored(&tables, SHARD), Rows::new());
    }
}
