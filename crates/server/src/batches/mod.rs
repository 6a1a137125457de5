//! Batches: for each that is not over, somebody who sees to it.
//!
//! What is to be done is decided in [`bellwether_core::batch`]; here it is asked of the shards, one
//! step after the other. A step that was cut short by a crash is taken again: nothing here keeps
//! state that is not stored.

mod drive;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use bellwether_core::id::BatchId;
use bellwether_core::read;
use bellwether_core::waist::{Shard, StoreError};
use parking_lot::Mutex;
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
}

impl Batches {
    /// Says that a batch, or a part of it, has changed.
    pub fn changed(&self, id: BatchId) {
        if let Some(news) = self.open.lock().get(&id) {
            news.notify_one();
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
        self.tasks.spawn(async move {
            tokio::select! {
                () = drive::drive(&node, id, &news) => {}
                () = stop.cancelled() => {}
            }
            node.batches.open.lock().remove(&id);
        });
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
