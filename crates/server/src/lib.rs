//! The server: shards over a store, the HTTP API, dispatch and the built-in worker.

#![forbid(unsafe_code)]

mod config;
pub mod convert;

pub use config::{Config, TlsFiles};
