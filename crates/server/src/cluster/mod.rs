//! This node's part in a cluster.

mod identity;

pub use identity::NodeIdentity;
