//! Rules every engine applies to a batch before it touches anything.
//!
//! A batch that breaks them is a bug of the caller, so these are assertions that stay on in
//! production: storing a key under the wrong shard would be found only when that shard moves.

use bellwether_core::waist::{Batch, Family, Op, Shard, StoreError, Term};
use bytes::Bytes;

/// Longest key an engine must take.
const KEY_BYTES_MAX: usize = 60_000;

/// Longest value an engine must take.
const VALUE_BYTES_MAX: usize = 64 << 20;

/// What an operation costs in memory besides its key and value.
const OP_OVERHEAD_BYTES: usize = 64;

/// Where a shard's term is stored, in [`Family::Meta`]: the shard, a zero byte, `term`.
///
/// Keys of `Meta` whose third byte is zero belong to the engine. They show up in scans; batches
/// must not touch them. The value is the term, eight bytes big-endian.
#[must_use]
pub fn meta_term_key(shard: Shard) -> Bytes {
    let mut key = Vec::with_capacity(7);
    key.extend_from_slice(&shard.to_be_bytes());
    key.extend_from_slice(b"\0term");
    Bytes::from(key)
}

/// The shard a key belongs to, if it is a key at all.
#[must_use]
pub fn shard_of(key: &[u8]) -> Option<Shard> {
    let prefix = key.first_chunk::<2>()?;
    Some(Shard::from_be_bytes(*prefix))
}

/// Reads a stored term.
pub(crate) fn decode_term(shard: Shard, value: &[u8]) -> Result<Term, StoreError> {
    let bytes = <[u8; 8]>::try_from(value).map_err(|_| {
        StoreError::Corrupt(format!(
            "the term of shard {shard} has {} bytes instead of 8",
            value.len()
        ))
    })?;
    Ok(Term::from_be_bytes(bytes))
}

/// Writes a term the way it is stored.
pub(crate) fn encode_term(term: Term) -> Bytes {
    Bytes::copy_from_slice(&term.to_be_bytes())
}

/// Refuses a batch whose term is not the newest.
pub(crate) fn check_fence(batch: &Batch, newest: Term) -> Result<(), StoreError> {
    if batch.term == newest {
        return Ok(());
    }
    Err(StoreError::Fenced { shard: batch.shard, held: batch.term, newest })
}

/// What a batch costs in memory while it waits.
pub(crate) fn batch_bytes(batch: &Batch) -> usize {
    ops_bytes(&batch.ops)
}

/// Bytes of an operation's keys and values.
#[must_use]
pub fn op_bytes(op: &Op) -> usize {
    match op {
        Op::Put { key, value, .. } => key.len() + value.len(),
        Op::Delete { key, .. } => key.len(),
        Op::DropRange { from, to, .. } => from.len() + to.len(),
    }
}

/// What operations cost in memory while they wait.
pub(crate) fn ops_bytes(ops: &[Op]) -> usize {
    let ops = ops.iter().map(|op| OP_OVERHEAD_BYTES + op_bytes(op));
    OP_OVERHEAD_BYTES + ops.sum::<usize>()
}

/// Asserts what [`crate::Engine::submit`] says about keys.
pub(crate) fn assert_batch(batch: &Batch) {
    let shard = batch.shard;
    for op in &batch.ops {
        match op {
            Op::Put { family, key, value } => {
                assert_key(shard, *family, key);
                assert!(
                    value.len() <= VALUE_BYTES_MAX,
                    "a value of {} bytes cannot be stored",
                    value.len()
                );
            }
            Op::Delete { family, key } => assert_key(shard, *family, key),
            Op::DropRange { family, from, to } => {
                assert_key(shard, *family, from);
                let next_shard = shard.checked_add(1).map(Shard::to_be_bytes);
                let ends_here = shard_of(to) == Some(shard)
                    || next_shard.is_some_and(|prefix| to.as_ref() == prefix);
                assert!(ends_here, "a range of shard {shard} ends in another shard");
                let spares_engine_keys = *family != Family::Meta || from.len() > 2;
                assert!(spares_engine_keys, "a range covers keys of the engine");
            }
        }
    }
}

fn assert_key(shard: Shard, family: Family, key: &[u8]) {
    assert!(
        shard_of(key) == Some(shard),
        "a batch of shard {shard} has a key that does not start with it"
    );
    assert!(key.len() <= KEY_BYTES_MAX, "a key of {} bytes cannot be stored", key.len());
    assert!(
        family != Family::Meta || key.get(2) != Some(&0),
        "keys of the meta family whose third byte is zero belong to the engine"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_survives_its_encoding() {
        let term = 0x0102_0304_0506_0708;
        assert_eq!(decode_term(3, &encode_term(term)).unwrap(), term);
        assert!(matches!(decode_term(3, b"x"), Err(StoreError::Corrupt(_))));
    }

    #[test]
    fn the_term_key_is_the_shards_and_reserved() {
        let key = meta_term_key(0x0102);
        assert_eq!(key.as_ref(), b"\x01\x02\0term");
        assert_eq!(shard_of(&key), Some(0x0102));
        assert_eq!(shard_of(b"\x01"), None);
    }

    #[test]
    #[should_panic(expected = "does not start with it")]
    fn a_key_of_another_shard_is_a_bug() {
        assert_batch(&Batch {
            shard: 1,
            term: 1,
            ops: vec![Op::Delete { family: Family::Job, key: Bytes::from_static(b"\0\x02x") }],
        });
    }

    #[test]
    #[should_panic(expected = "belong to the engine")]
    fn the_term_cannot_be_overwritten_by_a_batch() {
        assert_batch(&Batch {
            shard: 1,
            term: 1,
            ops: vec![Op::Delete { family: Family::Meta, key: meta_term_key(1) }],
        });
    }
}
