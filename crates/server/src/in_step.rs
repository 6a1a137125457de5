//! What this node has in memory of shard 0, kept in step with what is stored: other nodes change it.
//!
//! That is tokens and bounds of queues. A node has no replica of shard 0 when it has just joined and
//! when it leaves; it asks others then, and keeps what it knows while nobody answers.

use std::sync::Arc;
use std::time::Duration;

use bellwether_core::waist::StoreError;
use tokio_util::sync::CancellationToken;

use crate::node::Node;

/// How often it is looked for what other nodes have changed.
const EVERY: Duration = Duration::from_millis(500);

/// Reads all tokens that there are, so that it is known of every other that nobody knows it. If nobody
/// can say which there are, that has to wait.
pub async fn read_all_tokens(node: &Arc<Node>) {
    if !node.is_alone() && (node.cluster.leader(0).is_none() || !is_level(node).await) {
        return;
    }
    match read(node).await {
        Ok(()) => node.tokens.are_complete(),
        Err(error) => tracing::warn!(%error, "the tokens of the cluster cannot be read yet"),
    }
}

/// Whether a view shows all there is from here on.
async fn is_level(node: &Node) -> bool {
    let level = node.cluster.catch_up(0).await;
    level.inspect_err(|error| tracing::debug!(%error, "the tokens cannot be read yet")).is_ok()
}

/// Reads it anew. Other nodes may be asked for it, which takes its time where they do not answer.
async fn read(node: &Arc<Node>) -> Result<(), StoreError> {
    let node = node.clone();
    let reading = tokio::task::spawn_blocking(move || {
        node.tokens.reload(|| node.view())?;
        node.load_queues()
    });
    reading.await.unwrap_or(Err(StoreError::Closed))
}

/// Keeps it in step until told to stop.
pub async fn keep_in_step(node: Arc<Node>, stop: CancellationToken) {
    let mut interval = tokio::time::interval(EVERY);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = interval.tick() => {}
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = look(&node) => {}
        }
    }
}

async fn look(node: &Arc<Node>) {
    if !node.tokens.is_complete() {
        read_all_tokens(node).await;
    } else if !node.cluster.book.is_empty() {
        match read(node).await {
            Ok(()) => {}
            Err(StoreError::Unreachable { .. }) => {
                tracing::debug!("what other nodes have changed cannot be read elsewhere");
            }
            Err(error) => {
                tracing::error!(%error, "what other nodes have changed cannot be read");
            }
        }
    }
}
