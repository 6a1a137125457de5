//! The groups of a node, and the way of proposals into them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bellwether_core::waist::{Shard, StoreError};
use bellwether_store::Applied;
use futures::FutureExt;
use futures::future::BoxFuture;
use openraft::Raft;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::ClientWriteError;
use openraft::metrics::RaftServerMetrics;
use openraft::raft::ClientWriteResult;
use parking_lot::{Mutex, ReentrantMutex, RwLock};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::arrival::{self, Arrival};
use crate::log::Log;
use crate::machine::Machine;
use crate::net::Groups;
use crate::runtime::blocking;
use crate::types::{Callback, Command, Types};

/// How long a group may take to finish what was asked of it when it is closed.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// A group of Raft.
pub type Group = Raft<Types, Machine>;
/// A proposal that the group has not taken yet, because it has too much to do.
type Proposal = BoxFuture<'static, ()>;
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

/// When a leader has last said something to a replica, and whether that has yet to arrive.
#[derive(Default)]
pub struct Heard {
    last: Mutex<Option<Instant>>,
    /// Whether the replica has yet to arrive.
    pub arrival: Arrival,
}

impl Heard {
    /// A leader says something.
    pub fn note(&self, now: Instant) {
        *self.last.lock() = Some(now);
    }

    /// When that was, if ever.
    #[must_use]
    pub fn last(&self) -> Option<Instant> {
        *self.last.lock()
    }
}

/// A group of this node.
pub(crate) struct Member {
    shard: Shard,
    pub raft: Group,
    pub heard: Arc<Heard>,
    /// Gone once it is closed. Whoever hears of a proposal while it is made, because the group has
    /// stopped, may propose again.
    proposals: ReentrantMutex<RefCell<Option<Proposals>>>,
    proposing: Mutex<Option<JoinHandle<()>>>,
    /// Ends when nothing writes to the tables of the shard any more.
    writing: tokio::sync::Mutex<mpsc::Receiver<()>>,
}

/// The way into a group.
struct Proposals {
    /// What has to wait does so here, in order.
    queue: mpsc::UnboundedSender<Proposal>,
    /// How many do.
    waiting: Arc<AtomicUsize>,
    /// Whether there were any.
    any: Arc<AtomicBool>,
}

impl Member {
    /// A group that has been started. `writing` ends when it has stopped writing to the tables.
    /// `awaited` is the mark of a replica that has yet to arrive, and what it says.
    pub fn new(
        shard: Shard,
        raft: Group,
        writing: mpsc::Receiver<()>,
        awaited: Option<(PathBuf, Arrival)>,
    ) -> Member {
        let (queue, waiters) = mpsc::unbounded_channel();
        let proposals = Proposals { queue, waiting: Arc::default(), any: Arc::default() };
        let (waiting, any) = (proposals.waiting.clone(), proposals.any.clone());
        let proposing = tokio::spawn(propose(raft.clone(), waiters, waiting, any));
        tokio::spawn(keep_time(raft.clone()));
        let (mark, arrival) = awaited.unzip();
        let arrival = arrival.unwrap_or_default();
        let heard = Arc::new(Heard { last: Mutex::default(), arrival });
        if let Some(mark) = mark {
            tokio::spawn(arrive(shard, raft.clone(), heard.clone(), mark));
        }
        let proposals = ReentrantMutex::new(RefCell::new(Some(proposals)));
        let (proposing, writing) = (Mutex::new(Some(proposing)), tokio::sync::Mutex::new(writing));
        Member { shard, raft, heard, proposals, proposing, writing }
    }

    /// Waits until nothing writes to the tables of the shard any more, after it was closed. That may
    /// be long after: a copy that is being taken in is taken in to its end.
    pub async fn until_quiet(&self) {
        // Nobody sends: it ends when all have been dropped who could.
        let _: Option<()> = self.writing.lock().await.recv().await;
    }

    /// The entry that says who takes part, as this replica knows.
    pub fn membership(&self) -> u64 {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        metrics.membership_config.log_id().as_ref().map_or(0, |at| at.index)
    }

