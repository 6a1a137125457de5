//! A whole cluster in virtual time, in which one seed decides everything.
//!
//! ```text
//!   clients ──► nodes ◄──► nodes      links that lose, delay, double and reorder, and are cut
//!                │  ▲                 nodes that crash, are paused, restarted, added, removed
//!   workers ◄────┘  └── disks         disks that lose what was not synced
//!      │
//!      └──► record: what really started where ──► checks
//! ```
//! What runs is the product's own code where guarantees are made: what a shard decides
//! (`bellwether_core::shard`), Raft (openraft with our log, our storage and our state machine of
//! `bellwether_raft`). Around it everything is simulated: time, chance, the network, disks, workers,
//! clients, and whatever goes wrong. All of it is on one thread.
//!
//! Not simulated: HTTP and gRPC, the engine's own threads, tables on disk, the server's dispatch and
//! sessions (the rules of leases are, in `registry` and `worker`), pruning.
//!
//! Where to start reading: [`simulate`], then `shard`, `nemesis` and `check`; `docs/simulation.md` for
//! how to use it and what it has found.

#![forbid(unsafe_code)]

mod asked;
mod batches;
mod chance;
mod check;
mod client;
mod coverage;
mod disk;
mod jobs;
mod links;
mod message;
mod mutant;
mod nemesis;
mod node;
mod orders;
mod record;
mod registry;
mod run;
mod shard;
mod steer;
mod trace;
mod wire;
mod worker;
mod world;

pub use coverage::Coverage;
pub use mutant::Mutant;
pub use run::{Outcome, simulate};
