//! The engine as a whole: what every engine must do, clusters in one process, the size of the log, copies of shards.
//!
//! One program: each would make openraft's code for these types anew, which takes longer than the tests.

#![allow(clippy::unwrap_used)]

mod arrival;
mod cluster;
mod compaction;
mod conformance;
mod copies;
mod opened;
