//! Workers that dial in, and the leases under which they hold runs.
//!
//! ```text
//!            hello / heartbeat / reports              promised and committed
//!   worker ─────────────────────────────► Remotes ◄───────────────────────── shard
//!          ◄───────────────────────────── session ──── what it held, when its lease has ended ─►
//! ```
//! [`Remotes`] knows each worker by name: what it was sent and has not reported yet, and when it
//! was heard last. A worker that is silent for longer than its lease is given up: the shards are
//! told that nobody can say any more what became of its attempts. Who had what is stored with the
//! runs, so after a restart the same workers are known again, each with a fresh lease.
//!
//! What is not decided here: what becomes of a run. A report counts if its fencing token does, and
//! that only the run's shard knows.

mod introduction;
mod known;
mod moving;
mod polling;
mod printed;
mod registry;
mod service;
mod session;
mod surroundings;

pub use introduction::{Capacity, check_worker_name};
pub use polling::{Piece, Polling};
pub use printed::PIECES_MAX;
pub use registry::{LeaseSettings, NotLetIn, Remotes, WorkerState};
pub use service::service;
pub use surroundings::{Silent, Surroundings};
