//! Getting runs to workers and their results back.
//!
//! [`Dispatch`] knows which workers have free slots. Shards reserve slots before they claim runs,
//! so a full worker gets nothing; what is claimed and committed is handed over. The truth about a
//! run is what its shard has committed: everything here can be lost and is built up again.
//!
//! [`LocalWorker`] is the worker inside the server process.

mod dispatch;
mod handlers;
mod local;
mod running;
mod wire;

pub use dispatch::{Dispatch, Slots};
pub use local::{LocalOptions, LocalWorker};
