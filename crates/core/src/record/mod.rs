//! What is stored: the records behind the keys of [`crate::key`], as protobuf messages.
//!
//! These are the stored format and nothing else: the JSON of the API has its own types. Fields are
//! only ever added; a number once used is not used again (see `docs/changing-a-stored-format.md`).
//! Times are milliseconds since the Unix epoch, durations milliseconds, and zero or empty means
//! "not given" unless a field says otherwise.

mod batch;
mod check;
mod definition;
mod run;
mod state;

pub use batch::*;
pub use check::check_row;
pub use definition::*;
pub use run::*;
pub use state::*;

use bytes::Bytes;
use prost::Message;

use crate::waist::StoreError;

/// Reads a record from stored bytes.
///
/// # Errors
/// [`StoreError::Corrupt`] naming what was to be read.
pub fn decode<M: Message + Default>(what: &str, bytes: Bytes) -> Result<M, StoreError> {
    M::decode(bytes).map_err(|error| StoreError::Corrupt(format!("{what}: {error}")))
}

/// Writes a record as stored bytes.
pub fn encode<M: Message>(record: &M) -> Bytes {
    let mut buffer = Vec::with_capacity(record.encoded_len());
    record.encode_raw(&mut buffer);
    Bytes::from(buffer)
}
