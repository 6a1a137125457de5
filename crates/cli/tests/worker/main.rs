//! Workers as processes of their own: what they run, and what happens when they, their server or
//! the connection between them dies.

#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../e2e/support.rs"]
#[allow(dead_code)]
mod support;

mod control;
mod crowd;
mod death;
mod process;
mod refusals;
mod simulated;
mod wire;
mod work;
