//! Executes attempts: runs a command, makes an HTTP request or hands a message to a broker, watches
//! it, and says how it ended.
//!
//! This crate knows nothing of shards, stores, schedules or the server's API. It is handed one
//! [`Attempt`], performs it exactly once, and returns one [`Finished`]. Whether there is to be
//! another attempt is decided elsewhere.
//!
//! ```text
//!              Attempt ──►  Executor::execute  ──► Finished
//!   Control::stop ─────────────►  │  ▲
//!                                 ▼  │ bytes
//!   any number of readers ◄── LiveOutput (head + tail, bounded)
//! ```
//!
//! Invariants:
//! - memory per attempt is bounded by its output limit, whatever the target prints or answers;
//! - a reader of output never slows a command down;
//! - when an attempt was stopped or timed out, its whole process tree is gone before it is
//!   reported, or the report says which processes could not be ended;
//! - credentials appear in no log, no error and no `Debug` text.
//!
//! Where to start reading: [`Executor`], then `command`, `http` and `publish` for the kinds of
//! target, [`LiveOutput`] for output, and `tree` for how a process tree is found and ended. [`host`]
//! runs attempts on a machine of their own, for a server elsewhere; [`guard`] ends them when the server
//! that runs them itself cannot.

mod attempt;
mod cgroup;
mod command;
mod control;
mod executor;
mod finished;
pub mod guard;
pub mod host;
mod http;
mod orphans;
mod os;
mod output;
pub mod publish;
mod rules;
mod tree;
mod usage;
mod user;
pub mod wire;

pub use bellwether_trust::{Trust, TrustError};

pub use attempt::{
    Attempt, Auth, Broker, CommandTarget, Flaw, HttpTarget, Login, Program, PublishTarget, Target,
};
pub use cgroup::prepare as prepare_memory_limits;
pub use control::{Control, Stop, StopReason};
pub use executor::{Executor, ExecutorOptions};
pub use finished::{Failure, Finished, HttpResponse, Outcome, ReasonCode, Usage};
pub use orphans::{Orphan, kill_orphans};
pub use output::{Captured, Chunk, Event, Follower, LiveOutput, Stream};
pub use rules::{JsonRule, SuccessRules};
