//! What workers and servers say to one another, and the servers of a cluster among themselves.
//!
//! The protocols themselves, with their rules, are the files in `proto`; this crate is those files in
//! Rust and nothing else. Who says what when is decided in the server's `work` and `cluster`, in the
//! agent, and in `bellwether-raft`.

/// Version 1 of what nodes of a cluster say to one another.
pub mod peer {
    #[allow(missing_docs, clippy::all)]
    pub mod v1 {
        tonic::include_proto!("bellwether.peer.v1");
    }
}

/// What nodes of a cluster ask of one another on behalf of those who asked them.
pub mod node {
    /// Version 1 of it.
    #[allow(missing_docs, clippy::all)]
    pub mod v1 {
        tonic::include_proto!("bellwether.node.v1");
    }
}

/// Version 1 of the protocol of workers.
#[allow(missing_docs, clippy::all)]
pub mod v1 {
    tonic::include_proto!("bellwether.worker.v1");
}
