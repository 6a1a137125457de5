//! Schedule jobs with Bellwether, and run them inside your application.
//!
//! [`Client`] talks to the HTTP API: create jobs, look at runs. [`Worker`] dials in to a server and
//! runs the jobs whose `job_type` it has handlers for.
//!
//! ```text
//!   server ◄── session (lease, heartbeats, reports) ── Worker ──► your handlers, a task each
//! ```
//! What a handler can rely on: it runs under a lease, so while it runs no other worker has the same
//! run; when the lease is about to end, [`Run::canceled`] resolves, and if it does not stop, it is
//! stopped. Its result is reported until the server has stored it. A run may still be attempted more
//! than once (a machine dies, a job is retried): [`Run::idempotency_key`] is the same for all of them
//! and [`Run::fencing_token`] grows, for whatever it writes to.

#![forbid(unsafe_code)]

mod attempt;
mod failure;
mod handlers;
mod run;
mod worker;

pub use bellwether_client::*;
pub use failure::Failure;
pub use run::{Run, Stopped};
pub use worker::{RunningWorker, Worker, WorkerError};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/sdk-rust.md")]
struct Guide;