    /// Proposes something. What cannot be sent is dropped, and that is heard.
    pub fn ask(&self, command: Command, asker: Asker) {
        let proposals = self.proposals.lock();
        let proposals = proposals.borrow();
        let Some(proposals) = &*proposals else { return };
        proposals.any.store(true, Ordering::Relaxed);
        let (shard, raft) = (self.shard, self.raft.clone());
        let answer = Callback(Box::new(move |result: ClientWriteResult<Types>| {
            let result = result.map(|response| response.data);
            asker.hears(result.map_err(|error| refused(shard, &error)));
        }));
        let mut proposal = async move {
            // If the group has stopped, the answer is dropped, and that is heard.
            let _ = raft.client_write_ff(command, Some(answer)).await;
        }
        .boxed();
        // Usually the group takes it at once, and no task has to wake up for that.
        if proposals.waiting.load(Ordering::Acquire) == 0
            && tokio::task::unconstrained(&mut proposal).now_or_never().is_some()
        {
            return;
        }
        proposals.waiting.fetch_add(1, Ordering::Relaxed);
        let _ = proposals.queue.send(proposal);
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

/// Proposes what has to wait, in order, until the group is closed; then sees to it that all that was
/// proposed has been applied.
async fn propose(
    raft: Group,
    mut waiters: mpsc::UnboundedReceiver<Proposal>,
    waiting: Arc<AtomicUsize>,
    any: Arc<AtomicBool>,
) {
    while let Some(proposal) = waiters.recv().await {
        proposal.await;
        waiting.fetch_sub(1, Ordering::Release);
    }
    if any.load(Ordering::Relaxed) && raft.is_leader() {
        // Once this has been applied, so has everything before it. Without a quorum it never is.
        let _ = tokio::time::timeout(CLOSE_WITHIN, raft.write_blank()).await;
    }
}

/// Whether a node leads a group that nobody else has a part in.
pub(crate) fn leads_alone(metrics: &RaftServerMetrics<Types>) -> bool {
    let mut members = metrics.membership_config.membership().nodes();
    metrics.current_leader == Some(metrics.id) && members.all(|(node, _)| *node == metrics.id)
}

/// Stops the clock of a group while there is nobody to be heard by or to listen to, until the group
/// has stopped: a clock for each of many groups is most of what a node costs that does nothing.
async fn keep_time(raft: Group) {
    let mut metrics = raft.server_metrics();
    loop {
        let alone = leads_alone(&metrics.borrow_watched());
        raft.runtime_config().tick(!alone);
        if metrics.changed().await.is_err() {
            return;
        }
    }
}

/// Lets a replica that was begun anew vote and stand for election once it has arrived.
async fn arrive(shard: Shard, raft: Group, heard: Arc<Heard>, mark: PathBuf) {
    let mut metrics = raft.metrics();
    loop {
        let last = metrics.borrow_watched().last_log_index;
        if heard.arrival.arrived(last) {
            break;
        }
        tokio::select! {
            changed = metrics.changed() => if changed.is_err() { return },
            Some(agreed) = heard.arrival.news() => {
                let mark = mark.clone();
                told(shard, blocking(move || arrival::write(&mark, agreed)).await);
            }
        }
    }
    // If the mark stays, it waits once more after the next start.
    told(shard, blocking(move || arrival::remove(&mark)).await);
    raft.runtime_config().elect(true);
}

fn told(shard: Shard, done: std::io::Result<std::io::Result<()>>) {
    if let Err(error) = done.flatten() {
        tracing::warn!(shard, %error, "what a replica waits for cannot be written down");
    }
}

/// Why something was not committed. One that leads no more, and had entries discarded that others
/// may or may not have seen, is as healthy as one that never led.
fn refused(shard: Shard, error: &ClientWriteError<Types>) -> StoreError {
    match error {
        ClientWriteError::ForwardToLeader(_) => StoreError::NotLeader { shard },
        ClientWriteError::LogEntryDiscarded(_) => StoreError::Replaced { shard },
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

/// What other nodes see of the groups of this one.
pub(crate) struct Seen {
    pub members: Arc<Members>,
    pub log: Arc<Log>,
}

impl Groups for Seen {
    fn group(&self, number: Shard) -> Option<(Group, Arc<Heard>)> {
        self.members.get(number).map(|member| (member.raft.clone(), member.heard.clone()))
    }

    fn writing_for(&self) -> Option<Duration> {
        self.log.writing_for(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use openraft::errors::ForwardToLeader;

    use super::*;

    #[test]
    fn r92_a_leader_that_was_replaced_has_not_failed() {
        let elsewhere = ForwardToLeader::empty();
        let told = refused(3, &ClientWriteError::ForwardToLeader(elsewhere.clone()));
        assert!(matches!(told, StoreError::NotLeader { shard: 3 }), "{told}");
        let told = refused(3, &ClientWriteError::LogEntryDiscarded(elsewhere));
        assert!(matches!(told, StoreError::Replaced { shard: 3 }), "{told}");
    }
}
