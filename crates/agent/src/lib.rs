//! The worker's end of the conversation with a server.
//!
//! A [`Session`] dials in, keeps the connection and the lease, and carries attempts one way and
//! reports the other. It knows nothing of how attempts are run: that is a [`Runner`]'s business,
//! which may start processes or call functions of the application it lives in.
//!
//! ```text
//!             ┌──────────────────── Session::run ────────────────────┐
//!  server ◄──►│ dial → hello → welcome → assignments, stops, answers ├──► Runner::start, stop
//!             │   ▲                        ▲ reports, numbered       │◄── Handle::report
//!             │   └── backoff ◄── broken ──┘                         │
//!             │ lease: stops all work in time, whatever the rest does├──► Runner::stop
//!             └──────────────────────────────────────────────────────┘
//! ```
//!
//! Invariants:
//! - a report is kept and sent again until the server says that it is stored;
//! - what was assigned is held, and named in every hello, until its end is stored;
//! - the lease counts from when a heartbeat that was answered was sent, on a clock that goes on
//!   while the machine sleeps ([`boot_ms`]); before it ends, everything is told to stop;
//! - a server that is silent and one that is down are different things: see [`Lease`].
//!
//! What it deliberately does not do: keep anything on disk. A runner that can survive its process
//! says in [`Runner::held`] what it still has.
//!
//! Where to start reading: [`Runner`], then `session`, then `lease` for the arithmetic.

#![forbid(unsafe_code)]

mod address;
mod backoff;
mod clock;
mod conversation;
mod dial;
mod error;
mod held;
mod keeper;
mod lease;
mod options;
mod outbox;
mod runner;
mod session;

pub use address::Address;
pub use bellwether_protocol::v1 as protocol;
pub use clock::{boot_id, boot_ms, now_ms};
pub use error::SessionError;
pub use lease::Lease;
pub use options::{Identity, Options};
pub use runner::{Runner, StopWhy};
pub use session::{Handle, Session};
