//! What is live and in memory of one node, for those who ask another.
//!
//! ```text
//!   listeners here ◄── hearing ◄── Listen ── every other node      what happens
//!   requests here ──── relaying ── Relay ──► the node that knows    workers, figures, output
//! ```
//! A node tells others only what is its own: what happens in shards that act there, workers that are
//! connected there. So nothing is told twice, and no node asks in circles. Everything that is stored
//! is read from the replicas instead (`cluster::reading`).

mod hearing;
mod relaying;
mod service;

pub use hearing::Hearing;
pub use relaying::{Relay, Relayed};
pub use service::service;
