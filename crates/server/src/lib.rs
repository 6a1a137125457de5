//! The server: shards over a store, the HTTP API, dispatch and the built-in worker.
//!
//! ```text
//!   http, ingest ──ask──► shard (thread) ──commit──► engine          one store, one sync for all shards
//!     │ read          │ reserve, hand over
//!     ▼               ▼
//!   view          Dispatch ──► LocalWorker ──report──► shard
//! ```
//!
//! This crate is the thin shell around `bellwether_core`: it reads the clock, waits, talks to disk,
//! network and processes, and decides nothing itself. Requests that change something go to the
//! shard of the job; requests that only ask read the newest durable view.
//!
//! Where to start reading: [`start()`], then `shard/looping.rs`.

#![forbid(unsafe_code)]

pub mod access;
mod backup;
mod batches;
mod bounds;
mod clock;
mod cluster;
mod config;
pub mod convert;
mod first_token;
mod http;
mod in_step;
mod ingest;
mod live;
mod metrics;
mod node;
mod open;
mod peering;
mod shard;
mod spread;
mod start;
mod work;

pub use bellwether_trust::PeerFiles;
pub use config::{BackupConfig, Config, InvalidConfig, TlsFiles};
pub use http::openapi;
pub use ingest::Source;
pub use peering::{PEER_PORT, PeerAddress};
pub use start::{RunningServer, start};
