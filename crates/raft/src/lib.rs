//! Shards replicated among nodes by Raft: a group of replicas for each shard.

#![forbid(unsafe_code)]

pub mod codec;
pub mod log;
pub mod machine;
pub mod storage;
pub mod types;
