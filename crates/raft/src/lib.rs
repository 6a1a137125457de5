//! Shards replicated among nodes by Raft: a group of replicas for each shard.

#![forbid(unsafe_code)]

pub mod codec;
pub mod engine;
pub mod log;
pub mod machine;
pub mod net;
pub mod runtime;
pub mod snapshot;
pub mod storage;
pub mod types;
pub mod watch;
