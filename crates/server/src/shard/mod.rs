//! Shards at work: one thread each, that gathers inputs, decides, commits and only then acts.
//!
//! ```text
//!   inbox ──┐
//!   due   ──┼─► Turn (pure) ─► commit ─► replies, assignments, stops, notices
//!   slots ──┘                    │
//!                                └─ fails: the shard stops; with it the server, unless another leads
//! ```
//!
//! The order is the guarantee: nothing leaves this module before the batch that decided it is
//! durable. While a shard waits for its commit the others go on, and the engine makes one sync of
//! what all of them submitted.
//!
//! What is decided is `bellwether_core::shard`, which a simulation runs as well; here it waits, is
//! committed and performed. [`ShardHandle`] is all that others see; its inbox stays inside.

mod handle;
mod inbox;
mod looping;
mod outbox;
mod recover;
mod tenure;

pub use handle::{Asked, Claimed, Failure, Grant, Item, ShardHandle};
pub use looping::ShardParts;
pub use outbox::{Afar, deliver};
pub use tenure::{Gone, Held, Holding, Office};
