//! The types of a turn as messages of `bellwether.node.v1`, and back.
//!
//! The messages are a format of their own, with rules that stand in `node.proto`; no type of the core
//! travels as it is. Records that are stored travel as the bytes that would be stored, so that they
//! change by the rules of the stored format alone.
//!
//! Whoever decodes trusts nothing: what is missing, damaged or not known to this version is a
//! [`WireError`] that names the field. Nothing is replaced by a default. Sizes are not looked at here:
//! they are bounded where messages are received.
//!
//! Where to start reading: [`ask`], then [`input`].

pub mod ask;
pub mod attend;
mod batch;
pub mod bounds;
pub mod claims;
pub mod input;
pub mod live;
pub mod notice;
pub mod reply;
pub mod report;
pub mod rows;
pub mod work;

#[cfg(test)]
mod tests;

use bellwether_core::id::{JobId, RunId};
use bellwether_core::record;
use bellwether_core::time::Time;
use bellwether_protocol::node::v1;
use bytes::Bytes;

/// Why something cannot be made a message of, or a message not be understood.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WireError {
    /// A field that must be there is not.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// Of several things that it could be, it is none, or one that only newer versions know.
    #[error("{0} is missing or of a kind that this version does not know")]
    UnknownKind(&'static str),
    /// A number stands for something that this version does not know.
    #[error("{field} is {value}, which this version does not know")]
    UnknownValue {
        /// Which field.
        field: &'static str,
        /// What it says.
        value: i64,
    },
    /// A stored record within it cannot be read.
    #[error("{field} cannot be read: {reason}")]
    Damaged {
        /// Which field.
        field: &'static str,
        /// Why not.
        reason: String,
    },
    /// It is no other node's business.
    #[error("{0} is a shard's own and is not sent to others")]
    NotSent(&'static str),
}

/// A field that must be there.
fn required<T>(field: &'static str, value: Option<T>) -> Result<T, WireError> {
    value.ok_or(WireError::Missing(field))
}

fn time(field: &'static str, value: Option<i64>) -> Result<Time, WireError> {
    required(field, value).map(Time)
}

fn job(field: &'static str, value: Option<u64>) -> Result<JobId, WireError> {
    required(field, value).map(JobId)
}

fn encode_run(run: RunId) -> v1::RunId {
    v1::RunId { job: Some(run.job.0), n: Some(run.n) }
}

fn decode_run(field: &'static str, run: Option<v1::RunId>) -> Result<RunId, WireError> {
    let run = required(field, run)?;
    Ok(RunId { job: job("RunId.job", run.job)?, n: required("RunId.n", run.n)? })
}

/// A stored record that must be there.
fn stored<M>(field: &'static str, bytes: Option<Bytes>) -> Result<M, WireError>
where
    M: prost::Message + Default,
{
    read_stored(field, required(field, bytes)?)
}

/// Stored records, in order.
fn all_stored<M>(field: &'static str, all: Vec<Bytes>) -> Result<Vec<M>, WireError>
where
    M: prost::Message + Default,
{
    all.into_iter().map(|bytes| read_stored(field, bytes)).collect()
}

fn read_stored<M: prost::Message + Default>(
    field: &'static str,
    bytes: Bytes,
) -> Result<M, WireError> {
    M::decode(bytes).map_err(|error| WireError::Damaged { field, reason: error.to_string() })
}

fn encode_all<M: prost::Message>(records: &[M]) -> Vec<Bytes> {
    records.iter().map(record::encode).collect()
}
