//! The pure core of Bellwether: schedules, ids, stored records and the rules.
//!
//! Everything here is a plain function of its arguments. There is no clock, no I/O, no
//! randomness, no async and no logging: time comes in as [`time::Time`], stored state
//! through [`waist::View`], and what is to be done comes out as values. The lints in this
//! crate's `clippy.toml` enforce it.
//!
//! Where to start reading: [`waist`] for what a store must offer, [`schedule`] for when
//! things are due.

#![forbid(unsafe_code)]

pub mod crontab;
pub mod schedule;
pub mod time;
pub mod waist;
