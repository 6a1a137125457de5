//! The groups of a node, and the way of proposals into them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bellwether_core::waist::{Shard, StoreError};
use bellwether_store::Applied;
use openraft::Raft;
use openraft::errors::ClientWriteError;
use openraft::raft::ClientWriteResult;
use parking_lot::{Mutex, RwLock};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::machine::Machine;
use crate::net::Groups;
use crate::types::{Callback, Command, Types};

/// How long a group may take to finish what was asked of it when it is closed.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// A group of Raft.
pub type Group = Raft<Types, Machine>;
/// Something to be proposed, and who wants to know what became of it.
type Proposal = (Command, Asker);
/// What is told of a proposal's end.
type Told = Box<dyn FnOnce(Result<Applied, StoreError>) + Send>;

/// Whoever wants to know what became of a proposal. They hear of it in any case, also if it is
/// dropped: a group that stops forgets what it was asked.
pub(crate) struct Asker(Option<Told>);

impl Asker {
    pub fn new(done: impl FnOnce(Result<Applied, StoreError>) + Send + 'static) -> Asker {
        Asker(Some(Box::new(done)))
    }

    pub fn hears(mut self, result: Result<Applied, StoreError>) {
        if let Some(done) = self.0.take() {
            done(result);
        }
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done(Err(StoreError::Closed));
        }
    }
}

/// A group of this node.
pub(crate) struct Member {
    pub raft: Group,
    /// Gone once it is closed.
    proposals: Mutex<Option<mpsc::UnboundedSender<Proposal>>>,
    proposing: Mutex<Option<JoinHandle<()>>>,
}

impl Member {
    pub fn new(shard: Shard, raft: Group) -> Member {
        let (proposals, queue) = mpsc::unbounded_channel();
        let proposing = Mutex::new(Some(tokio::spawn(propose(shard, raft.clone(), queue))));
        Member { raft, proposals: Mutex::new(Some(proposals)), proposing }
    }

    /// Proposes something. What cannot be sent is dropped, and that is heard.
    pub fn ask(&self, command: Command, asker: Asker) {
        if let Some(proposals) = &*self.proposals.lock() {
            let _ = proposals.send((command, asker));
        }
    }

    /// Finishes what was asked, as far as that can be done soon, and stops.
    pub async fn close(&self) {
        drop(self.proposals.lock().take());
        let proposing = self.proposing.lock().take();
        if let Some(proposing) = proposing {
            let _ = proposing.await;
        }
        // It may have ended by itself.
        let _ = self.raft.shutdown().await;
    }
}

/// Proposes what is asked for, in order.
async fn propose(shard: Shard, raft: Group, mut queue: mpsc::UnboundedReceiver<Proposal>) {
    let mut any = false;
    while let Some((command, asker)) = queue.recv().await {
        any = true;
        let answer = Callback(Box::new(move |result: ClientWriteResult<Types>| {
            let result = result.map(|response| response.data);
            asker.hears(result.map_err(|error| refused(shard, &error)));
        }));
        // If the group has stopped, the answer is dropped, and that is heard.
        let _ = raft.client_write_ff(command, Some(answer)).await;
    }
    if any && raft.is_leader() {
        // Once this has been applied, so has everything before it. Without a quorum it never is.
        let _ = tokio::time::timeout(CLOSE_WITHIN, raft.write_blank()).await;
    }
}

/// Why something was not committed. One that leads no more, and had entries discarded that others
/// never saw, is as healthy as one that never led.
fn refused(shard: Shard, error: &ClientWriteError<Types>) -> StoreError {
    match error {
        ClientWriteError::ForwardToLeader(_) | ClientWriteError::LogEntryDiscarded(_) => {
            StoreError::NotLeader { shard }
        }
        other => StoreError::Failed(format!("the group did not commit it: {other}")),
    }
}

/// The groups of this node, by shard.
#[derive(Default)]
pub(crate) struct Members(RwLock<BTreeMap<Shard, Arc<Member>>>);

impl Members {
    pub fn get(&self, shard: Shard) -> Option<Arc<Member>> {
        self.0.read().get(&shard).cloned()
    }

    pub fn all(&self) -> Vec<(Shard, Arc<Member>)> {
        self.0.read().iter().map(|(shard, member)| (*shard, member.clone())).collect()
    }

    pub fn add(&self, shard: Shard, member: Member) {
        self.0.write().insert(shard, Arc::new(member));
    }

    pub fn remove(&self, shard: Shard) -> Option<Arc<Member>> {
        self.0.write().remove(&shard)
    }

    pub fn take(&self) -> Vec<Arc<Member>> {
        std::mem::take(&mut *self.0.write()).into_values().collect()
    }
}

impl Groups for Members {
    fn group(&self, number: Shard) -> Option<Group> {
        self.get(number).map(|member| member.raft.clone())
    }
}

#[cfg(test)]
mod tests {
    use openraft::errors::ForwardToLeader;

    use super::*;

    #[test]
    fn r92_a_leader_that_was_replaced_has_not_failed() {
        let elsewhere = ForwardToLeader::empty();
        for error in [
            ClientWriteError::ForwardToLeader(elsewhere.clone()),
            ClientWriteError::LogEntryDiscarded(elsewhere),
        ] {
            let told = refused(3, &error);
            assert!(matches!(told, StoreError::NotLeader { shard: 3 }), "{error}: {told}");
        }
    }
}
