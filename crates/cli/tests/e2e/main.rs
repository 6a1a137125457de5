//! The real program as a stranger uses it: a server process on a free port, and commands against it.
//!
//! A file per command. Nothing sleeps: tests follow a run to its end, or wait for a condition.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say so at once")]

mod access;
mod apply;
mod backups;
mod batches;
mod certs;
mod crontab;
mod guard;
mod jobs;
mod life;
mod local;
mod runs;
mod servers;
mod settings;
mod storage;
mod support;
