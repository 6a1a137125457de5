//! What workers and servers say to one another.
//!
//! The protocol itself, with its rules, is `proto/bellwether/worker/v1/worker.proto`; this crate is
//! that file in Rust and nothing else. Who says what when is decided in the server's `work` and in
//! the agent.

/// Version 1 of the protocol.
#[allow(missing_docs, clippy::all)]
pub mod v1 {
    tonic::include_proto!("bellwether.worker.v1");
}
