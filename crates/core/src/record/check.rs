//! Whether a stored row can be understood: its key taken apart, its record decoded.
//!
//! It says nothing about whether rows go together. Rows that a later version may have added, under
//! keys that this one does not know, pass.

use bytes::Bytes;
use prost::Message;

use super::{
    Audit, BatchRow, Definition, Filed, GroupRow, ItemChunk, JobRow, JobState, KeyRow, OneOff,
    OutputChunk, PartRow, QueueRow, RestoreRow, RunRow, ShardRow, StoreRow, Tick, TokenRow, decode,
};
use crate::key::{self, DueKey, DueKind, Place};
use crate::waist::{Family, StoreError};

/// Checks one row.
///
/// # Errors
/// [`StoreError::Corrupt`] if it cannot be understood.
pub fn check_row(family: Family, key: &[u8], value: &Bytes) -> Result<(), StoreError> {
    match family {
        Family::Meta => check_meta(key, value),
        Family::Due => check_due(key, value),
        Family::Index => {
            key::read_run(key)?;
            reads::<Filed>(family, value)
        }
        Family::Job => {
            key::read_run(key)?;
            let row: JobRow = decode(family.name(), value.clone())?;
            reads::<Definition>(family, &row.definition)
        }
        Family::State => match key::read_run(key)?.1 {
            None => reads::<JobState>(family, value),
            Some(_) => reads::<Filed>(family, value),
        },
        Family::Active => {
            key::read_run(key)?;
            check_run(family, value)
        }
        Family::History => {
            Place::read(key)?;
            check_run(family, value)
        }
        Family::Tick => {
            key::read_tick(key)?;
            reads::<Tick>(family, value)
        }
        Family::Key => {
            key::read_caller_key(key)?;
            reads::<KeyRow>(family, value)
        }
        Family::Tag | Family::Order => Ok(()),
        Family::Dead => {
            key::read_dead(key)?;
            reads::<Filed>(family, value)
        }
        Family::Output => {
            Place::read(key)?;
            reads::<OutputChunk>(family, value)
        }
        Family::Audit => {
            key::read_audit(key)?;
            reads::<Audit>(family, value)
        }
        Family::Batch => check_batch(key, value),
    }
}

fn reads<M: Message + Default>(family: Family, value: &Bytes) -> Result<(), StoreError> {
    decode::<M>(family.name(), value.clone()).map(drop)
}

fn check_meta(key: &[u8], value: &Bytes) -> Result<(), StoreError> {
    let name = key.get(2..).unwrap_or_default();
    let family = Family::Meta;
    match name {
        b"shard" => reads::<ShardRow>(family, value),
        b"store" => reads::<StoreRow>(family, value),
        _ if name.starts_with(b"restore") => reads::<RestoreRow>(family, value),
        _ if name.starts_with(b"group") => {
            key::read_group(key)?;
            reads::<GroupRow>(family, value)
        }
        _ if name.starts_with(b"token") => reads::<TokenRow>(family, value),
        _ if name.starts_with(b"queue") => {
            key::read_queue(key)?;
            reads::<QueueRow>(family, value)
        }
        _ => Ok(()),
    }
}

fn check_due(key: &[u8], value: &Bytes) -> Result<(), StoreError> {
    if DueKey::read(key)?.kind != DueKind::OneOff {
        return Ok(());
    }
    let job: OneOff = decode(Family::Due.name(), value.clone())?;
    reads::<Definition>(Family::Due, &job.definition)
}

fn check_run(family: Family, value: &Bytes) -> Result<(), StoreError> {
    let row: RunRow = decode(family.name(), value.clone())?;
    match row.run {
        Some(_) => Ok(()),
        None => Err(StoreError::Corrupt(format!("{}: a run without a run", family.name()))),
    }
}

fn check_batch(key: &[u8], value: &Bytes) -> Result<(), StoreError> {
    let family = Family::Batch;
    match key.get(2) {
        Some(1) => reads::<BatchRow>(family, value),
        Some(2) => reads::<PartRow>(family, value),
        Some(3) => reads::<ItemChunk>(family, value),
        Some(4) => reads::<KeyRow>(family, value),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{JobId, RunId};
    use crate::record::{Run, encode};
    use crate::time::Time;

    #[test]
    fn rows_that_cannot_be_understood_are_found() {
        let id = JobId::new(Time(1_767_225_600_000), 3, 1);
        let run = RunId { job: id, n: 1 };
        let open = encode(&RunRow { run: Some(Run::default()), job: None });
        let job = encode(&JobRow { definition: Bytes::from_static(b"\xff"), ..JobRow::default() });
        for (family, key, value, good) in [
            (Family::Active, key::run(run), open.clone(), true),
            (Family::Active, key::run(run), Bytes::new(), false),
            (Family::Active, Bytes::from_static(b"\0\x03x"), open.clone(), false),
            (Family::Job, key::job(id), encode(&JobRow::default()), true),
            (Family::Job, key::job(id), job, false),
            (Family::State, key::job(id), Bytes::from_static(b"\x08"), false),
            (Family::Meta, key::store_row(), encode(&StoreRow::default()), true),
            (Family::Meta, key::store_row(), Bytes::from_static(b"\xff\xff"), false),
            (Family::Due, Bytes::from_static(b"\0\x03\0\0\0\0\0\0\0\0\x63"), Bytes::new(), false),
        ] {
            assert_eq!(check_row(family, &key, &value).is_ok(), good, "{family:?} {key:?}");
        }
    }
}
