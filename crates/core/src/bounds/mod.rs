//! The bounds of queues, kept by all shards together: how much may be under way at once, and how much
//! be launched in a second.
//!
//! ```text
//!   shard (leader)                                        keeper (where shard 0 acts)
//!   Shares: what is under way,       ── Ask seq n ──►     what everybody was left
//!           what it may have,        ◄── Answer n ──      divided anew whenever anybody asks
//!           what waits               ◄── Answer n ──      (also later, as others give back)
//! ```
//! Every shard has, for each queue with bounds, a *ceiling* of what it may have under way, by
//! namespace. It begins its term with none, so with what is under way and nothing more. The [`Keeper`]
//! divides a queue's bound among the shards, the run that comes first first.
//!
//! What makes it exact, without any clock:
//! - A shard claims only below its ceiling, and lets a claim out only when it is committed. One that
//!   was replaced without knowing commits nothing, so whatever it believes to have does no harm; the
//!   next one finds all that was committed.
//! - The keeper counts for each shard the most that this may have or get by anything that it was told:
//!   what it said in its last ask, and every answer to that. Only the next ask lowers it, and a shard
//!   tells of an end only when that is committed.
//! - A shard listens only to answers to its last ask. So an ask that is lost, and one to another
//!   keeper, voids all answers that may still be on their way.
//! - A new keeper gives nothing before it has heard all shards. Whoever speaks for a shard for the
//!   first time, and whoever hears it, has the own lead confirmed in between, which is for the shell
//!   to see to: so a keeper that was replaced takes nobody new in, and a leader that was replaced is
//!   not taken for the shard.
//!
//! Launches by rate are the same with tokens: the keeper has the bucket, and gives out numbers up to
//! which a shard may count its launches. What a shard cannot use it gives back at once. A new keeper
//! begins with an empty bucket.
//!
//! A shard that has room and does not use it, because no worker with a free slot takes what waits
//! there, says that it is *stuck*, and is served after the others for a while.
//!
//! Not here: which worker gets what, which is for [`crate::shard::Slots`]. Where to start reading:
//! [`Shares::tell`], then [`Keeper::hear`].

mod bucket;
mod divide;
mod keeper;
mod shares;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::time::Time;
use crate::waist::{Shard, Term};

pub use keeper::Keeper;
pub use shares::Shares;

/// The bounds of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limit {
    /// How many runs may be under way at once; `None` for any number.
    pub concurrency: Option<u64>,
    /// How many runs may be launched in 1,000 seconds; 0 for any number.
    pub rate_milli: u64,
    /// Whether nothing is launched.
    pub paused: bool,
}

/// The bounds of all queues that have any.
pub type Limits = BTreeMap<String, Limit>;

/// How one namespace of a queue stands in a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Want {
    /// How many runs are with workers.
    pub under_way: u64,
    /// How many may be.
    pub ceiling: u64,
    /// How many were launched since the term began.
    pub launched: u64,
    /// How many may have been.
    pub launches: u64,
    /// How many wait that are of the first one's priority, up to a number that is worth counting.
    pub waiting: u64,
    /// The first one's priority, negated, and its time.
    pub first: (i32, Time),
    /// Whether there was room for it for a while, and nobody to run it.
    pub stuck: bool,
}

/// What a shard says about a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ask {
    /// Which shard.
    pub shard: Shard,
    /// The term under which it acts.
    pub term: Term,
    /// Which queue.
    pub queue: String,
    /// Higher than that of any ask before in this term.
    pub seq: u64,
    /// How it stands, by namespace.
    pub wants: BTreeMap<String, Want>,
}

/// What a namespace of a queue may have in a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Left {
    /// How many runs may be under way.
    pub ceiling: u64,
    /// How many may have been launched since the term began.
    pub launches: u64,
}

/// What the keeper says to a shard about a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Which shard.
    pub shard: Shard,
    /// The term of the ask; 0 if there was none.
    pub term: Term,
    /// Which queue.
    pub queue: String,
    /// The ask that this is an answer to; `None` if the keeper has not heard of the queue and wants to.
    pub seq: Option<u64>,
    /// What it may have, by namespace.
    pub left: BTreeMap<String, Left>,
}
