//! A machine that runs attempts for a server elsewhere.
//!
//! Every command runs under a **supervisor**: a small process of its own session that outlives the
//! worker. Worker and supervisor share nothing but a directory, so either may die without the
//! other:
//!
//! ```text
//!  STATE/lock        held by the worker
//!  STATE/name        whose directory this is
//!  STATE/lease       until when work may go on; every supervisor looks at it
//!  STATE/notify      a pipe: supervisors write the name of a directory that has news
//!  STATE/runs/RUN-TOKEN/
//!         meta        what the attempt is        ┐ by the worker
//!         assignment  what to run                │
//!         stop        why and how to stop        │
//!         control     a pipe: "look at `stop`"   ┘
//!         lock        held by whoever answers for the attempt: the supervisor while it lives
//!         started     when it began              ┐ by the supervisor
//!         output      what it prints, as it does │
//!         result      the final report           ┘ (by the worker if there is no supervisor left)
//! ```
//!
//! Pipes only make things quick; nothing is lost if a note is, since both sides look at the files
//! now and then. A directory is removed when the server has stored the end of its attempt.
//!
//! HTTP requests are made by the worker itself. Their results come into a directory only if there
//! is no connection when they end.
//!
//! Where to start reading: [`HostRunner`], then `supervisor`.

mod attempt_dir;
mod entries;
mod files;
mod follow;
mod runner;
mod state_dir;
mod supervisor;

pub use runner::{HostOptions, HostRunner};
pub use state_dir::{StateDir, StateDirError};
pub use supervisor::supervise;
