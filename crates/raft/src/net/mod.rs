//! How groups reach their replicas on other nodes.
//!
//! All groups of a node share one connection to each of its peers, but a copy of a shard goes over one
//! of its own. Messages are those of `peer.proto`; what openraft calls them is turned into these and
//! back in `convert`.

mod client;
mod convert;
mod copies;
mod dial;
#[cfg(test)]
mod fixtures;
mod server;
mod silence;
#[cfg(test)]
mod tests;

pub use client::Network;
pub(crate) use copies::Copies;
pub use dial::{CLUSTER_HEADER, Dialing, NODE_HEADER, SECRET_HEADER, Way};
pub use server::{Groups, Service, service};

/// The largest message that is sent or taken.
const MESSAGE_MAX: usize = 256 * 1024 * 1024;

/// Who this node is, as it tells its peers.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The cluster's id: nodes of another one are turned away.
    pub cluster: String,
    /// This node.
    pub node: u64,
}
