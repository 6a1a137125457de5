//! A server as one node of a cluster: who it is, who the others are, and what they say to one
//! another.
//!
//! ```text
//!   Book ◄── attend: every node tells every other how it stands
//!    │
//!    ├─► passing: what a shard is asked goes to the node that leads it
//!    ├─► live, workers: what is in memory of one node only, for those who ask another
//!    ├─► bounding: what shards may have of queues with bounds, as the node of shard 0 divides it
//!    ├─► reading: how far a replica must be to show all that anybody was told of
//!    ├─► far: rows of shards that this node has no replica of
//!    ├─► level, listing: how old what replicas show may be, and lists that say so
//!    └─► manage: the leader of shard 0 sees to it that replicas and leaders are where they should be
//! ```
//! Each shard has its leader on one node; any node takes requests and workers, and passes what it
//! gets on to the node that leads the shard. The language of that is in [`wire`]. Not here: how
//! shards are replicated, which is for `bellwether-raft`, and what a shard decides, which is for
//! `bellwether_core::turn`.

mod attend;
mod awake;
mod book;
mod bounding;
mod claims;
mod clocks;
mod far;
mod founding;
mod holders;
mod identity;
mod join;
pub mod join_id;
mod kept;
mod leases;
mod level;
mod listing;
mod live;
mod manage;
mod passing;
mod reading;
mod service;
mod steps;
mod strays;
pub mod welcome;
pub mod wire;
mod workers;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bellwether_core::read;
use bellwether_core::record::NodeRow;
use bellwether_core::time::Time;
use bellwether_core::waist::{Shard, StoreError};
use bellwether_protocol::node::v1::live_client::LiveClient;
use bellwether_protocol::node::v1::nodes_client::NodesClient;
use bellwether_raft::engine::RaftEngine;
use bellwether_raft::net::{Dialing, Way};
use bellwether_raft::types::Peer;
use bellwether_store::Engine;
use parking_lot::{Mutex, RwLock};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::bounds::Desk;
use crate::shard::{Holding, Office, ShardHandle};

use book::Book;
pub use book::Known;
pub use claims::Hands;
pub use far::rows_service;
pub use founding::Waiting;
pub use holders::Holders;
pub use identity::NodeIdentity;
pub use join::{Joined, join};
pub use leases::{Lease, Leased};
pub use listing::{Listing, TooOld};
pub use live::{ANSWER_WITHIN, Other};
pub use passing::Passing;
pub use service::service;

/// The largest message that is sent or taken.
pub const MESSAGE_MAX: usize = 256 * 1024 * 1024;

/// This node's part in its cluster.
pub struct Cluster {
    /// Which node it is.
    pub identity: NodeIdentity,
    engine: Arc<RaftEngine>,
    shards: Vec<ShardHandle>,
    /// This node as the cluster knows it.
    row: RwLock<NodeRow>,
    started: Time,
    /// The other nodes.
    pub book: Book,
    dialing: Dialing,
    /// How long a node may be down before others take its place, when this one sees to that.
    replace_after: Duration,
    /// Ways to other nodes, by number and address.
    ways: Mutex<BTreeMap<(u64, String), Way>>,
    /// The same for what is live: on connections of their own, since much may go over them.
    live_ways: Mutex<BTreeMap<(u64, String), LiveClient<Way>>>,
    /// Which shards are read here and which elsewhere.
    far: far::Far,
    /// How old what the own replicas show may be.
    levels: level::Levels,
    awake: awake::Awake,
    /// The workers of this node, once it has any.
    hands: OnceLock<Hands>,
    /// The workers of other nodes that hold runs of shards that act here.
    pub holders: Arc<Holders>,
    /// Where the bounds of queues are talked about.
    pub desk: Arc<Desk>,
    /// What waits in shards that act elsewhere, and under which term they said so.
    heads: Mutex<BTreeMap<Shard, (u64, Vec<wire::claims::Head>)>>,
    /// The terms whose leaders and this node agree on what is with its workers.
    settled: Mutex<BTreeMap<Shard, u64>>,
    /// Shards of which a claim was left open, and when the leader was asked about it.
    unsure: Mutex<BTreeMap<Shard, Instant>>,
    /// When this node was last in touch with the leaders of shards, by the clock of leases.
    touched: Mutex<BTreeMap<Shard, u64>>,
    /// Bytes on disk, and when they were counted: that means looking at every file.
    disk: Mutex<Option<(Instant, attend::Sizes)>>,
    /// Since when there are other nodes, by the clock of leases.
    company: Mutex<Option<u64>>,
    /// Held, by shard, while it is changed here who takes part in it or leads it.
    changes: Vec<tokio::sync::Mutex<()>>,
    /// Set once shards can act here.
    office: OnceLock<Office>,
    /// Whoever acts for shards.
    pub acting: TaskTracker,
    /// For which shards.
    holding: Arc<Holding>,
    stopping: AtomicBool,
    /// Whether others have said that this node is to leave the cluster.
    leaving: AtomicBool,
    /// Cancelled once this node has heard that it was removed from the cluster.
    pub removed: CancellationToken,
}

