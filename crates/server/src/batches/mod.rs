//! Batches: for each that is not over, somebody who sees to it, on the node on which its home acts.
//!
//! What is to be done is decided in [`bellwether_core::batch`]; here it is asked of the shards, one
//! step after the other. A step that was cut short by a crash is taken again: nothing here keeps
//! state that is not stored.

mod drive;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, OnceLock, Weak};

use bellwether_core::id::BatchId;
use bellwether_core::read;
use bellwether_core::waist::{Shard, StoreError};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::node::Node;

/// The batches that are not over.
#[derive(Default)]
pub struct Batches {
    open: Mutex<BTreeMap<BatchId, Arc<Notify>>>,
    tasks: TaskTracker,
    stop: CancellationToken,
    /// The node, once there is one, and what its tasks run on.
    node: OnceLock<(Weak<Node>, Handle)>,
}

impl Batches {
    /// Makes the node known. To be called within its runtime.
    pub fn belong_to(&self, node: &Arc<Node>) {
        let _ = self.node.set((Arc::downgrade(node), Handle::current()));
    }

    /// Says that a batch, or the part of it in a shard that acts here, has changed. If the batch is at
    /// home in that shard, it is seen to from now on: whoever brought it may be another node.
    pub fn changed(&self, id: BatchId, shard: Shard) {
        if let Some(news) = self.open.lock().get(&id) {
            news.notify_one();
            return;
        }
        if id.shard() == shard
            && let Some((node, _)) = self.node.get()
            && let Some(node) = node.upgrade()
        {
            self.see_to(&node, id);
        }
    }

    /// Sees to a batch from now on.
    pub fn see_to(&self, node: &Arc<Node>, id: BatchId) {
        let news = Arc::new(Notify::new());
        match self.open.lock().entry(id) {
            Entry::Vacant(place) if !self.stop.is_cancelled() => place.insert(news.clone()),
            _ => return,
        };
        let (node, stop) = (node.clone(), self.stop.clone());
        let seeing_to = async move {
            let done = tokio::select! {
                done = drive::drive(&node, id, &news) => done,
                () = stop.cancelled() => true,
            };
            node.batches.open.lock().remove(&id);
            // This node may have come to lead its home again before that: then nobody was let in.
            if !done && drive::is_here(&node, id) {
                node.batches.see_to(&node, id);
            }
        };
        // Shards have threads of their own, which belong to no runtime.
        if let Some((_, runtime)) = self.node.get() {
            self.tasks.spawn_on(seeing_to, runtime);
        }
    }

    /// Goes on with all batches of a shard that are not over.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn go_on(&self, node: &Arc<Node>, shard: Shard) -> Result<(), StoreError> {
        for id in read::batches_to_go_on_with(&*node.view(), shard)? {
            self.see_to(node, id);
        }
        Ok(())
    }

    /// Leaves everything as it is.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
