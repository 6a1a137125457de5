//! The pure core of Bellwether: schedules, ids, stored records and the rules.
//!
//! Everything here is a plain function of its arguments. There is no clock, no I/O, no
//! randomness, no async and no logging: time comes in as [`time::Time`], stored state
//! through [`waist::View`], and what is to be done comes out as values. The lints in this
//! crate's `clippy.toml` enforce it.
//!
//! Where to start reading: [`turn`] for how decisions are made, [`shard`] for what a leader does with
//! them, [`waist`] for what a store must offer, [`schedule`] for when things are due, [`run`] for the
//! life of a run, [`placement`] for which nodes have which shards, [`bounds`] for what queues may have
//! under way.

#![forbid(unsafe_code)]

pub mod agenda;
pub mod amount;
pub mod backoff;
pub mod batch;
pub mod bounds;
pub mod crontab;
pub mod id;
pub mod key;
pub mod placement;
pub mod read;
pub mod record;
pub mod run;
pub mod schedule;
pub mod settings;
pub mod shard;
pub mod spec;
pub mod time;
pub mod turn;
pub mod waist;
pub mod wheel;
