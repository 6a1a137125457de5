#![doc = include_str!("../README.md")]
//!
//! # Where things are
//! [`Client`] has a method per endpoint; the types they take and give are in [`api`] and shared
//! with the server. Filters of lists are in this crate ([`JobFilter`], [`RunFilter`], …).
//!
//! What this crate deliberately does not do: retry (a request that failed may have been carried
//! out; creating with a `key` can be repeated safely) other than at another server of a cluster, keep
//! state but for who answers and how old lists were, or interpret schedules.

#![forbid(unsafe_code)]

mod access;
mod address;
mod backups;
mod batch;
mod batches;
mod builder;
mod client;
mod error;
mod events;
mod filter;
mod groups;
mod jobs;
mod lines;
mod node;
mod output;
mod pages;
mod queues;
mod request;
mod runs;
mod schedules;
mod servers;

pub use batches::CreatedBatch;
/// The JSON of the HTTP API.
pub use bellwether_api as api;
pub use builder::ClientBuilder;
pub use client::Client;
pub use error::{ClientError, Unreached};
pub use events::Heard;
pub use filter::{
    BatchRunFilter, EventFilter, JobFilter, OutputFilter, OutputStream, PageFilter, RunFilter,
};
pub use jobs::{Created, Put};
pub use node::Health;

/// The address of a server that was started without saying where to listen.
pub const DEFAULT_SERVER: &str = "127.0.0.1:2355";
