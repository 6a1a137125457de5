//! Tests of the messages, one file for each thing they promise.

mod fixtures;
mod refusals;
mod round_trips;
mod samples;
mod strategies;

/// What the other end gets: a message that has been bytes in between.
fn sent<M: prost::Message + Default>(message: &M) -> M {
    M::decode(message.encode_to_vec().as_slice()).unwrap()
}
