//! Steps of the cluster's manager, for its log and to tell them apart.

use bellwether_core::placement::{Role, Step};
use bellwether_core::waist::Shard;

/// A step in words.
pub(super) fn told(step: Step) -> String {
    match step {
        Step::Place { shard, node, role: Role::Voter } => {
            format!("node {node} has a replica of shard {shard} that votes")
        }
        Step::Place { shard, node, role: Role::Learner } => {
            format!("node {node} has a replica of shard {shard} that follows")
        }
        Step::Remove { shard, node } => format!("node {node} has no replica of shard {shard}"),
        Step::Lead { shard, node } => format!("node {node} leads shard {shard}"),
    }
}

/// The shard that a step is about.
pub(super) fn shard_of(step: Step) -> Shard {
    match step {
        Step::Place { shard, .. } | Step::Remove { shard, .. } | Step::Lead { shard, .. } => shard,
    }
}
