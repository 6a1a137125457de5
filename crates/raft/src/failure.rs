//! Whether the store of this node has failed for good.
//!
//! A log or tables that cannot be written, and a group of Raft that has ended by itself, stay like that
//! until the process is started anew. Nobody below says so to anybody but those who ask for something, and
//! a follower is asked for little: left alone, such a node would look alive and take part in nothing.
//! So whoever runs an engine has to look, and to end when there is something to see.

use openraft::async_runtime::WatchReceiver;

use crate::engine::RaftEngine;

impl RaftEngine {
    /// Why the store cannot go on, if that is so. It never will again.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        if let Some(error) = self.log.failure() {
            return Some(format!("the log cannot be written: {error}"));
        }
        if let Some(error) = self.tables.failure() {
            return Some(error.to_string());
        }
        self.members.all().into_iter().find_map(|(shard, member)| {
            let metrics = member.raft.metrics();
            let running = metrics.borrow_watched().running_state.clone();
            match running {
                Err(error) => Some(format!("the group of shard {shard} has ended: {error}")),
                Ok(()) if metrics.is_over() => {
                    Some(format!("the group of shard {shard} has panicked, which is a bug"))
                }
                Ok(()) => None,
            }
        })
    }
}
