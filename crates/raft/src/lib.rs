//! Shards replicated among nodes by Raft: a group of replicas for each shard.

#![forbid(unsafe_code)]

pub mod arrival;
pub mod codec;
mod compaction;
pub mod engine;
mod failure;
pub mod log;
pub mod machine;
mod member;
pub mod net;
pub mod runtime;
pub mod snapshot;
mod standing;
pub mod storage;
mod taking_in;
pub mod types;
pub mod watch;

pub use standing::{Progress, Standing, Watch};
