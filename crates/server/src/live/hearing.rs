//! Hearing what happens, here and on all other nodes.
//!
//! While somebody listens at this node, there is one stream from each other node that is up, for all
//! who listen. One that breaks is opened again. Whoever listens is told that something may have been
//! missed: when a stream breaks, and when one is opened later than the listening began.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bellwether_protocol::node::v1;
use futures::future::join_all;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::cluster::wire::live::decode_news;
use crate::cluster::{ANSWER_WITHIN, Cluster};
use crate::node::{News, Node};

/// How often it is looked for nodes that are not heard.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// News of other nodes that are kept for a listener that is slow.
const KEPT: usize = 4_096;

/// The streams from other nodes. They end with whoever listens last.
pub struct Hearing {
    news: broadcast::Sender<Arc<News>>,
    begun: watch::Receiver<bool>,
    _stop: DropGuard,
}

impl Hearing {
    /// Begins to hear all other nodes.
    pub fn begin(cluster: Arc<Cluster>) -> Arc<Hearing> {
        let (news, _) = broadcast::channel(KEPT);
        let (begin, begun) = watch::channel(false);
        let stop = CancellationToken::new();
        let streams = Streams { cluster, news: news.clone(), heard: BTreeSet::new() };
        let hearing = Hearing { news, begun, _stop: stop.clone().drop_guard() };
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = streams.keep(begin) => {}
            }
        });
        Arc::new(hearing)
    }
}

struct Streams {
    cluster: Arc<Cluster>,
    news: broadcast::Sender<Arc<News>>,
    /// The nodes that are heard.
    heard: BTreeSet<u64>,
}

impl Streams {
    async fn keep(mut self, begin: watch::Sender<bool>) {
        let mut interval = tokio::time::interval(LOOK_EVERY);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // Ended together with this task.
        let mut streams = JoinSet::new();
        loop {
            tokio::select! {
                _ = interval.tick() => {}
                Some(ended) = streams.join_next() => {
                    if let Ok(node) = ended {
                        self.heard.remove(&node);
                    }
                    self.tell_missed();
                    continue;
                }
            }
            for (node, stream) in self.open().await {
                if *begin.borrow() {
                    self.tell_missed();
                }
                self.heard.insert(node);
                streams.spawn(pass_on(node, stream, self.news.clone()));
            }
            begin.send_replace(true);
        }
    }

    /// Opens streams from nodes that are up and not heard.
    async fn open(&self) -> Vec<(u64, tonic::Streaming<v1::News>)> {
        let (up, _) = self.cluster.others();
        let unheard = up.into_iter().filter(|other| !self.heard.contains(&other.node));
        let opening = unheard.map(|other| async move {
            Some((other.node, self.cluster.listen_to(other.node).await?))
        });
        join_all(opening).await.into_iter().flatten().collect()
    }

    fn tell_missed(&self) {
        let _ = self.news.send(Arc::new(News::Missed(0)));
    }
}

/// Passes on what a node tells until its stream ends, however it does. Which node it was.
async fn pass_on(
    node: u64,
    mut stream: tonic::Streaming<v1::News>,
    news: broadcast::Sender<Arc<News>>,
) -> u64 {
    while let Ok(Some(told)) = stream.message().await {
        // What is not understood is of a newer version.
        let told = decode_news(told).unwrap_or(News::Missed(1));
        let _ = news.send(Arc::new(told));
    }
    tracing::debug!(node, "what happens on a node is not heard any more");
    node
}

/// Somebody who listens to what happens.
pub struct Listening {
    node: Arc<Node>,
    here: broadcast::Receiver<Arc<News>>,
    /// What happens on other nodes, unless another node listens.
    afar: Option<(Arc<Hearing>, broadcast::Receiver<Arc<News>>)>,
}

impl Listening {
    /// The next that happens; `None` if this node is about to stop and nobody here hears more.
    pub async fn next(&mut self) -> Option<Arc<News>> {
        let heard = match &mut self.afar {
            None => self.here.recv().await,
            Some((_, afar)) => tokio::select! {
                () = self.node.stop.cancelled() => return None,
                heard = self.here.recv() => heard,
                heard = afar.recv() => heard,
            },
        };
        match heard {
            Ok(news) => Some(news),
            Err(RecvError::Lagged(count)) => Some(Arc::new(News::Missed(count))),
            Err(RecvError::Closed) => None,
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.node.unlisten();
    }
}

impl Node {
    /// Starts listening to what happens in shards that act here, until it is dropped.
    #[must_use]
    pub fn listen_here(self: &Arc<Self>) -> Listening {
        let here = self.notices.subscribe();
        // The shards are told under the lock, so that they hear it in the right order.
        let mut listeners = self.listeners.lock();
        *listeners += 1;
        if *listeners == 1 {
            for shard in &self.shards {
                shard.listen(true);
            }
        }
        drop(listeners);
        Listening { node: self.clone(), here, afar: None }
    }

    /// Starts listening to what happens anywhere, until it is dropped. When this returns, all nodes
    /// tell that answer in time.
    pub async fn listen(self: &Arc<Self>) -> Listening {
        let mut listening = self.listen_here();
        let hearing = self.hear();
        let afar = hearing.news.subscribe();
        let mut begun = hearing.begun.clone();
        let _ = tokio::time::timeout(2 * ANSWER_WITHIN, begun.wait_for(|begun| *begun)).await;
        listening.afar = Some((hearing, afar));
        listening
    }

    fn hear(&self) -> Arc<Hearing> {
        let mut known = self.hearing.lock();
        if let Some(hearing) = known.upgrade() {
            return hearing;
        }
        let hearing = Hearing::begin(self.cluster.clone());
        *known = Arc::downgrade(&hearing);
        hearing
    }

    fn unlisten(&self) {
        let mut listeners = self.listeners.lock();
        *listeners -= 1;
        if *listeners == 0 {
            for shard in &self.shards {
                shard.listen(false);
            }
        }
    }
}
