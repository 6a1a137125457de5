//! Getting runs to workers and their results back.
//!
//! [`Dispatch`] knows which workers have free slots. Shards reserve slots before they claim runs,
//! so a full worker gets nothing; what is claimed and committed is handed over. The truth about a
//! run is what its shard has committed: everything here can be lost and is built up again.
//!
//! [`LocalWorker`] is the worker inside the server process; [`Remotes`] are those that dial in.

mod ahead;
mod budget;
mod dispatch;
mod handlers;
mod hints;
mod local;
mod permit;
mod queues;
mod remote;
mod running;
mod seat;
mod table;
mod wire;

pub use budget::Offered;
pub use dispatch::{Dispatch, RosterEntry};
pub use local::{LocalOptions, LocalWorker, built_in_name, is_built_in};
pub use queues::QueueLimits;
pub use remote::{
    Capacity, LeaseSettings, NotLetIn, PIECES_MAX, Piece, Polling, Remotes, Silent, Surroundings,
    WorkerState, check_worker_name, service,
};