impl Cluster {
    /// A node that has yet to be heard.
    #[must_use]
    pub fn new(
        identity: NodeIdentity,
        engine: Arc<RaftEngine>,
        shards: Vec<ShardHandle>,
        row: NodeRow,
        started: Time,
        dialing: Dialing,
        replace_after: Duration,
    ) -> Arc<Cluster> {
        Arc::new(Cluster {
            identity,
            engine,
            desk: Arc::new(Desk::new(shards.clone())),
            changes: shards.iter().map(|_| tokio::sync::Mutex::default()).collect(),
            shards,
            row: RwLock::new(row),
            started,
            book: Book::default(),
            dialing,
            replace_after,
            ways: Mutex::default(),
            live_ways: Mutex::default(),
            far: far::Far::default(),
            levels: level::Levels::default(),
            awake: awake::Awake::default(),
            hands: OnceLock::new(),
            holders: Arc::default(),
            heads: Mutex::default(),
            settled: Mutex::default(),
            unsure: Mutex::default(),
            touched: Mutex::default(),
            disk: Mutex::default(),
            company: Mutex::default(),
            office: OnceLock::new(),
            acting: TaskTracker::new(),
            holding: Arc::default(),
            stopping: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            removed: CancellationToken::new(),
        })
    }

    /// This node as the cluster knows it.
    #[must_use]
    pub fn row(&self) -> NodeRow {
        self.row.read().clone()
    }

    /// Makes the workers of this node known.
    pub fn set_hands(&self, hands: Hands) {
        let _ = self.hands.set(hands);
    }

    /// From here on shards act here when this node leads them.
    pub fn open(&self, office: Office) {
        let _ = self.office.set(office);
        self.look_what_is_here();
        self.hold_all();
    }

    /// Sees to it that somebody acts for every shard that this node has a replica of, if it leads it.
    fn hold_all(&self) {
        for shard in self.engine.replicas() {
            self.hold(shard);
        }
    }

    fn hold(&self, shard: Shard) {
        if let (Some(office), Some(handle)) =
            (self.office.get(), self.shards.get(usize::from(shard)))
            && self.holding.take(shard)
        {
            let holding = self.holding.clone();
            self.acting.spawn(office.clone().hold(handle.clone(), holding));
        }
    }

    /// Takes note of what is stored about the nodes.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn read_nodes(&self) -> Result<(), StoreError> {
        if self.engine.has(0) {
            let rows = read::nodes(&*self.engine.view(), 0)?;
            if let Some(own) = rows.iter().find(|row| row.node == self.identity.node) {
                let mut row = self.row.write();
                // Where it is reached it knows best: it may have been started anew elsewhere.
                *row = NodeRow {
                    peer_address: row.peer_address.clone(),
                    api_address: row.api_address.clone(),
                    zone: row.zone.clone(),
                    replicas: row.replicas,
                    ..own.clone()
                };
            }
            self.book.set_rows(self.identity.node, rows);
        }
        Ok(())
    }

    /// Who leads a shard, as far as is known.
    #[must_use]
    pub fn leader(&self, shard: Shard) -> Option<u64> {
        // A replica that was started just now knows nobody yet.
        self.engine.leader(shard).or_else(|| self.book.leader(shard))
    }

    /// How a node is reached by the groups that it takes part in.
    fn peer(&self, node: u64) -> Option<Peer> {
        let row = if node == self.identity.node { self.row() } else { self.book.get(node)?.row };
        Some(Peer { address: row.peer_address, zone: row.zone })
    }

    /// The way to a node.
    fn to(&self, node: u64) -> io::Result<NodesClient<Way>> {
        let way = NodesClient::new(self.way_to(node)?);
        Ok(way.max_decoding_message_size(MESSAGE_MAX).max_encoding_message_size(MESSAGE_MAX))
    }

    fn way_to(&self, node: u64) -> io::Result<Way> {
        let place = (node, self.address(node)?);
        if let Some(way) = self.ways.lock().get(&place) {
            return Ok(way.clone());
        }
        let way = self.dial(&place)?;
        self.ways.lock().insert(place, way.clone());
        Ok(way)
    }

    /// Where a node is reached.
    fn address(&self, node: u64) -> io::Result<String> {
        let address = self.book.address(node).filter(|address| !address.is_empty());
        address.ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("node {node} cannot be reached"))
        })
    }

    /// A new way to a node at an address.
    fn dial(&self, (node, address): &(u64, String)) -> io::Result<Way> {
        self.dialing.way_to(address, &self.identity.cluster, *node)
    }

    /// This node does not belong to the cluster any more.
    fn was_removed(&self) {
        if !self.removed.is_cancelled() {
            tracing::error!(
                node = self.identity.node,
                cluster = self.identity.cluster,
                "this node was removed from its cluster and takes part no more"
            );
            self.removed.cancel();
        }
    }

    /// This node is about to stop: it is not to be given anything to lead, and gives away what it
    /// leads. Returns once it has, or cannot.
    pub async fn retire(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        if self.book.is_empty() {
            return;
        }
        self.tell_all().await;
        self.give_away().await;
    }
}
