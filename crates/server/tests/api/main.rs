//! The server from outside: a real one in this process, on a directory of its own, asked over HTTP.
//!
//! Each test names the requirement it guards. Nothing sleeps: tests wait for conditions.

#![allow(clippy::unwrap_used)]

mod access;
mod backups;
mod bad_input;
mod batches;
mod control;
mod create;
mod format;
mod history;
mod lists;
mod namespaces;
mod placement;
mod polling;
mod puppet;
mod queues;
mod restart;
mod targets;
mod workers;
mod world;
