//! The JSON of the HTTP API: requests, answers and problems, as types.
//!
//! Server and client share these, and the OpenAPI document is generated from them. They are the
//! wire format and nothing else: what is stored has its own types in `bellwether_core::record`.
//! Field names are fixed; adding an optional field is compatible, anything else is not.
//!
//! Conventions: durations are texts such as `90s` or `1h30m`, times RFC 3339 in UTC with
//! milliseconds, lists `{items, next_cursor}`. A field nobody knows is an error that names it.

#![forbid(unsafe_code)]

mod access;
mod backup;
mod batch;
mod flexible;
mod job;
mod job_schema;
mod lease;
mod page;
mod policy;
mod problem;
mod queue;
mod resources;
mod run;
mod schedule;
mod size;
mod target;
mod text;
mod tick;

pub use access::*;
pub use backup::*;
pub use batch::*;
pub use flexible::*;
pub use job::*;
pub use lease::*;
pub use page::*;
pub use policy::*;
pub use problem::*;
pub use queue::*;
pub use resources::*;
pub use run::*;
pub use schedule::*;
pub use size::*;
pub use target::*;
pub use text::*;
pub use tick::*;

/// What a secret is replaced by in answers. Sent back in an edit, it means "as it was".
pub const MASK: &str = "********";
